package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a huge page on amd64, and on arm64 with pages of 4 KB.
const hugePage = 2 << 20

// adviseHugePages asks the system for huge pages under x, which has just been made. A CPU keeps the
// addresses of some thousands of pages; with huge pages these cover 512 times the memory. Where the
// system refuses, x stays as it is.
func adviseHugePages(x []float32) {
	if len(x) == 0 {
		return
	}
	begin := uintptr(unsafe.Pointer(&x[0]))
	from := (begin+hugePage-1)&^(hugePage-1) - begin
	if to := (begin+uintptr(4*len(x)))&^(hugePage-1) - begin; from < to && to <= uintptr(4*len(x)) {
		_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))[from:to], unix.MADV_HUGEPAGE)
	}
}

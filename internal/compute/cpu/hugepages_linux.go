package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of the larger pages of amd64 and, with pages of 4 KB, arm64.
const hugePage = 2 << 20

// adviseHugePages asks for large pages under x, which has not been written yet: addresses of an arena are then translated by a five-hundredth of the entries,
// of which a CPU keeps few. Where the system refuses, x stays as it is.
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

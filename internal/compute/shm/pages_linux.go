//go:build amd64 || arm64

package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// replacePages puts other pages in place of those at an address: a file's, or new ones that are
// zero.
func replacePages(begin, length uintptr, fd int, flags uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, begin, length, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED, uintptr(fd), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// movePages moves pages of this process to an address, in place of those that are there.
func movePages(begin uintptr, pages []byte) error {
	from, length := uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages))
	_, _, errno := unix.Syscall6(unix.SYS_MREMAP, from, length, length, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, begin, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

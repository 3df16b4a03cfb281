//go:build amd64 || arm64

package shm

import "golang.org/x/sys/unix"

// replacePages puts other pages in place of those at an address: a file's, or new ones that are zero.
func replacePages(begin, length uintptr, fd int, flags uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, begin, length, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED, uintptr(fd), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

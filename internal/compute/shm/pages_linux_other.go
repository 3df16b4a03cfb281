//go:build linux && !amd64 && !arm64

package shm

import "golang.org/x/sys/unix"

// replacePages is not known for this processor's way of calling the system.
func replacePages(begin, length uintptr, fd int, flags uintptr) error { return unix.ENOSYS }

func movePages(begin uintptr, pages []byte) error { return unix.ENOSYS }

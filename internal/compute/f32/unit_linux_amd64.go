package f32

import (
	"fmt"
	"syscall"
)

// requestTiles asks the kernel for tile registers, which it gives to processes that ask. The
// permission holds for all threads, also those made before, and for children, but not for a program
// that they execute. A thread's saved state grows by 8 KB when it first uses tiles. So the kernel
// refuses if some thread's stack for signals is too small (Go's have 32 KB, a frame with tiles
// takes 11), and where it is older than Linux 5.16 or a sandbox forbids the call.
func requestTiles() (granted bool, err error) {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	if _, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0); errno != 0 {
		return false, fmt.Errorf("arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA): %w", errno)
	}
	return true, nil
}

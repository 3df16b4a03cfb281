package f32

import "syscall"

// requestTiles asks the kernel for tile registers, which it gives to processes that ask (they make each saved state 8 KB larger). The permission
// holds for all threads, also those made before.
func requestTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}

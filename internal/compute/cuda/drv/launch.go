package drv

import (
	"fmt"
	"unsafe"
)

// Launch puts a kernel into a stream: a grid of blocks of threads, each block with that much
// dynamic shared memory. params are the kernel's parameters one after another, each aligned to its
// own size, little-endian; they are copied before Launch returns, 4096 bytes at most.
func (t *Thread) Launch(f Function, grid, block [3]uint32, sharedBytes uint32, s Stream, params []byte) error {
	if len(params) > maxParams {
		return fmt.Errorf("drv: launch on cuda:%d: %d bytes of parameters, want at most %d", t.ordinal, len(params), maxParams)
	}
	t.bytes = uintptr(copy(t.params[:], params))
	t.extra = [5]uintptr{launchParamBufferPointer, uintptr(unsafe.Pointer(&t.params)),
		launchParamBufferSize, uintptr(unsafe.Pointer(&t.bytes)), launchParamEnd}
	code := t.call(t.driver.f.cuLaunchKernel, uintptr(f), uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]), uintptr(sharedBytes), uintptr(s), 0, uintptr(unsafe.Pointer(&t.extra)))
	if code != success {
		return t.fail(code, "cuLaunchKernel of grid %v, block %v, %d bytes of shared memory and %d of parameters", grid, block, sharedBytes, len(params))
	}
	return nil
}

package drv

import (
	"fmt"
	"unsafe"
)

// A Ptr is an address in a GPU's memory. 0 is none.
type Ptr uint64

// Malloc takes memory on the GPU, aligned to 256 bytes, with whatever it held before.
func (t *Thread) Malloc(bytes int64) (Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("drv: malloc of %d bytes on cuda:%d: %w", bytes, t.ordinal, errNotPositive)
	}
	if code := t.call(t.driver.f.cuMemAlloc, t.number(), uintptr(bytes)); code != success {
		return 0, t.fail(code, "cuMemAlloc_v2 of %d bytes", bytes)
	}
	return Ptr(t.num[0]), nil
}

// Free gives memory of Malloc back. It may wait for everything that the GPU is at. Free of 0 does
// nothing.
func (t *Thread) Free(p Ptr) error {
	if p == 0 {
		return nil
	}
	if code := t.call(t.driver.f.cuMemFree, uintptr(p)); code != success {
		return t.fail(code, "cuMemFree_v2 of %#x", p)
	}
	return nil
}

// MemInfo returns how many bytes of the GPU's memory are free, and how many there are.
func (t *Thread) MemInfo() (free, total int64, err error) {
	if code := t.call(t.driver.f.cuMemGetInfo, t.number(), uintptr(unsafe.Pointer(&t.num[1]))); code != success {
		return 0, 0, t.fail(code, "cuMemGetInfo_v2")
	}
	return int64(t.num[0]), int64(t.num[1]), nil
}

// HostAlloc takes pinned memory of the host, which GPUs copy from and to while others work. It is
// not of the Go heap: it stays until HostFree or the last Close, and must not be touched after.
func (t *Thread) HostAlloc(bytes int64) ([]byte, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("drv: host alloc of %d bytes on cuda:%d: %w", bytes, t.ordinal, errNotPositive)
	}
	if code := t.call(t.driver.f.cuMemHostAlloc, uintptr(unsafe.Pointer(&t.out)), uintptr(bytes), hostAllocPortable); code != success {
		return nil, t.fail(code, "cuMemHostAlloc of %d bytes", bytes)
	}
	p := t.out
	t.out = nil
	return unsafe.Slice((*byte)(p), int(bytes)), nil
}

// HostFree gives memory of HostAlloc back. b is the slice of HostAlloc, or begins where it did.
func (t *Thread) HostFree(b []byte) error {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if code := t.call(t.driver.f.cuMemFreeHost, uintptr(p)); code != success {
		return t.fail(code, "cuMemFreeHost of %d bytes at %#x", len(b), uintptr(p))
	}
	return nil
}

// HostRegister pins memory that the process has already, such as that of shm.Float32s. The driver
// pins whole pages, and a page once: memory should begin and end with pages of its own. It may be
// of the Go heap (never of a stack); it is kept until HostUnregister.
func (c *Context) HostRegister(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("drv: host register on cuda:%d: no bytes", c.ordinal)
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	c.mu.Lock()
	_, there := c.registered[p]
	if !there {
		c.registered[p] = struct{}{}
	}
	c.mu.Unlock()
	if there {
		return fmt.Errorf("drv: host register of %d bytes at %#x on cuda:%d: it is registered", len(b), uintptr(p), c.ordinal)
	}
	if code := c.call(c.driver.f.cuMemHostRegister, uintptr(p), uintptr(len(b)), hostRegisterPortable); code != success {
		c.forget(p)
		return c.fail(code, "cuMemHostRegister_v2 of %d bytes at %#x", len(b), uintptr(p))
	}
	return nil
}

// HostUnregister ends what HostRegister of the same slice began. No copy may be under way.
func (c *Context) HostUnregister(b []byte) error {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if code := c.call(c.driver.f.cuMemHostUnregister, uintptr(p)); code != success {
		return c.fail(code, "cuMemHostUnregister of %d bytes at %#x", len(b), uintptr(p))
	}
	c.forget(p)
	return nil
}

func (c *Context) forget(p unsafe.Pointer) {
	c.mu.Lock()
	delete(c.registered, p)
	c.mu.Unlock()
}

package drv

import "unsafe"

// CopyToDevice copies n bytes of pinned host memory to the GPU, in the stream's order. src is read
// then, not now.
func (t *Thread) CopyToDevice(dst Ptr, src unsafe.Pointer, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	t.hold = src
	code := t.call(t.driver.f.cuMemcpyHtoDAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
	t.hold = nil
	if code != success {
		return t.fail(code, "cuMemcpyHtoDAsync_v2 of %d bytes from %#x to %#x", n, uintptr(src), dst)
	}
	return nil
}

// CopyToHost copies n bytes from the GPU to pinned host memory, in the stream's order. dst holds
// them once the stream has passed the copy.
func (t *Thread) CopyToHost(dst unsafe.Pointer, src Ptr, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	t.hold = dst
	code := t.call(t.driver.f.cuMemcpyDtoHAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
	t.hold = nil
	if code != success {
		return t.fail(code, "cuMemcpyDtoHAsync_v2 of %d bytes from %#x to %#x", n, src, uintptr(dst))
	}
	return nil
}

// CopyOnDevice copies n bytes within the GPU's memory, in the stream's order. The two ranges do not
// overlap.
func (t *Thread) CopyOnDevice(dst, src Ptr, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	if code := t.call(t.driver.f.cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s)); code != success {
		return t.fail(code, "cuMemcpyDtoDAsync_v2 of %d bytes from %#x to %#x", n, src, dst)
	}
	return nil
}

// CopyPeer copies n bytes from one GPU's memory to another's, in the order of s, a stream of the
// context that t is a thread of.
func (t *Thread) CopyPeer(dst Ptr, to *Context, src Ptr, from *Context, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	if code := t.call(t.driver.f.cuMemcpyPeerAsync, uintptr(dst), to.handle, uintptr(src), from.handle, uintptr(n), uintptr(s)); code != success {
		return t.fail(code, "cuMemcpyPeerAsync of %d bytes from %#x of cuda:%d to %#x of cuda:%d", n, src, from.ordinal, dst, to.ordinal)
	}
	return nil
}

// Memset8 sets n bytes to v, in the stream's order.
func (t *Thread) Memset8(dst Ptr, v byte, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	if code := t.call(t.driver.f.cuMemsetD8Async, uintptr(dst), uintptr(v), uintptr(n), uintptr(s)); code != success {
		return t.fail(code, "cuMemsetD8Async of %d bytes at %#x", n, dst)
	}
	return nil
}

// Memset32 sets n words of 4 bytes to v, in the stream's order. dst is aligned to 4.
func (t *Thread) Memset32(dst Ptr, v uint32, n int64, s Stream) error {
	if n == 0 {
		return nil
	}
	if code := t.call(t.driver.f.cuMemsetD32Async, uintptr(dst), uintptr(v), uintptr(n), uintptr(s)); code != success {
		return t.fail(code, "cuMemsetD32Async of %d words at %#x", n, dst)
	}
	return nil
}

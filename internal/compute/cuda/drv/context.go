package drv

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// A Context is a GPU in use, with the thread on which work is given to it. Two Contexts of one GPU
// share its memory and its fate: they are the GPU's primary context, which NVIDIA's other libraries
// use too.
type Context struct {
	*Thread
	info   DeviceInfo
	device int32
	handle uintptr // CUcontext

	mu         sync.Mutex
	closed     bool
	threads    []*Thread
	registered map[unsafe.Pointer]struct{} // keeps registered memory from being collected
}

// NewContext takes a GPU into use.
func (d *Driver) NewContext(ordinal int) (*Context, error) {
	d.mu.Lock()
	info, err := d.describe(ordinal)
	var device int32
	if err == nil {
		device, err = d.device(ordinal)
	}
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c := &Context{info: info, device: device, registered: make(map[unsafe.Pointer]struct{})}
	c.Thread, err = start(d, ordinal, c.retain, c.release)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Context) retain(t *Thread) error {
	if code := t.call(t.driver.f.cuDevicePrimaryCtxRetain, t.number(), uintptr(c.device)); code != success {
		return t.fail(code, "cuDevicePrimaryCtxRetain")
	}
	c.handle = t.num[0]
	if err := c.enter(t); err != nil {
		t.call(t.driver.f.cuDevicePrimaryCtxRelease, uintptr(c.device))
		return err
	}
	return nil
}

// enter makes the context current on a thread.
func (c *Context) enter(t *Thread) error {
	if code := t.call(t.driver.f.cuCtxSetCurrent, c.handle); code != success {
		return t.fail(code, "cuCtxSetCurrent")
	}
	return nil
}

// leave is the opposite of enter. What it answers changes nothing: the thread ends.
func (c *Context) leave(t *Thread) error {
	t.call(t.driver.f.cuCtxSetCurrent, 0)
	return nil
}

// release gives the GPU back. Memory that is registered still must be let go of here, since another
// Context may keep the GPU's context alive.
func (c *Context) release(t *Thread) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.registered) > 0 {
		t.blocking(&nameCtxSynchronize, t.driver.f.cuCtxSynchronize)
		for p := range c.registered {
			t.call(t.driver.f.cuMemHostUnregister, uintptr(p))
		}
		clear(c.registered)
	}
	c.leave(t)
	t.call(t.driver.f.cuDevicePrimaryCtxRelease, uintptr(c.device))
	return nil
}

// Info describes the GPU.
func (c *Context) Info() DeviceInfo { return c.info }

// Handle returns the CUcontext, for other libraries.
func (c *Context) Handle() uintptr { return c.handle }

// Driver returns the driver that the context came from.
func (c *Context) Driver() *Driver { return c.driver }

// NewThread starts a further OS thread with the same context: for waiting beside the context's own.
// Close of the context closes it.
func (c *Context) NewThread() (*Thread, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("drv: new thread on cuda:%d: the context is %w", c.ordinal, ErrClosed)
	}
	t, err := start(c.driver, c.ordinal, c.enter, c.leave)
	if err != nil {
		return nil, err
	}
	c.threads = append(slices.DeleteFunc(c.threads, (*Thread).ended), t)
	return t, nil
}

// ended says whether a thread is gone.
func (t *Thread) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Close ends the threads and gives the GPU back. It waits for what they are at, 20 s at most.
// Memory, streams and the like that were not given back go with the GPU's last Context. Closing
// twice is harmless.
func (c *Context) Close() error {
	c.mu.Lock()
	threads := c.threads
	c.threads, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, t := range threads {
		errs = append(errs, t.Close())
	}
	return errors.Join(append(errs, c.Thread.Close())...)
}

// SynchronizeAll waits until the GPU has done everything that this process gave it.
func (c *Context) SynchronizeAll() error {
	if code := c.blocking(&nameCtxSynchronize, c.driver.f.cuCtxSynchronize); code != success {
		return c.fail(code, "cuCtxSynchronize")
	}
	return nil
}

// CanAccess says whether kernels of this GPU can read and write the other's memory directly.
func (c *Context) CanAccess(other *Context) (bool, error) {
	if code := c.call(c.driver.f.cuDeviceCanAccessPeer, c.number(), uintptr(c.device), uintptr(other.device)); code != success {
		return false, c.fail(code, "cuDeviceCanAccessPeer to cuda:%d", other.ordinal)
	}
	return int32(c.num[0]) != 0, nil
}

// EnableAccess lets kernels of this GPU read and write the other's memory. CopyPeer works without
// it, through the host if need be.
func (c *Context) EnableAccess(other *Context) error {
	code := c.call(c.driver.f.cuCtxEnablePeerAccess, other.handle, 0)
	if code != success && code != errorPeerEnabled {
		return c.fail(code, "cuCtxEnablePeerAccess to cuda:%d", other.ordinal)
	}
	return nil
}

var (
	nameCtxSynchronize    = "cuCtxSynchronize"
	nameStreamSynchronize = "cuStreamSynchronize"
	nameEventSynchronize  = "cuEventSynchronize"
)

package drv_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/shm"
)

// complains fails unless the fake libraries complained of one thing, with this text in it.
func complains(t *testing.T, m *fake.Machine, what, text string) {
	t.Helper()
	c := m.Complaints()
	if len(c) != 1 || !strings.Contains(c[0], text) {
		t.Errorf("%s: complaints are %q, want one of %q", what, c, text)
	}
}

// code is the driver's name for what went wrong.
func code(err error) string {
	var e *drv.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return ""
}

// Memory is counted, and given back.
func TestMemoryIsCounted(t *testing.T) {
	r := newRig(t)
	r.m.Set("memory", 1<<20)
	r.do(func() error {
		p := must(r.ctx.Malloc(1000_000))(t)
		if p%256 != 0 {
			t.Errorf("memory at %#x, want a multiple of 256", p)
		}
		free, total, err := r.ctx.MemInfo()
		if err != nil || free != 1<<20-1000_000 || total != 1<<20 {
			t.Errorf("%d of %d bytes are free (%v), want %d of %d", free, total, err, 1<<20-1000_000, 1<<20)
		}
		if _, err := r.ctx.Malloc(100_000); !errors.Is(err, drv.ErrOutOfMemory) {
			t.Errorf("malloc beyond the end: got %v, want ErrOutOfMemory", err)
		}
		if err := firstErr(r.ctx.Free(p), r.ctx.Free(0)); err != nil {
			return err
		}
		if free, _, err := r.ctx.MemInfo(); err != nil || free != 1<<20 {
			t.Errorf("%d bytes are free (%v) after free, want %d", free, err, 1<<20)
		}
		for _, n := range []int64{0, -1} {
			if _, err := r.ctx.Malloc(n); err == nil {
				t.Errorf("malloc of %d bytes: no error", n)
			}
			if _, err := r.ctx.HostAlloc(n); err == nil {
				t.Errorf("host alloc of %d bytes: no error", n)
			}
		}
		return r.ctx.HostRegister(nil)
	}, "no bytes")
}

// Copies that go on after the call are of pinned memory alone, of either kind.
func TestAsyncCopiesNeedPinnedMemory(t *testing.T) {
	r := newRig(t)
	r.m.Set("seed", 1)

	// n is in numbers: four blocks of that size.
	const n = shm.MinBytes
	r.do(func() error {
		d := r.device(n)
		plain := make([]float32, n)
		if err := r.ctx.CopyToDevice(d, pointer(plain), 4*n, r.s); code(err) != "CUDA_ERROR_INVALID_VALUE" {
			t.Errorf("copy from memory that is not pinned: got %v", err)
		}
		complains(t, r.m, "copy to the device", "not pinned")
		if err := r.ctx.CopyToHost(pointer(plain), d, 4*n, r.s); code(err) != "CUDA_ERROR_INVALID_VALUE" {
			t.Errorf("copy to memory that is not pinned: got %v", err)
		}
		complains(t, r.m, "copy to the host", "not pinned")

		// What the store pushes from and pulls into.
		x := shm.Float32s(n)
		bytes := unsafe.Slice((*byte)(pointer(x)), 4*n)
		if err := r.ctx.HostRegister(bytes); err != nil {
			return err
		}
		if err := r.ctx.HostRegister(bytes[:8]); err == nil || !strings.Contains(err.Error(), "it is registered") {
			t.Errorf("registering twice: got %v", err)
		}
		if err := r.ctx.HostRegister(bytes[8:16]); code(err) != "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" {
			t.Errorf("registering a part of it: got %v", err)
		}
		fill(x, func(i int) float32 { return float32(i) })
		if err := firstErr(r.ctx.CopyToDevice(d, pointer(x), 4*n, r.s), r.launch("test_scale", r.s, d, float32(3), int32(n)),
			r.ctx.CopyToHost(pointer(x), d, 4*n, r.s), r.ctx.Synchronize(r.s)); err != nil {
			return err
		}
		check(t, "registered memory", x, func(i int) float32 { return 3 * float32(i) })
		if err := r.ctx.HostUnregister(bytes); err != nil {
			return err
		}
		if err := r.ctx.HostUnregister(bytes); code(err) != "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" {
			t.Errorf("unregistering twice: got %v", err)
		}
		r.m.Set("register_fails_at", 1)
		if err := r.ctx.HostRegister(bytes); !errors.Is(err, drv.ErrOutOfMemory) {
			t.Errorf("registering with no room: got %v", err)
		}

		// An attempt that failed leaves nothing behind.
		return r.ctx.HostRegister(bytes)
	})
}

// A copy reads host memory when its turn comes, so memory that changes before shows; and pinned
// memory that is freed under a copy breaks the GPU.
func TestPinnedMemoryIsReadLater(t *testing.T) {
	r := newRig(t)
	r.m.Set("seed", 1)
	r.do(func() error {
		x, y, d := r.pinned(1), r.pinned(1), r.device(1)
		x[0] = 1
		if err := r.ctx.CopyToDevice(d, pointer(x), 4, r.s); err != nil {
			return err
		}
		x[0] = 2
		if err := firstErr(r.ctx.CopyToHost(pointer(y), d, 4, r.s), r.ctx.Synchronize(r.s)); err != nil {
			return err
		}
		if y[0] != 2 {
			t.Errorf("got %v, want 2: the copy was done before it had to", y[0])
		}
		b := must(r.ctx.HostAlloc(4))(t)
		if err := firstErr(r.ctx.CopyToDevice(d, unsafe.Pointer(&b[0]), 4, r.s), r.ctx.HostFree(b)); err != nil {
			return err
		}
		if err := r.ctx.Synchronize(r.s); !errors.Is(err, drv.ErrLost) {
			t.Errorf("memory was freed under a copy: got %v, want ErrLost", err)
		}
		complains(t, r.m, "memory freed under a copy", "not pinned")
		return nil
	})
}

// Every address of a copy or a fill lies in one allocation.
func TestRangesAreChecked(t *testing.T) {
	r := newRig(t)
	r.do(func() error {
		d, other := r.device(10), r.device(10)
		h := must(r.ctx.HostAlloc(40))(t)
		p := unsafe.Pointer(&h[0])
		for _, c := range []struct {
			name string
			call func() error
			says string
		}{
			{"past the end", func() error { return r.ctx.CopyToDevice(d+4, p, 40, r.s) }, "not within one allocation"},
			{"before the beginning", func() error { return r.ctx.CopyToHost(p, d-4, 4, r.s) }, "not within one allocation"},
			{"past the end of pinned memory", func() error { return r.ctx.CopyToDevice(d, unsafe.Add(p, 8), 40, r.s) }, "not pinned"},
			{"fill", func() error { return r.ctx.Memset8(d, 1, 41, r.s) }, "not within one allocation"},
			{"fill of words", func() error { return r.ctx.Memset32(d, 1, 11, r.s) }, "not within one allocation"},
			{"fill of words at an odd address", func() error { return r.ctx.Memset32(d+2, 1, 1, r.s) }, "not a multiple of 4"},
			{"fill at 0", func() error { return r.ctx.Memset8(0, 1, 1, r.s) }, "not within one allocation"},
			{"copy on the device", func() error { return r.ctx.CopyOnDevice(other, d, 44, r.s) }, "not within one allocation"},
			{"copy onto itself", func() error { return r.ctx.CopyOnDevice(d+4, d, 36, r.s) }, "overlap"},
			{"free inside", func() error { return r.ctx.Free(d + 4) }, "not the beginning"},
		} {
			if err := c.call(); code(err) != "CUDA_ERROR_INVALID_VALUE" {
				t.Errorf("%s: got %v, want CUDA_ERROR_INVALID_VALUE", c.name, err)
			}
			complains(t, r.m, c.name, c.says)
		}
		return firstErr(r.ctx.CopyToDevice(d, p, 0, r.s), r.ctx.CopyToHost(p, 0, 0, r.s), r.ctx.CopyOnDevice(0, 0, 0, r.s),
			r.ctx.Memset8(0, 0, 0, r.s), r.ctx.Memset32(0, 0, 0, r.s), r.ctx.CopyOnDevice(other, d, 40, r.s))
	})
}

// Fresh memory holds the poison, so what is read before it is written shows.
func TestFreshMemoryIsPoisoned(t *testing.T) {
	r := newRig(t)
	r.m.Set("poison", 0xFF)
	r.do(func() error {
		x, d := r.pinned(8), r.device(8)
		check(t, "pinned", x, func(int) float32 { return float32(math.NaN()) })
		fill(x, func(int) float32 { return 0 })
		if err := firstErr(r.ctx.CopyToHost(pointer(x), d, 32, r.s), r.ctx.Synchronize(r.s)); err != nil {
			return err
		}
		check(t, "on the device", x, func(int) float32 { return float32(math.NaN()) })
		return nil
	})
}

// A kernel that writes outside of its memory, is given freed memory or that of another GPU is
// found.
func TestKernelsAreWatched(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(r *rig) error
		says string
	}{
		{"one byte past the end", func(r *rig) error { return r.launch("test_overrun", r.s, r.device(3), int64(12)) }, "test_overrun <2,1,1> <64,1,1> 0: a1+0 12 wrote outside of a1, which has 12 bytes: at byte 12"},
		{"one byte before the beginning", func(r *rig) error { return r.launch("test_overrun", r.s, r.device(3), int64(-1)) }, "at byte -1"},
		{"freed memory", func(r *rig) error {
			d := r.device(3)
			return firstErr(r.ctx.Free(d), r.launch("test_scale", r.s, d, float32(1), int32(3)))
		}, "given memory that was freed"},
		{"another GPU's", func(r *rig) error {
			other := r.m.Context(1)
			var d drv.Ptr
			if err := other.Do(func() (err error) { d, err = other.Malloc(12); return err }); err != nil {
				return err
			}
			return r.launch("test_scale", r.s, d, float32(1), int32(3))
		}, "runs on device 0 and is given a1+0 of device 1"},
		{"an error of the kernel", func(r *rig) error { return r.launch("test_fail", r.s, int32(1)) }, "test_fail failed, as it does"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.do(func() error {
				err := c.call(r)
				if err == nil {
					err = r.ctx.Synchronize(r.s)
				}
				if !errors.Is(err, drv.ErrLost) {
					t.Errorf("got %v, want ErrLost", err)
				}
				return nil
			})
			complains(t, r.m, c.name, c.says)
		})
	}
}

// Copies between GPUs work with and without access; kernels reach the other's memory once it is
// enabled.
func TestPeers(t *testing.T) {
	r := newRig(t)
	other := r.m.Context(1)
	r.do(func() error {
		x, here := r.pinned(4), r.device(4)
		var there drv.Ptr
		if err := other.Do(func() (err error) { there, err = other.Malloc(16); return err }); err != nil {
			return err
		}
		fill(x, func(i int) float32 { return float32(i) })
		if err := firstErr(r.ctx.CopyToDevice(here, pointer(x), 16, r.s), r.ctx.CopyPeer(there, other, here, r.ctx, 16, r.s)); err != nil {
			return err
		}
		if can := must(r.ctx.CanAccess(other))(t); !can {
			t.Error("the GPU cannot access the other")
		}
		if err := firstErr(r.ctx.EnableAccess(other), r.ctx.EnableAccess(other), // twice is no error
			r.launch("test_add", r.s, here, there, there, int32(4)), r.ctx.CopyToHost(pointer(x), here, 16, r.s), r.ctx.Synchronize(r.s)); err != nil {
			return err
		}
		check(t, "the other's numbers doubled", x, func(i int) float32 { return 2 * float32(i) })
		r.m.Set("peer", 0)
		if can := must(r.ctx.CanAccess(other))(t); can {
			t.Error("the GPU can access the other, and should not")
		}
		return nil
	})
}

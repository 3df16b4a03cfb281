package nccl_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/nccl"
)

// A rig is some GPUs with a stream and pinned memory each.
type rig struct {
	t       *testing.T
	m       *fake.Machine
	lib     *nccl.Library
	clique  *nccl.Clique
	ctx     []*drv.Context
	streams []drv.Stream
}

func newRig(t *testing.T, ranks int) *rig {
	t.Helper()
	r := &rig{t: t, m: fake.New(t)}
	r.m.Set("devices", int64(ranks))
	lib, err := r.m.Search().Open(dl.NCCL)
	if err != nil {
		t.Fatal(err)
	}
	if r.lib, err = nccl.Open(lib); err != nil {
		t.Fatal(err)
	}
	devices := make([]int, ranks)
	for i := range devices {
		devices[i] = i
		ctx := r.m.Context(i)
		r.ctx = append(r.ctx, ctx)
		r.on(i, func() (err error) {
			s, err := ctx.NewStream(0)
			r.streams = append(r.streams, s)
			return err
		})
	}
	r.on(0, func() (err error) {
		r.clique, err = r.lib.NewClique(devices)
		return err
	})
	t.Cleanup(func() {
		r.on(0, r.clique.Close)
		if n := r.m.Count("live_comms"); n != 0 {
			t.Errorf("%d communicators were not given back", n)
		}
	})
	return r
}

func (r *rig) on(i int, f func() error) {
	r.t.Helper()
	if err := r.ctx[i].Do(f); err != nil {
		r.t.Fatal(err)
	}
}

// buffers takes n numbers on each GPU, and fills them.
func (r *rig) buffers(n int, value func(rank, i int) float32) []drv.Ptr {
	r.t.Helper()
	ptrs := make([]drv.Ptr, len(r.ctx))
	for rank, ctx := range r.ctx {
		r.on(rank, func() error {
			host, err := ctx.HostAlloc(int64(4 * n))
			if err != nil {
				return err
			}
			x := unsafe.Slice((*float32)(unsafe.Pointer(&host[0])), n)
			for i := range x {
				x[i] = value(rank, i)
			}
			if ptrs[rank], err = ctx.Malloc(int64(4 * n)); err != nil {
				return err
			}
			return ctx.CopyToDevice(ptrs[rank], unsafe.Pointer(&host[0]), int64(4*n), r.streams[rank])
		})
	}
	return ptrs
}

// want checks n numbers of each GPU.
func (r *rig) want(what string, ptrs []drv.Ptr, n int, value func(rank, i int) float32) {
	r.t.Helper()
	for rank, ctx := range r.ctx {
		r.on(rank, func() error {
			host, err := ctx.HostAlloc(int64(4 * n))
			if err != nil {
				return err
			}
			if err := errors.Join(ctx.CopyToHost(unsafe.Pointer(&host[0]), ptrs[rank], int64(4*n), r.streams[rank]), ctx.Synchronize(r.streams[rank])); err != nil {
				return err
			}
			for i, got := range unsafe.Slice((*float32)(unsafe.Pointer(&host[0])), n) {
				if w := value(rank, i); math.Abs(float64(got-w)) > 1e-6*math.Abs(float64(w)) {
					return fmt.Errorf("%s: rank %d number %d is %v, want %v", what, rank, i, got, w)
				}
			}
			return nil
		})
	}
}

// at is the part of each rank.
func at(ptrs []drv.Ptr, count int) []drv.Ptr {
	parts := make([]drv.Ptr, len(ptrs))
	for i, p := range ptrs {
		parts[i] = p + drv.Ptr(4*count*i)
	}
	return parts
}

// Each collective gives every rank the numbers that its comment says, in place and not, in every
// legal order of work.
func TestCollectives(t *testing.T) {
	value := func(rank, i int) float32 { return float32(10*rank + i) }
	for _, ranks := range []int{1, 2, 3} {
		for seed := range int64(4) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", ranks, seed), func(t *testing.T) {
				r := newRig(t, ranks)
				r.m.Set("seed", seed)
				const count = 5
				all := count * ranks
				sum := func(i int) float32 { return float32(10*ranks*(ranks-1)/2 + ranks*i) }
				zero := func(int, int) float32 { return -1 }
				in, out := r.buffers(all, value), r.buffers(all, zero)
				do := func(f func() error) { t.Helper(); r.on(0, f) }

				do(func() error { return r.clique.AllReduce(in, out, int64(all), nccl.Float32, nccl.Sum, r.streams) })
				r.want("all-reduce", out, all, func(_, i int) float32 { return sum(i) })
				do(func() error { return r.clique.AllReduce(in, out, int64(all), nccl.Float32, nccl.Avg, r.streams) })
				r.want("average", out, all, func(_, i int) float32 { return sum(i) / float32(ranks) })
				do(func() error { return r.clique.AllReduce(in, out, int64(all), nccl.Float32, nccl.Max, r.streams) })
				r.want("maximum", out, all, func(_, i int) float32 { return value(ranks-1, i) })

				do(func() error { return r.clique.Broadcast(in, out, int64(all), nccl.Float32, ranks-1, r.streams) })
				r.want("broadcast", out, all, func(_, i int) float32 { return value(ranks-1, i) })

				do(func() error { return r.clique.ReduceScatter(in, out, count, nccl.Float32, nccl.Sum, r.streams) })
				r.want("reduce-scatter", out, count, func(rank, i int) float32 { return sum(count*rank + i) })

				// Then back, together: what was scattered is gathered, both in
				// place.
				do(func() error {
					return r.clique.Together(func() error {
						return errors.Join(
							r.clique.ReduceScatter(in, at(in, count), count, nccl.Float32, nccl.Sum, r.streams),
							r.clique.AllGather(at(in, count), in, count, nccl.Float32, r.streams))
					})
				})
				r.want("reduce-scatter and all-gather in place", in, all, func(_, i int) float32 { return sum(i) })
			})
		}
	}
}

// A collective comes after what is in the streams of all ranks, and before what follows in each.
func TestCollectiveWaitsForAllStreams(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRig(t, 2)
			r.m.Set("seed", seed)
			x := r.buffers(4, func(rank, i int) float32 { return 1 })
			for range 3 {
				r.on(1, func() error { return r.clique.AllReduce(x, x, 4, nccl.Float32, nccl.Sum, r.streams) })
			}
			r.want("1 doubled three times", x, 4, func(rank, i int) float32 { return 8 })
		})
	}
}

// What a caller does wrong is an error, not a wait for ever.
func TestMisuseIsAnError(t *testing.T) {
	r := newRig(t, 2)
	x := r.buffers(4, func(rank, i int) float32 { return 1 })
	swapped := []drv.Stream{r.streams[1], r.streams[0]}
	for _, c := range []struct {
		name string
		call func() error
		says string
	}{
		{"a rank is missing", func() error { return r.clique.AllReduce(x[:1], x, 4, nccl.Float32, nccl.Sum, r.streams) }, "got 1 to send, 2 to receive and 2 streams, want 2 of each"},
		{"negative", func() error { return r.clique.AllReduce(x, x, -1, nccl.Float32, nccl.Sum, r.streams) }, "-1 numbers"},
		{"too many numbers", func() error { return r.clique.AllReduce(x, x, 5, nccl.Float32, nccl.Sum, r.streams) }, "ncclAllReduce of 5 numbers of type 7 on rank 0 (cuda:0)"},
		{"another's stream", func() error { return r.clique.AllReduce(x, x, 4, nccl.Float32, nccl.Sum, swapped) }, "invalid argument"},
		{"root", func() error { return r.clique.Broadcast(x, x, 4, nccl.Float32, 2, r.streams) }, "root is rank 2 of 2"},
		{"type", func() error { return r.clique.AllReduce(x, x, 4, 77, nccl.Sum, r.streams) }, "type 77"},
		{"device twice", func() error { _, err := r.lib.NewClique([]int{0, 0}); return err }, "devices [0 0]"},
		{"no device", func() error { _, err := r.lib.NewClique([]int{7}); return err }, "there is no device 7"},
		{"no devices", func() error { _, err := r.lib.NewClique(nil); return err }, "no devices"},
	} {
		err := r.ctx[0].Do(c.call)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.says)
		}
		r.m.Complaints()
	}
	r.on(0, func() error { return r.clique.AllReduce(x, x, 4, nccl.Float32, nccl.Sum, r.streams) })
	r.want("after all of that", x, 4, func(rank, i int) float32 { return 2 })
}

// What goes wrong in the background is asked for by Err; a clique that is closed answers ErrClosed.
func TestErrAndClose(t *testing.T) {
	r := newRig(t, 2)
	r.on(0, func() error {
		if err := r.clique.Err(); err != nil {
			t.Errorf("err: %v", err)
		}
		r.m.Set("nccl_async_error", 1)
		var e *nccl.Error
		if err := r.clique.Err(); !errors.As(err, &e) || e.Code != 1 {
			t.Errorf("err: got %v, want an Error of code 1", err)
		}
		if err := errors.Join(r.clique.Abort(), r.clique.Close()); err != nil {
			t.Errorf("abort, close: %v", err)
		}
		if err := r.clique.AllReduce(make([]drv.Ptr, 2), make([]drv.Ptr, 2), 1, nccl.Float32, nccl.Sum, r.streams); !errors.Is(err, nccl.ErrClosed) {
			t.Errorf("all-reduce: got %v, want ErrClosed", err)
		}
		return nil
	})
}

// A version that is too old is refused.
func TestOldVersionIsRefused(t *testing.T) {
	m := fake.New(t)
	m.Set("nccl_version", 2804) // 2.8.4
	lib, err := m.Search().Open(dl.NCCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nccl.Open(lib); !errors.Is(err, dl.ErrTooOld) || !strings.Contains(err.Error(), "2.8.4") {
		t.Errorf("got %v, want ErrTooOld and 2.8.4", err)
	}
}

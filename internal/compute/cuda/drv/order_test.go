package drv_test

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// Copies up, kernels and a copy down give the right numbers in whatever order the GPU may choose.
func TestWorkIsDoneInTheOrderOfStreamsAndEvents(t *testing.T) {
	for seed := range int64(12) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRig(t)
			r.m.Set("seed", seed)
			r.m.Set("order", -1)
			const n = 1000
			r.do(func() error {
				x, y := r.pinned(n), r.pinned(n)
				dx, dy := r.device(n), r.device(n)
				up := must(r.ctx.NewStream(-1))(t)
				uploaded := must(r.ctx.NewEvent(false))(t)
				for round := range 5 {
					fill(x, func(i int) float32 { return float32(i + round) })
					if err := firstErr(
						r.ctx.CopyToDevice(dx, pointer(x), 4*n, up),
						r.ctx.Record(uploaded, up),
						r.ctx.WaitEvent(r.s, uploaded),
						r.launch("test_add", r.s, dy, dx, dx, int32(n)),
						r.launch("test_scale", r.s, dy, float32(0.5), int32(n)),
						r.ctx.CopyToHost(pointer(y), dy, 4*n, r.s),
						r.ctx.Synchronize(r.s),
					); err != nil {
						return err
					}
					check(t, "x+x halved", y, func(i int) float32 { return float32(i + round) })
				}
				return nil
			})
		})
	}
}

// A wait for an event that is forgotten shows as wrong numbers, with some order.
func TestForgottenWaitShows(t *testing.T) {
	wrong := 0
	for seed := range int64(8) {
		r := newRig(t)
		r.m.Set("seed", seed)
		const n = 100
		r.do(func() error {
			x, y := r.pinned(n), r.pinned(n)
			dx := r.device(n)
			fill(x, func(i int) float32 { return 1 })
			up := must(r.ctx.NewStream(0))(t)
			err := firstErr(r.ctx.Memset8(dx, 0, 4*n, r.s), r.ctx.Synchronize(r.s),
				r.ctx.CopyToDevice(dx, pointer(x), 4*n, up), r.ctx.CopyToHost(pointer(y), dx, 4*n, r.s), r.ctx.Synchronize(r.s))
			if y[0] != 1 {
				wrong++
			}
			return err
		})
		r.ctx.Close()
	}
	if wrong == 0 {
		t.Error("no order showed that one stream did not wait for the other")
	}
	if wrong == 8 {
		t.Error("no order hid it: seed 0 should do work at once")
	}
}

// An event that is recorded again leaves those who wait for its old place alone.
func TestWaitIsForTheLastRecordBeforeIt(t *testing.T) {
	r := newRig(t)
	r.m.Set("seed", 1)
	r.do(func() error {
		a, b := must(r.ctx.NewStream(0))(t), must(r.ctx.NewStream(0))(t)
		e := must(r.ctx.NewEvent(false))(t)
		x, d := r.pinned(1), r.device(1)
		if err := firstErr(r.ctx.Memset32(d, 1, 1, a), r.ctx.Record(e, a), r.ctx.WaitEvent(b, e),
			r.ctx.Memset32(d, 2, 1, a), r.ctx.Record(e, a), // b does not wait for this
			r.ctx.Synchronize(b)); err != nil {
			return err
		}
		if done := must(r.ctx.Query(e))(t); done && r.m.Count("pending") > 0 {
			t.Error("the event is done, and work before its second place is not")
		}
		if err := firstErr(r.ctx.SynchronizeEvent(e), r.ctx.CopyToHost(pointer(x), d, 4, b), r.ctx.Synchronize(b)); err != nil {
			return err
		}
		if got := *(*uint32)(pointer(x)); got != 2 {
			t.Errorf("after waiting for the event's second place the number is %d, want 2", got)
		}
		return nil
	})
}

// An event that was never recorded is done, and nobody waits for it.
func TestEventNeverRecordedIsDone(t *testing.T) {
	r := newRig(t)
	r.do(func() error {
		e := must(r.ctx.NewEvent(false))(t)
		if done := must(r.ctx.Query(e))(t); !done {
			t.Error("query: not done, want done")
		}
		return firstErr(r.ctx.WaitEvent(r.s, e), r.ctx.SynchronizeEvent(e), r.ctx.DestroyEvent(e))
	})
}

// Polling an event ends, however late the GPU works.
func TestQueryEndsInDone(t *testing.T) {
	r := newRig(t)
	r.m.Set("seed", 1)
	r.do(func() error {
		e := must(r.ctx.NewEvent(false))(t)
		d := r.device(1)
		for range 10 {
			if err := r.ctx.Memset32(d, 1, 1, r.s); err != nil {
				return err
			}
		}
		if err := r.ctx.Record(e, r.s); err != nil {
			return err
		}
		asked := 1
		for !must(r.ctx.Query(e))(t) {
			if asked++; asked > 100 {
				t.Fatal("asked 100 times, and it is not done")
			}
		}
		if asked == 1 {
			t.Error("done at once, though the machine works as late as it may")
		}
		return nil
	})
}

// Events with timing measure what lies between them; others answer an error.
func TestElapsedNeedsEventsWithTiming(t *testing.T) {
	r := newRig(t)
	r.do(func() error {
		d := r.device(1 << 20)
		from, to, plain := must(r.ctx.NewEvent(true))(t), must(r.ctx.NewEvent(true))(t), must(r.ctx.NewEvent(false))(t)
		if err := firstErr(r.ctx.Record(from, r.s), r.ctx.Memset8(d, 0, 4<<20, r.s), r.ctx.Record(to, r.s), r.ctx.Record(plain, r.s), r.ctx.Synchronize(r.s)); err != nil {
			return err
		}
		if took := must(r.ctx.Elapsed(from, to))(t); took < 3e3 || took > 4e3 {
			t.Errorf("4 MiB were set in %v, want about 3.4 µs on the fake clock", took)
		}
		var e *drv.Error
		if _, err := r.ctx.Elapsed(from, plain); !asError(err, &e) || e.Name != "CUDA_ERROR_INVALID_HANDLE" {
			t.Errorf("without timing: got %v, want CUDA_ERROR_INVALID_HANDLE", err)
		}
		return nil
	})
}

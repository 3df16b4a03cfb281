package drv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A captured graph does, at each launch, what was captured: over two streams, in every legal order,
// after what was in the stream before.
func TestGraphDoesWhatWasCaptured(t *testing.T) {
	for seed := range int64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRig(t)
			r.m.Set("seed", seed)
			const n = 16
			r.do(func() error {
				x, y := r.pinned(n), r.pinned(n)
				dx, dy, dz := r.device(n), r.device(n), r.device(n)
				side := must(r.ctx.NewStream(0))(t)
				fork, join := must(r.ctx.NewEvent(false))(t), must(r.ctx.NewEvent(false))(t)
				// z = (x + x) + 3x, of which 3x is made on the other stream.
				if err := firstErr(
					r.ctx.BeginCapture(r.s),
					r.ctx.CopyToDevice(dx, pointer(x), 4*n, r.s),
					r.ctx.Record(fork, r.s),
					r.ctx.WaitEvent(side, fork),
					r.ctx.CopyOnDevice(dy, dx, 4*n, side),
					r.launch("test_scale", side, dy, float32(3), int32(n)),
					r.ctx.Record(join, side),
					r.launch("test_add", r.s, dz, dx, dx, int32(n)),
					r.ctx.WaitEvent(r.s, join),
					r.launch("test_add", r.s, dz, dz, dy, int32(n)),
					r.ctx.CopyToHost(pointer(y), dz, 4*n, r.s),
				); err != nil {
					return err
				}
				g := must(r.ctx.EndCapture(r.s))(t)
				e := must(r.ctx.Instantiate(g))(t)
				if err := firstErr(r.ctx.DestroyGraph(g), r.ctx.Upload(e, r.s)); err != nil {
					return err
				}
				if r.m.Count("launches") != 3 {
					t.Errorf("%d launches were counted, want 3", r.m.Count("launches"))
				}
				for round := range 3 {
					fill(x, func(i int) float32 { return float32(i + round) })
					fill(y, func(i int) float32 { return -1 })
					if err := firstErr(r.ctx.Memset8(dz, 0, 4*n, r.s), r.ctx.GraphLaunch(e, r.s), r.ctx.Synchronize(r.s)); err != nil {
						return err
					}
					check(t, fmt.Sprintf("round %d", round), y, func(i int) float32 { return 5 * float32(i+round) })
				}
				return firstErr(r.ctx.GraphLaunch(e, r.s), r.ctx.DestroyGraphExec(e), r.ctx.Synchronize(r.s))
			})
		})
	}
}

// What follows a graph in its stream, and an event recorded behind it, comes after all of it; and
// so does the next launch of the same graph in another stream.
func TestGraphIsOnePieceOfItsStream(t *testing.T) {
	for seed := range int64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRig(t)
			r.m.Set("seed", seed)
			r.do(func() error {
				x, d := r.pinned(1), r.device(1)
				if err := firstErr(r.ctx.BeginCapture(r.s), r.launch("test_scale", r.s, d, float32(2), int32(1)), r.launch("test_scale", r.s, d, float32(5), int32(1))); err != nil {
					return err
				}
				e := must(r.ctx.Instantiate(must(r.ctx.EndCapture(r.s))(t)))(t)
				second := must(r.ctx.NewStream(0))(t)
				done := must(r.ctx.NewEvent(false))(t)
				x[0] = 1
				if err := firstErr(r.ctx.CopyToDevice(d, pointer(x), 4, r.s), r.ctx.GraphLaunch(e, r.s), r.ctx.GraphLaunch(e, second), r.ctx.Record(done, second),
					r.ctx.WaitEvent(r.s, done), r.ctx.CopyToHost(pointer(x), d, 4, r.s), r.ctx.Synchronize(r.s)); err != nil {
					return err
				}
				if x[0] != 100 {
					t.Errorf("got %v, want 100", x[0])
				}
				return nil
			})
		})
	}
}

// What may not be done during a capture is refused, breaks the capture, and leaves an ordinary
// stream.
func TestCaptureRefusesWhatItCannotHold(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(r *rig, e drv.Event) error

		// want is that of the call.
		want string

		// end is that of EndCapture.
		end string

		says string
	}{
		{"malloc", func(r *rig, e drv.Event) error { _, err := r.ctx.Malloc(1); return err }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cuMemAlloc_v2: not allowed while s1 is being captured"},
		{"host alloc", func(r *rig, e drv.Event) error { _, err := r.ctx.HostAlloc(1); return err }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cuMemHostAlloc"},
		{"synchronize", func(r *rig, e drv.Event) error { return r.ctx.Synchronize(r.s) }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cuStreamSynchronize"},
		{"synchronize all", func(r *rig, e drv.Event) error { return r.ctx.SynchronizeAll() }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cuCtxSynchronize"},
		{"load module", func(r *rig, e drv.Event) error { _, err := r.ctx.LoadModule([]byte(testPTX)); return err }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cuModuleLoadDataEx"},
		{"wait for what is outside", func(r *rig, e drv.Event) error { return r.ctx.WaitEvent(r.s, e) }, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "recorded outside of the capture"},
		{"query an event in it", func(r *rig, e drv.Event) error {
			if err := r.ctx.Record(e, r.s); err != nil {
				return err
			}
			_, err := r.ctx.Query(e)
			return err
		}, "CUDA_ERROR_CAPTURED_EVENT", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "recorded in a capture"},
		{"begin again", func(r *rig, e drv.Event) error { return r.ctx.BeginCapture(r.s) }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "", "captured already"},
		{"stream 0", func(r *rig, e drv.Event) error { return r.ctx.Record(e, 0) }, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "in stream 0"},
		{"a stream that does not come back", func(r *rig, e drv.Event) error {
			side := must(r.ctx.NewStream(0))(r.t)
			return firstErr(r.launch("test_scale", r.s, drv.Ptr(0), float32(1), int32(0)), r.ctx.Record(e, r.s), r.ctx.WaitEvent(side, e),
				r.launch("test_scale", side, drv.Ptr(0), float32(1), int32(0)))
		}, "", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "was not joined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.do(func() error {
				e := must(r.ctx.NewEvent(false))(t)
				if err := firstErr(r.ctx.Record(e, r.s), r.ctx.BeginCapture(r.s)); err != nil {
					return err
				}
				if err := c.call(r, e); code(err) != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if _, err := r.ctx.EndCapture(r.s); code(err) != c.end {
					t.Errorf("end of the capture: got %v, want %q", err, c.end)
				}
				complains(t, r.m, c.name, c.says)
				return firstErr(r.launch("test_scale", r.s, drv.Ptr(0), float32(1), int32(0)), r.ctx.Synchronize(r.s))
			})
		})
	}
}

// Other threads go on as usual during a capture.
func TestCaptureIsOfItsThread(t *testing.T) {
	r := newRig(t)
	waiter := must(r.ctx.NewThread())(t)
	r.do(func() error {
		e := must(r.ctx.NewEvent(false))(t)
		if err := firstErr(r.ctx.Record(e, r.s), r.ctx.BeginCapture(r.s)); err != nil {
			return err
		}
		if err := waiter.Do(func() error {
			p, err := waiter.Malloc(1)
			return firstErr(err, waiter.Free(p), waiter.SynchronizeEvent(e))
		}); err != nil {
			t.Errorf("another thread: %v", err)
		}
		_, err := r.ctx.EndCapture(r.s)
		return err
	})
}

// The trace is the same each time, with handles and addresses by number.
func TestTraceIsTheSameEachTime(t *testing.T) {
	r := newRig(t)
	r.m.Set("trace", 1)
	var first []string
	r.do(func() error {
		x, d := r.pinned(4), r.device(4)
		r.m.Trace()
		for range 2 {
			if err := firstErr(r.ctx.CopyToDevice(d, pointer(x), 16, r.s), r.launch("test_scale", r.s, d+4, float32(0), int32(3)), r.ctx.Synchronize(r.s)); err != nil {
				return err
			}
			again := r.m.Trace()
			if first != nil && !slices.Equal(first, again) {
				t.Errorf("first  %q\nsecond %q", first, again)
			}
			first = again
		}
		return nil
	})
	want := `cuMemcpyHtoDAsync_v2 16 from h1+0 to a1+0 in s1
cuLaunchKernel test_scale <2,1,1> <64,1,1> 0: a1+4 0 3 in s1
cuStreamSynchronize s1`
	if got := strings.Join(first, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

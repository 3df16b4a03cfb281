package drv_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// Functions run one at a time, whoever asks, and on one OS thread.
func TestDoRunsOneAtATime(t *testing.T) {
	r := newRig(t)
	var busy, ran atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := r.ctx.Do(func() error {
					if busy.Add(1) != 1 {
						t.Error("two functions run at once")
					}
					runtime.Gosched()
					ran.Add(1)
					busy.Add(-1)

					// This is an error where the context is not current.
					return r.ctx.SynchronizeAll()
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if ran.Load() != 400 {
		t.Errorf("%d functions ran, want 400", ran.Load())
	}
}

// A Do inside a Do runs at once; errors and panics come to the caller; the thread lives on.
func TestDoPassesOnWhatHappens(t *testing.T) {
	r := newRig(t)
	inner := errors.New("inner")
	if err := r.ctx.Do(func() error { return r.ctx.Do(func() error { return inner }) }); !errors.Is(err, inner) {
		t.Errorf("nested: got %v, want %v", err, inner)
	}
	func() {
		defer func() {
			if p := recover(); p != "oh" {
				t.Errorf("got panic %v, want oh", p)
			}
		}()
		r.ctx.Do(func() error { panic("oh") })
	}()
	r.do(func() error { return r.ctx.SynchronizeAll() })

	waiter := must(r.ctx.NewThread())(t)
	if err := waiter.Do(func() error { runtime.Goexit(); return nil }); !errors.Is(err, drv.ErrClosed) || !strings.Contains(err.Error(), "ended its goroutine") {
		t.Errorf("a function that ends its goroutine: got %v, want ErrClosed", err)
	}
	if err := waiter.Do(func() error { return nil }); !errors.Is(err, drv.ErrClosed) {
		t.Errorf("after it: got %v, want ErrClosed", err)
	}
	r.do(func() error { return r.ctx.SynchronizeAll() })
}

// Close answers everybody who waits, on every thread of the context, and nothing is left.
func TestCloseAnswersWhoWaits(t *testing.T) {
	r := newRig(t)
	waiter := must(r.ctx.NewThread())(t)
	entered, release := make(chan struct{}), make(chan struct{})
	held := make(chan error)
	go func() {
		held <- waiter.Do(func() error { close(entered); <-release; return nil })
	}()
	<-entered
	const waiting = 4
	answers, begun := make(chan error, waiting), make(chan struct{}, waiting)
	for range waiting {
		go func() {
			begun <- struct{}{}
			answers <- waiter.Do(func() error { return nil })
		}()
	}
	for range waiting {
		<-begun
	}
	closed := make(chan error)
	go func() { closed <- r.ctx.Close() }()
	for range waiting {
		if err := <-answers; !errors.Is(err, drv.ErrClosed) {
			t.Errorf("who waited: got %v, want ErrClosed", err)
		}
	}
	close(release)
	if err := errors.Join(<-held, <-closed); err != nil {
		t.Errorf("the function that ran, and close: %v", err)
	}
	for what, err := range map[string]error{"do": r.ctx.Do(func() error { return nil }), "do on the other thread": waiter.Do(func() error { return nil })} {
		if !errors.Is(err, drv.ErrClosed) {
			t.Errorf("%s after close: got %v, want ErrClosed", what, err)
		}
	}
	if _, err := r.ctx.NewThread(); !errors.Is(err, drv.ErrClosed) {
		t.Errorf("new thread after close: got %v, want ErrClosed", err)
	}
	if err := r.ctx.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// A context that is closed from within does not wait for itself.
func TestCloseFromWithin(t *testing.T) {
	r := newRig(t)
	if err := r.ctx.Do(r.ctx.Close); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := r.ctx.Do(func() error { return nil }); !errors.Is(err, drv.ErrClosed) {
		t.Errorf("do after it: got %v, want ErrClosed", err)
	}
	if err := r.ctx.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// Two contexts of a GPU share it: what one takes, the other can use, until both are closed. Then
// what is left is gone.
func TestContextsOfAGPUShareIt(t *testing.T) {
	r := newRig(t)
	second := must(r.ctx.Driver().NewContext(0))(t)
	var d drv.Ptr
	r.do(func() error {
		d = r.device(1)
		return nil
	})
	registered := make([]byte, 1<<16)
	if err := second.Do(func() error {
		return firstErr(second.Memset32(d, 1, 1, 0), second.SynchronizeAll(), second.HostRegister(registered))
	}); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if live := r.m.Live(); fmt.Sprint(live) != "map[allocations:1 modules:1 streams:1]" {
		t.Errorf("live after one was closed: %v, want the first's allocation, module and stream, and no registered memory", live)
	}
	if err := r.ctx.Close(); err != nil {
		t.Fatal(err)
	}
	if live := r.m.Live(); len(live) != 0 {
		t.Errorf("live after both were closed: %v, want nothing", live)
	}
	if leaks := r.m.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0], "device 0: 1 allocations of 4 bytes, 1 streams") {
		t.Errorf("leaks: %q", leaks)
	}
}

// Everything that can be taken can be given back, and then nothing is left.
func TestNothingLeaks(t *testing.T) {
	r := newRig(t)
	before := fmt.Sprint(r.m.Live())
	goroutines := runtime.NumGoroutine()
	for range 20 {
		waiter := must(r.ctx.NewThread())(t)
		r.do(func() error {
			p := must(r.ctx.Malloc(8))(t)
			h := must(r.ctx.HostAlloc(8))(t)
			s := must(r.ctx.NewStream(-1))(t)
			e := must(r.ctx.NewEvent(true))(t)
			m := must(r.ctx.LoadModule([]byte(testPTX)))(t)
			if err := firstErr(r.ctx.BeginCapture(s), r.ctx.Memset8(p, 0, 8, s)); err != nil {
				return err
			}
			g := must(r.ctx.EndCapture(s))(t)
			x := must(r.ctx.Instantiate(g))(t)
			return firstErr(r.ctx.GraphLaunch(x, s), r.ctx.Synchronize(s), r.ctx.DestroyGraph(g), r.ctx.DestroyGraphExec(x), r.ctx.UnloadModule(m),
				r.ctx.DestroyEvent(e), r.ctx.DestroyStream(s), r.ctx.HostFree(h), r.ctx.Free(p))
		})
		if err := waiter.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := fmt.Sprint(r.m.Live()); after != before {
		t.Errorf("live: %s, want %s as before", after, before)
	}
	// One that has told of its end may still be counted for a moment.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, want %d as before", runtime.NumGoroutine(), goroutines)
		}
	}
}

// raceEnabled is set in builds with the race detector.
var raceEnabled bool

// A step's calls allocate nothing.
func TestStepAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools allocate")
	}
	r := newRig(t)
	r.do(func() error {
		x, d := r.pinned(4), r.device(4)
		e := must(r.ctx.NewEvent(false))(t)
		f := must(r.ctx.Function(r.mod, "test_scale"))(t)
		params := block(d, float32(1), int32(4))
		if err := firstErr(r.ctx.BeginCapture(r.s), r.ctx.Memset8(d, 0, 8, r.s)); err != nil {
			return err
		}
		g := must(r.ctx.Instantiate(must(r.ctx.EndCapture(r.s))(t)))(t)
		if n := alloctest.PerRun(50, func() {
			for _, err := range [...]error{
				r.ctx.CopyToDevice(d, pointer(x), 16, r.s), r.ctx.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, r.s, params),
				r.ctx.GraphLaunch(g, r.s), r.ctx.CopyToHost(pointer(x), d, 16, r.s), r.ctx.Record(e, r.s), r.ctx.WaitEvent(r.s, e),
				r.ctx.SynchronizeEvent(e), r.ctx.Synchronize(r.s)} {
				if err != nil {
					t.Error(err)
				}
			}
		}); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
		return nil
	})
	nothing := func() error { return nil }
	if n := alloctest.PerRun(50, func() { r.ctx.Do(nothing) }); n != 0 {
		t.Errorf("do: %v allocations, want none", n)
	}
}

// Modules say what the driver's compiler says.
func TestModuleErrorsCarryTheLog(t *testing.T) {
	r := newRig(t)
	r.do(func() error {
		for _, c := range []struct{ image, name, log string }{
			{"rubbish", "CUDA_ERROR_INVALID_IMAGE", "neither PTX"},
			{strings.Replace(testPTX, "sm_90", "sm_100", 1), "CUDA_ERROR_NO_BINARY_FOR_GPU", "above the GPU"},
		} {
			_, err := r.ctx.LoadModule([]byte(c.image))
			var e *drv.Error
			if !errors.As(err, &e) || e.Name != c.name || !strings.Contains(e.Log, c.log) || !strings.Contains(err.Error(), c.log) {
				t.Errorf("got %v, want %s and %q", err, c.name, c.log)
			}
		}
		if _, err := r.ctx.LoadModule(nil); err == nil {
			t.Error("load of no bytes: no error")
		}
		if _, err := r.ctx.Function(r.mod, "nothing"); code(err) != "CUDA_ERROR_NOT_FOUND" || !strings.Contains(err.Error(), `"nothing"`) {
			t.Errorf("a kernel that is not there: got %v", err)
		}
		f := must(r.ctx.Function(r.mod, "test_scale"))(t)
		grid, one := [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}
		params := block(uint64(0), float32(0), int32(0))
		for name, err := range map[string]error{
			"too few parameters": r.ctx.Launch(f, grid, one, 0, r.s, params[:12]),
			"too many threads":   r.ctx.Launch(f, grid, [3]uint32{1025, 1, 1}, 0, r.s, params),
			"no blocks":          r.ctx.Launch(f, [3]uint32{0, 1, 1}, one, 0, r.s, params),
			"shared memory":      r.ctx.Launch(f, grid, one, 48<<10+1, r.s, params),
			"parameters":         r.ctx.Launch(f, grid, one, 0, r.s, make([]byte, 4097)),
		} {
			if err == nil {
				t.Errorf("launch with %s: no error", name)
			}
		}
		if n := len(r.m.Complaints()); n != 4 {
			t.Errorf("%d complaints, want 4", n)
		}
		if err := firstErr(r.ctx.SetFunctionAttribute(f, drv.MaxDynamicShared, 100<<10), r.ctx.Launch(f, grid, one, 100<<10, r.s, params)); err != nil {
			return err
		}
		if got := must(r.ctx.FunctionAttribute(f, drv.MaxDynamicShared))(t); got != 100<<10 {
			t.Errorf("dynamic shared memory is %d, want %d", got, 100<<10)
		}
		if got := must(r.ctx.Occupancy(f, 256, 100<<10))(t); got != 2 {
			t.Errorf("occupancy is %d, want 2", got)
		}
		return nil
	})
}

// Close does not wait for ever for a call that does not return: it says what it is.
func TestCloseNamesWhatDoesNotReturn(t *testing.T) {
	fake.Libraries(t) // built outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release, held := make(chan struct{}), make(chan error)
		go func() {
			held <- r.ctx.Do(func() error { <-release; return nil })
		}()
		synctest.Wait()
		begin := time.Now()
		err := r.ctx.Close()
		if err == nil || !strings.Contains(err.Error(), "close a thread of cuda:0: a function given to Do has not returned for 20s") || time.Since(begin) != 20*time.Second {
			t.Errorf("after %v: got %v, want after 20 s an error that names cuda:0", time.Since(begin), err)
		}
		close(release)
		if err := <-held; err != nil {
			t.Errorf("the function that was held: %v", err)
		}
		if err := r.ctx.Close(); err != nil {
			t.Errorf("close once it returned: %v", err)
		}
	})
}

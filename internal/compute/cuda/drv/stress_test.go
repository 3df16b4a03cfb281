package drv_test

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/shm"
)

// collect has the collector run all the time, until the test ends.
func collect(t *testing.T) {
	old := debug.SetGCPercent(1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		debug.SetGCPercent(old)
	})
}

// grow uses a good deal of stack, so that the goroutine's stack moves.
func grow(depth int) int {
	var block [1 << 10]byte
	if depth == 0 {
		return int(block[7])
	}
	return grow(depth-1) + int(block[depth])
}

// Two GPUs with two threads each copy and launch while the collector runs all the time and stacks
// move: the numbers stay right. Registered memory is kept by its registration alone.
func TestCollectorLeavesCopiesAlone(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	m := newRig(t).m
	m.Set("seed", 3)
	collect(t)
	var wg sync.WaitGroup
	for gpu := range 2 {
		wg.Go(func() {
			if err := work(m.Context(gpu), gpu, rounds); err != nil {
				t.Errorf("cuda:%d: %v", gpu, err)
			}
		})
	}
	wg.Wait()
}

// work runs steps on a GPU, with a thread that waits for them.
func work(ctx *drv.Context, gpu, rounds int) error {
	const n = 20_000
	waiter, err := ctx.NewThread()
	if err != nil {
		return err
	}
	var (
		module drv.Module
		d      drv.Ptr
		s      drv.Stream
		e      drv.Event

		// address is that of the registered memory, which nothing else points to.
		address uintptr
	)
	if err := ctx.Do(func() (err error) {
		var errs [4]error
		module, errs[0] = ctx.LoadModule([]byte(testPTX))
		d, errs[1] = ctx.Malloc(4 * n)
		s, errs[2] = ctx.NewStream(0)
		e, errs[3] = ctx.NewEvent(false)
		x := shm.Float32s(n)
		address = uintptr(pointer(x))
		return errors.Join(append(errs[:], ctx.HostRegister(unsafe.Slice((*byte)(pointer(x)), 4*n)))...)
	}); err != nil {
		return err
	}
	memory := func() []float32 { return unsafe.Slice(*(**float32)(unsafe.Pointer(&address)), n) }
	for round := range rounds {
		grow(round % 50)
		for range 4 { // would take memory that was collected
			other := make([]float32, n+2048)
			fill(other, func(int) float32 { return -1 })
		}
		if err := ctx.Do(func() error {
			x := memory()
			fill(x, func(i int) float32 { return float32(i + round + gpu) })
			f, err := ctx.Function(module, fmt.Sprint("test_", "scale"))
			if err != nil {
				return err
			}
			return firstErr(ctx.CopyToDevice(d, pointer(x), 4*n, s),
				ctx.Launch(f, [3]uint32{4, 1, 1}, [3]uint32{128, 1, 1}, 0, s, block(d, float32(2), int32(n))),
				ctx.CopyToHost(pointer(x), d, 4*n, s), ctx.Record(e, s))
		}); err != nil {
			return err
		}
		if err := waiter.Do(func() error { return waiter.SynchronizeEvent(e) }); err != nil {
			return err
		}
		for i, got := range memory() {
			if want := 2 * float32(i+round+gpu); got != want {
				return fmt.Errorf("round %d: number %d is %v, want %v", round, i, got, want)
			}
		}
	}
	return nil
}

// Contexts come and go while others work on the same GPU.
func TestContextsComeAndGo(t *testing.T) {
	r := newRig(t)
	r.m.Set("seed", 5)
	driver := r.ctx.Driver()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				ctx, err := driver.NewContext(0)
				if err != nil {
					t.Error(err)
					return
				}
				waiter, err := ctx.NewThread()
				if err != nil {
					t.Error(err)
					return
				}
				var inner sync.WaitGroup
				for range 3 {
					inner.Go(func() {
						for {
							err := waiter.Do(func() error {
								p, err := waiter.Malloc(64)
								return firstErr(err, waiter.Memset8(p, 1, 64, 0), waiter.Free(p))
							})
							if errors.Is(err, drv.ErrClosed) {
								return
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				if err := ctx.Do(func() error { return ctx.SynchronizeAll() }); err != nil {
					t.Error(err)
				}
				if err := ctx.Close(); err != nil {
					t.Error(err)
				}
				inner.Wait()
			}
		})
	}
	wg.Wait()
	if n := r.m.Count("live_allocations"); n != 0 {
		t.Errorf("%d allocations are live, want none", n)
	}
}

// Any series of faults ends in errors, never in a crash or a wait for ever.
func TestFaultsEndInErrors(t *testing.T) {
	for _, fault := range []string{"oom_at", "host_oom_at", "register_fails_at", "launch_fails_at", "illegal_at", "lost_at"} {
		for n := range int64(12) {
			t.Run(fmt.Sprintf("%s=%d", fault, n+1), func(t *testing.T) {
				r := newRig(t)
				r.m.Set("seed", n)
				at := n + 1
				if fault == "lost_at" {
					at += r.m.Count("calls")
				}
				r.m.Set(fault, at)
				err := work(r.ctx, 0, 3)
				var e *drv.Error
				if err != nil && !errors.As(err, &e) {
					t.Errorf("got %v, want an Error of the driver or none", err)
				}
				if err == nil && (fault == "lost_at" || n == 0 && fault != "host_oom_at") {
					t.Error("no error")
				}
				if err := r.ctx.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

func BenchmarkDo(b *testing.B) {
	r := newBenchRig(b)
	nothing := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		r.Do(nothing)
	}
}

// The calls of one step with graphs: five launches, and a copy, two events and a wait for each of
// three buckets.
func BenchmarkStepCalls(b *testing.B) {
	ctx := newBenchRig(b)
	if err := ctx.Do(func() error {
		s, err := ctx.NewStream(0)
		d, err2 := ctx.Malloc(64)
		e, err3 := ctx.NewEvent(false)
		h, err4 := ctx.HostAlloc(64)
		if err := errors.Join(err, err2, err3, err4, ctx.BeginCapture(s), ctx.Memset8(d, 0, 64, s)); err != nil {
			return err
		}
		g, err := ctx.EndCapture(s)
		if err != nil {
			return err
		}
		x, err := ctx.Instantiate(g)
		if err != nil {
			return err
		}
		b.ReportAllocs()
		for b.Loop() {
			for range 3 {
				if err := firstErr(ctx.GraphLaunch(x, s), ctx.Record(e, s), ctx.WaitEvent(s, e), ctx.CopyToHost(unsafe.Pointer(&h[0]), d, 64, s), ctx.Record(e, s)); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

package cuda_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// noGoroutineLeft fails the test if there are more goroutines than before, after a while.
func noGoroutineLeft(t *testing.T, before int) {
	t.Helper()
	for range 2000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines are left, and were %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

// A breakable is a program with one for evaluation on a GPU that will break.
type breakable struct {
	machine *fake.Machine
	gpu     *cuda.GPU
	e, eval *cuda.Executor
	params  int
}

func (b *breakable) open(t *testing.T) {
	t.Helper()
	b.machine = fake.New(t)
	b.machine.Set("seed", 2)
	gpu, err := cuda.Open(0, cuda.Options{Search: *b.machine.Search(), Choices: "none", Repeat: -1})
	if err != nil {
		t.Fatal(err)
	}
	b.gpu = gpu
}

func (b *breakable) compile(t *testing.T) (err error) {
	t.Helper()
	p, _ := build(t, joinable[0], false, nil)
	b.params = len(p.Params)
	if b.e, err = cuda.New(p, newHost(p), cuda.Config{GPU: b.gpu, Bucket: 512}); err != nil {
		return err
	}
	q, _ := build(t, joinable[0], true, nil)
	b.eval, err = cuda.New(q, newHost(q), cuda.Config{GPU: b.gpu})
	return err
}

func (b *breakable) close() {
	for _, e := range []*cuda.Executor{b.eval, b.e} {
		if e != nil {
			e.Close()
		}
	}
	b.gpu.Close()
	b.machine.Set("lost_at", 0)
	b.machine.Complaints()
}

// whole reports whether an error names the GPU, what the driver was asked for and what it answered.
func whole(err error, code int32) bool {
	var fault *drv.Error
	return errors.As(err, &fault) && fault.Code == code && strings.Contains(err.Error(), "cuda:0") && strings.Contains(fault.Call, "cu")
}

// Whenever a GPU breaks, and whatever it answers then, what was asked of it ends with an error that
// says so, and so does what comes after; nothing hangs, and no goroutine stays.
func TestAGPUThatBreaksAtAnyCallIsAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		steps  int // before it
		action func(t *testing.T, b *breakable) error
	}{
		{"compile", 0, func(t *testing.T, b *breakable) error { return b.compile(t) }},
		{"first run", 0, func(t *testing.T, b *breakable) error { return b.e.Run(t.Context(), false, plan.Hooks{}) }},
		{"capture", 1, func(t *testing.T, b *breakable) error { return b.e.Run(t.Context(), false, plan.Hooks{}) }},
		{"replay", 2, func(t *testing.T, b *breakable) error { return b.e.Run(t.Context(), false, plan.Hooks{}) }},
		{"evaluation", 2, func(t *testing.T, b *breakable) error { return b.eval.Run(t.Context(), true, plan.Hooks{}) }},
		{"inspection", 1, func(t *testing.T, b *breakable) error {
			return b.e.Inspect(t.Context(), func(int, [][]float32) error { return nil })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			codes := []int64{719, 700, 214, 46, 220, 999}
			calls := 0
			for n := int64(1); ; {
				before := runtime.NumGoroutine()
				b := &breakable{}
				b.open(t)
				if c.name != "compile" {
					if err := b.compile(t); err != nil {
						t.Fatal(err)
					}
				}
				for range c.steps {
					if err := b.e.Run(t.Context(), false, plan.Hooks{}); err != nil {
						t.Fatal(err)
					}
				}
				code := codes[calls%len(codes)]
				from := b.machine.Count("calls")
				b.machine.Set("fault_code", code)
				b.machine.Set("lost_at", from+n)
				err := c.action(t, b)
				if err == nil {
					b.close()
					noGoroutineLeft(t, before)
					break // it needs no more calls
				}
				calls++
				if !whole(err, int32(code)) || !errors.Is(err, drv.ErrLost) {
					t.Errorf("call %d answers %d: got error %v, want one that names cuda:0, the call and the code, and is ErrLost", n, code, err)
				}
				if b.e != nil && b.eval != nil {
					if err := b.e.Run(t.Context(), false, plan.Hooks{}); err == nil {
						t.Errorf("call %d answers %d: a step after it gave no error", n, code)
					}
				}
				b.close()
				noGoroutineLeft(t, before)
				if slow() {
					n += 1 + n/8
				} else {
					n += 1 + n/4
				}
			}
			if calls < 10 {
				t.Errorf("%d calls were broken, want at least 10", calls)
			}
		})
	}
}

// What breaks while gradients are handed over keeps those back that are not final.
func TestAGPUThatBreaksWhileGradientsAreHandedOverKeepsTheRestBack(t *testing.T) {
	for _, steps := range []int{0, 1, 2} {
		b := &breakable{}
		b.open(t)
		if err := b.compile(t); err != nil {
			t.Fatal(err)
		}
		for range steps {
			if err := b.e.Run(t.Context(), false, plan.Hooks{}); err != nil {
				t.Fatal(err)
			}
		}
		ready := 0
		err := b.e.Run(t.Context(), false, plan.Hooks{Ready: func(int) {
			if ready++; ready == 1 { // a push would begin here
				b.machine.Set("fault_code", 214)
				b.machine.Set("lost_at", b.machine.Count("calls")+1)
			}
		}})
		if !whole(err, 214) || ready == 0 || ready == b.params {
			t.Errorf("after %d steps: got error %v and %d of %d gradients, want the driver's error and not all", steps, err, ready, b.params)
		}
		b.close()
	}
}

// A fault of a kernel in a graph, of memory or of the capture itself.
func TestFaultsOfGraphsAreErrorsOrDoWithoutThem(t *testing.T) {
	for _, c := range []struct {
		setting string
		steps   int

		// code is 0 if the step goes on.
		code int32
	}{{"graph_fails_at", 2, 719}, {"graph_fails_at", 3, 719}, {"illegal_at", 1, 700}, {"capture_fails_at", 1, 0}, {"launch_fails_at", 0, 719}} {
		t.Run(fmt.Sprintf("%s after %d", c.setting, c.steps), func(t *testing.T) {
			b := &breakable{}
			b.open(t)
			defer b.close()
			if err := b.compile(t); err != nil {
				t.Fatal(err)
			}
			for range c.steps {
				if err := b.e.Run(t.Context(), false, plan.Hooks{}); err != nil {
					t.Fatal(err)
				}
			}
			b.machine.Set(c.setting, 2)
			err := b.e.Run(t.Context(), false, plan.Hooks{})
			switch {
			case c.code == 0 && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.code != 0 && !whole(err, c.code):
				t.Errorf("got error %v, want the driver's with code %d", err, c.code)
			}
			if c.code == 0 {
				for range 2 {
					if err := b.e.Run(t.Context(), false, plan.Hooks{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

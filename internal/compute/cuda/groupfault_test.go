package cuda_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A pair is two GPUs that a test may break, joined.
type pair struct {
	machine   *fake.Machine
	gpus      []*cuda.GPU
	executors []*cuda.Executor
	group     *cuda.Group
}

func newPair(t *testing.T, link cuda.Link, timeout time.Duration) *pair {
	t.Helper()
	p := &pair{machine: fake.New(t)}
	p.machine.Set("seed", 1)
	for i := range 2 {
		gpu, err := cuda.Open(i, cuda.Options{Search: *p.machine.Search(), Choices: "none", Repeat: -1})
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := build(t, joinable[1], false, nil)
		e, err := cuda.New(plan, newHost(plan), cuda.Config{GPU: gpu, Bucket: 128, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		p.gpus, p.executors = append(p.gpus, gpu), append(p.executors, e)
	}
	var err error
	if p.group, err = cuda.NewGroup(p.executors, link); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pair) run(t *testing.T) error { return p.group.Run(t.Context(), plan.Hooks{}) }

// close gives everything back, and gives the errors of that.
func (p *pair) close() (errs []error) {
	errs = append(errs, p.group.Close())
	for _, e := range p.executors {
		errs = append(errs, e.Close())
	}
	for _, g := range p.gpus {
		errs = append(errs, g.Close())
	}
	return errs
}

// What breaks between GPUs within a step ends it at once, with the GPU and the collective, and
// everything can be given back.
func TestAnExchangeThatBreaksWithinAStepEndsIt(t *testing.T) {
	for _, c := range []struct {
		setting string
		at      int64

		// code is 0 if nobody tells of it.
		code int64

		says []string
	}{
		{"nccl_hangs_at", 1, 6, []string{"rank 1 (cuda:1)", "remote process", "behind nccl", "segment "}},
		{"nccl_hangs_at", 4, 6, []string{"rank 1 (cuda:1)", "behind nccl"}},
		{"nccl_call_hangs_at", 1, 3, []string{"rank 1 (cuda:1)", "internal error", "behind nccl"}},
		{"nccl_call_hangs_at", 4, 3, []string{"rank 1 (cuda:1)", "internal error", "behind nccl"}},
		{"nccl_hangs_at", 2, 0, []string{"no progress for 300ms", "cuda:"}},
		{"nccl_call_hangs_at", 2, 0, []string{"has not returned for 300ms"}},
	} {
		for _, before := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s %d code %d after %d", c.setting, c.at, c.code, before), func(t *testing.T) {
				timeout := time.Minute
				if c.code == 0 {
					timeout = 300 * time.Millisecond
				}
				p := newPair(t, cuda.NCCL, timeout)
				for range before {
					if err := p.run(t); err != nil {
						t.Fatal(err)
					}
				}
				p.machine.Set("nccl_async_rank", 1)
				p.machine.Set(c.setting, c.at)
				p.machine.Set("trace", 0)
				if c.code != 0 { // told a while after it happened
					timer := time.AfterFunc(150*time.Millisecond, func() { p.machine.Set("nccl_async_error", c.code) })
					defer timer.Stop()
				}
				begun := time.Now()
				err := p.run(t)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				for _, s := range append(c.says, "run on 2 GPUs by NCCL") {
					if err == nil || !strings.Contains(err.Error(), s) {
						t.Errorf("got error %v, want one with %q", err, s)
					}
				}
				if err := p.run(t); err == nil || !strings.Contains(err.Error(), "has made") {
					t.Errorf("a step after it: got error %v, want one that says that it was lost", err)
				}
				for _, err := range p.close() {
					if err != nil {
						t.Errorf("to give it back: %v", err)
					}
				}
				if live := p.machine.Live(); len(live) > 0 || p.machine.Count("live_comms") != 0 {
					t.Errorf("left: %v and %d communicators", live, p.machine.Count("live_comms"))
				}
			})
		}
	}
}

// One GPU of a group that breaks is named, with what it said; the other, which waits for it in an
// exchange, is released.
func TestTheGPUOfAGroupThatBreaksIsNamed(t *testing.T) {
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		for _, c := range []struct {
			setting string
			at      int64
			code    int64
			says    string
		}{
			{"launch_fails_at", 1, 719, "CUDA_ERROR_LAUNCH_FAILED"},
			{"launch_fails_at", 6, 700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
			{"launch_fails_at", 3, 214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
			{"graph_fails_at", 2, 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"},
			{"lost_at", 1, 46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
		} {
			before := 0
			if c.setting == "graph_fails_at" {
				before = 2
			}
			t.Run(fmt.Sprintf("%v/%s %d code %d", link, c.setting, c.at, c.code), func(t *testing.T) {
				p := newPair(t, link, time.Minute)
				for range before {
					if err := p.run(t); err != nil {
						t.Fatal(err)
					}
				}
				p.machine.Set("fault_device", 1)
				p.machine.Set("fault_code", c.code)
				p.machine.Set(c.setting, c.at)
				begun := time.Now()
				err := p.run(t)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "cuda:1") {
					t.Errorf("got error %v, want one with %s and cuda:1", err, c.says)
				}
				if err := p.run(t); err == nil {
					t.Error("a step after it: got no error")
				}

				// The GPU that is lost refuses, and nothing hangs.
				p.close()
				p.machine.Complaints()
			})
		}
	}
}

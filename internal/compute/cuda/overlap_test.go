package cuda_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// work is something that a device did, in microseconds of the stand-in's clock, on which each kind
// of work takes a fixed time.
type work struct {
	from, to float64
	device   int
	what     string

	// bytes is that of a copy to the host.
	bytes int64
}

func workOf(t *testing.T, trace []string) (computing, copies []work) {
	for _, line := range trace {
		var w work
		if n, _ := fmt.Sscanf(line, "  %f to %f on %d: %s", &w.from, &w.to, &w.device, &w.what); n != 4 {
			continue
		}
		_, rest, _ := strings.Cut(line, w.what+" ")
		switch w.what {
		case "cuMemcpyDtoHAsync_v2":
			if _, err := fmt.Sscanf(rest, "%d", &w.bytes); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			copies = append(copies, w)
		case "cuLaunchKernel":
			// These are for what comes and for sums between GPUs.
			if !strings.HasPrefix(rest, "pack ") && !strings.HasPrefix(rest, "add_f32 ") {
				computing = append(computing, w)
			}
		case "cudnn", "cublasLt":
			computing = append(computing, w)
		}
	}
	byTime := func(a, b work) int { return int(10*a.from) - int(10*b.from) }
	slices.SortFunc(computing, byTime)
	slices.SortFunc(copies, byTime)
	return computing, copies
}

// Gradients of one bucket leave each device while it computes those of the next: only the last
// bucket's are left when it has computed, and computing does not pause once it has begun to give
// gradients away.
func TestGradientsLeaveWhileTheDeviceComputes(t *testing.T) {
	const bucket = 16 << 10
	for _, c := range []struct {
		gpus int
		link cuda.Link
	}{{1, cuda.AutoLink}, {2, cuda.NCCL}, {2, cuda.PeerCopies}, {2, cuda.ThroughHost}} {
		t.Run(fmt.Sprintf("%d GPUs, %v", c.gpus, c.link), func(t *testing.T) {
			machine := fake.New(t)
			models := small(t)
			programs, executors := compileAll(t, models[len(models)-1], openAll(t, machine, c.gpus), cuda.Config{Bucket: bucket})
			step := func() error { return programs[0].Run(t.Context(), false, plan.Hooks{}) }
			if c.gpus > 1 {
				g := join(t, executors, c.link)
				step = func() error { return g.Run(t.Context(), plan.Hooks{}) }
			}
			for range 2 { // launch by launch, and captured
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			machine.Set("trace", 3)
			machine.Trace()
			if err := step(); err != nil {
				t.Fatal(err)
			}
			machine.Set("trace", 0)
			computing, copies := workOf(t, machine.Trace())
			for d := range c.gpus {
				var end, pause float64
				var during, after int64
				on := func(w work) bool { return w.device != d }
				mine, away := slices.DeleteFunc(slices.Clone(computing), on), slices.DeleteFunc(slices.Clone(copies), on)
				if len(mine) == 0 || len(away) == 0 {
					t.Fatalf("cuda:%d has %d kernels and %d copies in the trace", d, len(mine), len(away))
				}
				for _, w := range mine {
					if end > 0 && w.from > away[0].from {
						pause = max(pause, w.from-end)
					}
					end = w.to
				}
				for _, w := range away {
					if w.to <= end {
						during += w.bytes
					} else {
						after += w.bytes
					}
				}
				if during < 3*after || after > 2*bucket {
					t.Errorf("cuda:%d: %d bytes go to the host while it computes and %d after, want three times as many at least, and at most %d after", d, during, after, 2*bucket)
				}
				if pause > 0.15 { // times have one digit
					t.Errorf("cuda:%d pauses for %.1f µs while gradients leave it, want no pause", d, pause)
				}
			}
		})
	}
}

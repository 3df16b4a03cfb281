//go:build gpu

package cudnn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// with is the bench for a subtest, which gives its memory back.
func (b *bench) with(t *testing.T) *bench {
	own := *b
	own.T = t
	t.Cleanup(func() {
		if err := b.memory.Release(); err != nil && !t.Failed() {
			gputest.Must(t, err)
		}
	})
	return &own
}

// eachEngine builds engines one by one and runs each, until a time, but one at least. What the
// library refuses is left out, as in training; that nothing runs is an error.
func eachEngine[P interface {
	Engine() string
	Build() error
	Close() error
}](b *bench, name string, plans []P, until time.Time, run func(p P) error) {
	b.Helper()
	ran, refused, left := 0, 0, 0
	var reason error
	for i, p := range plans {
		if ran > 0 && time.Now().After(until) {
			left = len(plans) - i
			b.do(func() error { closeAll(plans[i:]); return nil })
			break
		}
		err := b.ctx.Do(p.Build)
		if err == nil {
			err = run(p)
		}
		if err == nil {
			ran++
		} else if err = fmt.Errorf("%s: %w", p.Engine(), err); !Refused(err) || errors.Is(err, drv.ErrLost) {
			gputest.Must(b, err)
		} else if refused++; reason == nil {
			reason = err
		}
		b.do(p.Close)
	}
	if ran == 0 {
		b.Fatalf("%s: none of %d engines runs: %v", name, len(plans), reason)
	}
	gputest.Note("%s: %d of %d engines ran", name, ran, len(plans))
	if refused > 0 {
		gputest.Note("%d refused, such as: %v", refused, reason)
	}
	if left > 0 {
		gputest.Note("for %d there was no time", left)
	}
}

// Every engine that the library offers gives the numbers of plain loops, over poisoned memory and
// between guards, not only the fastest.
func TestGPUOps(t *testing.T) {
	gputest.Begin(t)
	b := newBench(t)
	for _, c := range []Conv{shape(0, 3, 16, 10, 9, 24, 3, 3, 1, 1), shape(0, 3, 16, 10, 9, 24, 3, 3, 1, 2), shape(0, 3, 8, 10, 9, 16, 1, 1, 0, 2)} {
		for _, dtype := range []DType{Float32, BFloat16, Float16} {
			c.In, c.Weight, c.Out = dtype, dtype, dtype
			name := fmt.Sprintf("convolution %d×%d stride %d, all engines %v", c.R, c.S, c.Stride[0], dtype)
			gputest.Check(t, name, func(t *testing.T) {
				b, r := b.with(t), rand.New(rand.NewPCG(1, 2))
				for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
					var all []*Plan
					b.do(func() (err error) { all, err = b.h.Candidates(op, c); return })
					d := newPass(b, r, op, c)
					want := d.want()
					eachEngine(b, op.String(), all, gputest.After(t, 0.05), func(p *Plan) error {
						got, err := d.try(b, p)
						if err == nil {
							near(t, fmt.Sprintf("%v by %s", op, p.Engine()), got, want, ulp(dtype))
						}
						return err
					})
				}
			})
		}
	}
	for _, dtype := range []DType{BFloat16, Float16} {
		name := fmt.Sprintf("fused norm, add, ReLU of cuDNN, all engines %v", dtype)
		gputest.Check(t, name, func(t *testing.T) {
			b, r := b.with(t), rand.New(rand.NewPCG(3, 4))
			for _, n := range norms {
				if n.Type = dtype; !n.Add || !n.Mask {
					continue
				}
				all, err := offer(b, func() ([]*NormPlan, error) { return b.h.NormCandidates(n) })
				if errors.Is(err, ErrNotSupported) {
					gputest.Note("not offered: %v", err)
					continue
				}
				gputest.Must(t, err)
				eachEngine(b, n.String(), all, gputest.After(t, 0.1), normCheck(b, r, n))
			}
			n := normGrads[len(normGrads)-1]
			n.Type = dtype
			all, err := offer(b, func() ([]*NormGradPlan, error) { return b.h.NormGradCandidates(n) })
			if errors.Is(err, ErrNotSupported) {
				gputest.Note("not offered: %v", err)
				return
			}
			gputest.Must(t, err)
			eachEngine(b, n.String(), all, gputest.After(t, 0.1), normGradCheck(b, r, n))
		})
	}
}

// offer asks on the context's thread.
func offer[P any](b *bench, ask func() ([]P, error)) (all []P, err error) {
	err = b.ctx.Do(func() error { all, err = ask(); return err })
	return all, err
}

// What the library's documentation leaves open. No answer is wrong.
func TestGPUFacts(t *testing.T) {
	gputest.Begin(t)
	b := newBench(t)
	gputest.Measured(t, "cuDNN", 0, "", "%v from %s", b.h.Version(), b.h.Path())
	for _, f := range Facts() {
		name := "cuDNN: " + f.Name
		gputest.Check(t, name, func(t *testing.T) {
			gputest.Must(t, b.ctx.Do(func() error {
				yes, detail, err := f.Check(b.h, b.s)
				if err == nil {
					gputest.Answer(t, name, yes, f.Holds, f.Otherwise, detail)
				}
				return err
			}))
		})
	}
}

// resnetConvs are the convolutions of ResNet18 for images of 32×32, each once, with how often it is
// there.
func resnetConvs(batch int) (convs []Conv, times []int) {
	add := func(n, channels, size, filters, kernel, stride int) {
		convs = append(convs, shape(BFloat16, batch, channels, size, size, filters, kernel, kernel, kernel/2, stride))
		times = append(times, n)
	}
	add(1, 8, 32, 64, 3, 1) // 3 channels, padded
	add(4, 64, 32, 64, 3, 1)
	for stage := range 3 {
		from, size := 64<<stage, 32>>stage
		add(1, from, size, 2*from, 3, 2)
		add(1, from, size, 2*from, 1, 2)
		add(3, 2*from, size/2, 2*from, 3, 1)
	}
	return convs, times
}

// How long each engine takes for each convolution of ResNet18.
func TestGPUEngines(t *testing.T) {
	gputest.Begin(t)
	b := newBench(t)
	batch, repeat := 512, 5
	if testing.Short() {
		batch, repeat = 1, 1
	}
	convs, times := resnetConvs(batch)
	if testing.Short() {
		convs, times = []Conv{shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 2)}, times[:1]
	}
	var total time.Duration
	whole := true
	for i, conv := range convs {
		for _, pass := range []Op{Forward, BackwardData, BackwardWeight} {
			if i == 0 && pass == BackwardData && !testing.Short() {
				continue // the images' gradient is not needed
			}
			name := fmt.Sprintf("%v %v", pass, conv)
			best := time.Duration(0)
			gputest.Check(t, name, func(t *testing.T) { best = b.with(t).fastest(name, pass, conv, repeat, gputest.After(t, 0.1)) })
			whole = whole && best > 0
			total += best * time.Duration(times[i])
		}
	}
	if whole {
		gputest.Measured(t, "all convolutions of a step", total.Seconds()*1e3, "ms", "batch %d, each by its fastest engine: %.0f images/s", batch, float64(batch)/total.Seconds())
	}
}

// fastest times all engines for one question, and returns the best time of those whose sums have a
// fixed order, which is what programs take unless they ask for others. What the others would gain
// is in the row.
func (b *bench) fastest(name string, pass Op, conv Conv, repeat int, until time.Time) time.Duration {
	conv.NonDeterministic = true
	candidates, err := offer(b, func() ([]*Plan, error) { return b.h.Candidates(pass, conv) })
	gputest.Must(b, err)
	var plans []*Plan
	loose := make(map[string]bool)
	var most int64
	for _, p := range candidates {
		if len(plans) == 0 || time.Now().Before(until) {
			if err = b.ctx.Do(p.Build); err == nil {
				plans, loose[p.Engine()], most = append(plans, p), slices.Contains(p.Notes(), NoteNonDeterministic), max(most, p.Workspace())
				continue
			}
		}
		b.do(p.Close)
	}
	if len(plans) == 0 {
		b.Fatalf("none of %d engines: %v", len(candidates), err)
	}
	var p [3]drv.Ptr
	part := encode(BFloat16, random(rand.New(rand.NewPCG(3, 3)), BFloat16, 1<<21))
	for i, n := range counts(conv) {
		p[i] = b.room(2 * int64(n))
		gputest.Must(b, b.memory.Repeat(p[i], 2*int64(n), part))
	}
	space := b.room(most)
	var timings []Timing
	b.do(func() (err error) {
		_, timings, err = Tune(b.ctx, b.s, plans, func(plan *Plan) error { return plan.Run(b.s, space, p[0], p[1], p[2]) }, repeat)
		return errors.Join(err, Release(plans, nil))
	})
	first := timings[0]
	timings = slices.DeleteFunc(timings, func(t Timing) bool { return t.Err != nil })
	if len(timings) == 0 {
		b.Fatalf("no engine ran: %v", first.Err)
	}
	slices.SortStableFunc(timings, func(a, b Timing) int { return int(a.Time - b.Time) })
	var list []string
	for _, t := range timings {
		mark := ""
		if loose[t.Engine] {
			mark = ", no fixed order of sums"
		}
		list = append(list, fmt.Sprintf("%v %s (%d KiB%s)", t.Time, t.Engine, t.Workspace>>10, mark))
	}
	best := timings[0].Time
	if i := slices.IndexFunc(timings, func(t Timing) bool { return !loose[t.Engine] }); i >= 0 {
		best = timings[i].Time
	}
	outH, outW := conv.OutSize()
	flop := 2 * float64(conv.N*outH*outW*conv.K) * float64(conv.R*conv.S*conv.C)
	gputest.Measured(b, name, float64(best.Microseconds()), "µs", "%.0f TFLOP/s; the library's guess %v; %s", flop/max(best.Seconds(), 1e-9)/1e12, first.Time, strings.Join(list, ", "))
	return best
}

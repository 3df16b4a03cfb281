package cudnn

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/drv"
)

// A Timing is what Tune measured of one candidate.
type Timing struct {
	Engine    string
	Time      time.Duration // of one run, the best of several spells
	Workspace int64
	Err       error // why it was left out
}

// spells is how often each candidate is timed; the shortest counts, since all that disturbs makes it longer.
const spells = 3

// Tune times the candidates on s and returns the fastest, and what was measured of each, in the order given. run enqueues one
// candidate on s. Each is run once to warm up, then repeat times between two events, three times over. Of equals the earlier is
// taken. A candidate that the library refuses is left out; any other error ends the matter, since the device may be lost.
// repeat 0 measures nothing and takes the first that runs, the heuristics' guess.
//
// Candidates are plans of this package or others that can name themselves.
func Tune[P interface {
	Engine() string
	Workspace() int64
}](ctx *drv.Context, s drv.Stream, candidates []P, run func(P) error, repeat int) (best P, timings []Timing, err error) {
	if repeat < 0 {
		return best, nil, fmt.Errorf("cudnn: tune: repeat is %d, want 0 or more", repeat)
	}
	var from, to drv.Event
	if repeat > 0 {
		if from, err = ctx.NewEvent(true); err != nil {
			return best, nil, fmt.Errorf("cudnn: tune: %w", err)
		}
		defer func() { err = errors.Join(err, ctx.DestroyEvent(from)) }()
		if to, err = ctx.NewEvent(true); err != nil {
			return best, nil, fmt.Errorf("cudnn: tune: %w", err)
		}
		defer func() { err = errors.Join(err, ctx.DestroyEvent(to)) }()
	}
	least := time.Duration(math.MaxInt64)
	var reasons []error
	for _, p := range candidates {
		t := Timing{Engine: p.Engine(), Time: math.MaxInt64, Workspace: p.Workspace()}
		err := run(p)
		if err == nil {
			err = ctx.Synchronize(s)
		}
		for i := 0; err == nil && repeat > 0 && i < spells; i++ {
			var d time.Duration
			d, err = spell(ctx, s, from, to, func() error { return run(p) }, repeat)
			t.Time = min(t.Time, d)
		}
		if err != nil && Refused(err) {
			t.Err, t.Time = err, 0
			reasons = append(reasons, err)
			timings = append(timings, t)
			continue
		}
		if err != nil {
			return best, timings, fmt.Errorf("cudnn: tune %s: %w", t.Engine, err)
		}
		if repeat == 0 {
			t.Time = 0
			return p, append(timings, t), nil
		}
		if t.Time < least {
			best, least = p, t.Time
		}
		timings = append(timings, t)
	}
	if len(reasons) == len(candidates) {
		return best, timings, fmt.Errorf("cudnn: tune: none of %d candidates runs: %w", len(candidates), refused(reasons))
	}
	return best, timings, nil
}

// spell measures the mean of n runs.
func spell(ctx *drv.Context, s drv.Stream, from, to drv.Event, run func() error, n int) (time.Duration, error) {
	if err := ctx.Record(from, s); err != nil {
		return 0, err
	}
	for range n {
		if err := run(); err != nil {
			return 0, err
		}
	}
	if err := ctx.Record(to, s); err != nil {
		return 0, err
	}
	if err := ctx.SynchronizeEvent(to); err != nil {
		return 0, err
	}
	d, err := ctx.Elapsed(from, to)
	return d / time.Duration(n), err
}

// A Tuner chooses a plan for each question and remembers the choice.
type Tuner struct {
	Handle *Handle
	Cache  *Cache     // nil remembers nothing
	Stream drv.Stream // where candidates are timed; nothing else should run meanwhile

	// Repeat is how many runs make one measurement. 0 measures nothing: the heuristics' first guess is taken, the same on every
	// machine of a kind.
	Repeat int

	// Most is how many candidates are built and timed of a question at most, in the heuristics' order. Zero is all. Some engines
	// take seconds to compile.
	Most int

	// Any lets BackwardWeight choose a plan that writes Conv.In in place of Conv.Weight, as BackwardWeightAny does. The time of
	// the conversion is not counted.
	Any bool

	// Log, if not nil, is told of choices and of what is wrong with the cache.
	Log func(format string, args ...any)
}

func (t *Tuner) logf(format string, args ...any) {
	if t.Log != nil {
		t.Log(format, args...)
	}
}

// most is how many plans of a question are built: one is enough where nothing is measured.
func (t *Tuner) most() int {
	if t.Repeat <= 0 {
		return 1
	}
	return t.Most
}

// Conv gives the plan for a pass, built. Its first choice of a question runs all candidates on memory of its own.
func (t *Tuner) Conv(op Op, c Conv) (*Plan, error) {
	h := t.Handle
	x, w, y := c.sizes()
	all := func() ([]*Plan, error) { return h.Candidates(op, c) }
	build := func(plans []*Plan) ([]*Plan, error) { return keepBuilt(plans, t.most(), describe(op, c)) }
	key := describe(op, c)
	if t.Any && op == BackwardWeight && c.Weight != c.In {
		key += " or " + c.In.String()
		in := c
		in.Weight = c.In
		all = func() ([]*Plan, error) {
			plans, err := h.Candidates(op, c)
			more, err2 := h.Candidates(op, in)
			return either(plans, err, more, err2)
		}
	}
	return choose(t, key, all, build, func(p *Plan) string { return fmt.Sprintf("%s to %v", p.Engine(), p.conv.Weight) },
		[]int64{x, w, y}, func(p *Plan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, m[0], m[1], m[2])
		})
}

// Norm gives the plan for a Norm, built. It may be one that wants NormArgs.Zeros.
func (t *Tuner) Norm(n Norm) (*NormPlan, error) {
	h := t.Handle
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), int64(n.C)*4
	all := func() ([]*NormPlan, error) {
		plans, err := h.NormCandidates(n)
		if n.Mask && !n.Zeros && (err == nil || errors.Is(err, ErrNotSupported)) {
			zeros := n
			zeros.Zeros = true
			more, err2 := h.NormCandidates(zeros)
			if err2 == nil {
				return append(plans, more...), nil
			}
			if !errors.Is(err2, ErrNotSupported) || err != nil {
				closeAll(plans)
				return nil, errors.Join(err, err2)
			}
		}
		return plans, err
	}
	bytes := image * n.Type.Size()
	return choose(t, n.String(), all, func(plans []*NormPlan) ([]*NormPlan, error) { return keepBuilt(plans, t.most(), n.String()) },
		func(p *NormPlan) string {
			if p.norm.Zeros {
				return p.Engine() + " by zeros"
			}
			return p.Engine()
		},
		[]int64{bytes, bytes, bytes, channel, channel, bytes, (image + 7) / 8, channel, channel, channel, channel},
		func(p *NormPlan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, NormArgs{X: m[0], Add: m[1], Zeros: m[2], Scale: m[3], Bias: m[4], Y: m[5], Mask: m[6], Mean: m[7],
				InvStd: m[8], RunningMean: m[9], RunningVar: m[10]})
		})
}

// NormGrad gives the plan for a NormGrad, built.
func (t *Tuner) NormGrad(n NormGrad) (*NormGradPlan, error) {
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), int64(n.C)*4
	bytes := image * n.Type.Size()
	return choose(t, n.String(), func() ([]*NormGradPlan, error) { return t.Handle.NormGradCandidates(n) },
		func(plans []*NormGradPlan) ([]*NormGradPlan, error) { return keepBuilt(plans, t.most(), n.String()) }, (*NormGradPlan).Engine,
		[]int64{bytes, bytes, (image + 7) / 8, channel, channel, channel, bytes, bytes, channel, channel},
		func(p *NormGradPlan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, NormGradArgs{X: m[0], DY: m[1], Mask: m[2], Scale: m[3], Mean: m[4], InvStd: m[5], DX: m[6],
				DAdd: m[7], DScale: m[8], DBias: m[9]})
		})
}

// choose is the choice of one plan: that of the cache if it is there and still builds, else the fastest, on scratch memory of
// these sizes.
func choose[P interface {
	comparable
	buildable
	Workspace() int64
}](t *Tuner, question string, all func() ([]P, error), build func([]P) ([]P, error), name func(P) string, sizes []int64,
	run func(p P, workspace drv.Ptr, memory []drv.Ptr) error) (P, error) {
	var none P
	key := t.Handle.Key(question)
	plans, err := all()
	if err != nil {
		return none, err
	}
	if choice, ok := t.Cache.Get(key); ok {
		for _, p := range plans {
			if name(p) != choice.Engine {
				continue
			}
			err := p.Build()
			if err == nil {
				return p, Release(plans, p)
			}
			t.logf("cudnn: the engine chosen for %s before, %s, no longer builds: %v", question, choice.Engine, err)
		}
	}
	plans, err = build(plans)
	if err != nil {
		return none, err
	}
	best, err := measure(t, question, key, plans, name, sizes, run)
	if err != nil {
		closeAll(plans)
		return none, err
	}
	return best, Release(plans, best)
}

// measure tunes on scratch memory and writes the result down.
func measure[P interface {
	comparable
	buildable
	Workspace() int64
}](t *Tuner, question, key string, plans []P, name func(P) string, sizes []int64,
	run func(p P, workspace drv.Ptr, memory []drv.Ptr) error) (best P, err error) {
	if t.Repeat <= 0 {
		return plans[0], nil
	}
	ctx := t.Handle.ctx
	var held []drv.Ptr
	defer func() {
		for _, ptr := range held {
			err = errors.Join(err, ctx.Free(ptr))
		}
	}()
	// Small positive numbers in each type: zeros would cost the device less power and time than it costs in earnest.
	take := func(bytes int64) (drv.Ptr, error) {
		ptr, err := ctx.Malloc(bytes)
		if err != nil {
			return 0, fmt.Errorf("cudnn: tune %s: %w", question, err)
		}
		held = append(held, ptr)
		if err := ctx.Memset8(ptr, 0x3c, bytes, t.Stream); err != nil {
			return 0, fmt.Errorf("cudnn: tune %s: %w", question, err)
		}
		return ptr, nil
	}
	memory := make([]drv.Ptr, len(sizes))
	for i, bytes := range sizes {
		if memory[i], err = take(bytes); err != nil {
			return best, err
		}
	}
	var workspace drv.Ptr
	var most int64
	for _, p := range plans {
		most = max(most, p.Workspace())
	}
	if most > 0 {
		if workspace, err = take(most); err != nil {
			return best, err
		}
	}
	best, timings, err := Tune(ctx, t.Stream, plans, func(p P) error { return run(p, workspace, memory) }, t.Repeat)
	if err != nil {
		return best, err
	}
	choice := Choice{Engine: name(best), Candidates: len(timings)}
	for i, p := range plans[:len(timings)] {
		if p == best {
			choice.Nanoseconds = timings[i].Time.Nanoseconds()
		}
	}
	t.logf("cudnn: %s: %s, %v, fastest of %d", question, choice.Engine, time.Duration(choice.Nanoseconds), choice.Candidates)
	if err := t.Cache.Put(key, choice); err != nil {
		t.logf("%v", err) // the choice holds; the next start makes it again
	}
	return best, ctx.Synchronize(t.Stream)
}

package cudnn

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Tuner chooses a plan for each question and remembers the choice.
//
// A candidate counts if it builds, runs, gives the right numbers (of a convolution some elements
// are compared with what the host computes) and can be captured into a graph; then the fastest is
// taken. One that fails costs no more than itself. An engine that breaks the device ends the
// program, and is written down, so that the next start leaves it out.
type Tuner struct {
	Handle *Handle
	Cache  *Cache // nil remembers nothing

	// Stream is where candidates are timed. Nothing else should run meanwhile.
	Stream drv.Stream

	// Repeat is how many runs make one measurement. 0 measures nothing: the heuristics' first
	// guess is taken, the same on every machine of a kind.
	Repeat int

	// Most is how many candidates are built and timed of a question at most, in the heuristics'
	// order. Zero is all. Where the question was answered for another number of images, what
	// was chosen there comes first, and half as many do. Those that the library compiles come
	// after them, as many as Handle.MaxCompiled.
	Most int

	// Budget is how long all choices until Settle together should take, those that are
	// remembered left out. What is left of it is shared out to questions as they come, a part
	// to each, so late questions try fewer candidates; at least one is tried of each. Zero is
	// no limit.
	Budget time.Duration

	// Any lets BackwardWeight choose a plan that writes Conv.In in place of Conv.Weight, as
	// BackwardWeightAny does. The time of the conversion is not counted.
	Any bool

	// Log, if not nil, gets choices and errors of the cache. Notice, if not nil, gets what
	// users should see: that measuring takes a while, and of candidates that fail where they
	// should not.
	Log, Notice func(format string, args ...any)

	clock func() time.Time // time.Now if nil

	measured int // questions

	// spent is the time that went into them.
	spent time.Duration

	// told is when the last line of Notice came.
	told time.Duration

	// faults counts the candidates that failed where they should not.
	faults int
}

func (t *Tuner) logf(format string, args ...any) {
	if t.Log != nil {
		t.Log(format, args...)
	}
}

func (t *Tuner) notice(format string, args ...any) {
	if t.Notice != nil {
		t.Notice(format, args...)
	}
}

// mostFaults is how many failing candidates are shown to users until Settle; the rest goes to the
// log.
const mostFaults = 5

func (t *Tuner) fault(format string, args ...any) {
	if t.faults++; t.faults > mostFaults {
		t.logf(format, args...)
		return
	}
	t.notice(format, args...)
}

func (t *Tuner) now() time.Time {
	if t.clock != nil {
		return t.clock()
	}
	return time.Now()
}

// begin and end are around a question that is measured.
func (t *Tuner) begin() {
	if t.measured > 0 {
		return
	}
	where := "nowhere"
	if t.Cache != nil {
		where = "in " + t.Cache.path
	}
	t.notice("cudnn: measuring the fastest engines for this network's convolutions; the choice is saved %s", where)
}

// noticeEvery is how often users see that measuring goes on.
const noticeEvery = 5 * time.Second

func (t *Tuner) end(took time.Duration) {
	t.measured++
	t.spent += took
	if t.spent-t.told >= noticeEvery {
		t.told = t.spent
		t.notice("cudnn: measured engines for %d operations in %v", t.measured, t.spent.Round(100*time.Millisecond))
	}
}

// Settle says how many questions were measured since it was called last, and how long that took.
// What comes next has a budget of its own.
func (t *Tuner) Settle() (questions int, took time.Duration) {
	questions, took = t.measured, t.spent
	t.measured, t.spent, t.told, t.faults = 0, 0, 0, 0
	return questions, took
}

// Conv gives the plan for a pass, built. Its first choice of a question runs all candidates on
// memory of its own.
func (t *Tuner) Conv(op Op, c Conv) (*Plan, error) {
	h := t.Handle
	x, w, y := c.sizes()
	in := c
	in.Weight = c.In
	q := question[*Plan]{question: describe(op, c), sizes: []int64{x, w, y}, adds: c.Accumulate,
		all:  func() ([]*Plan, error) { return h.Candidates(op, c) },
		name: func(p *Plan) string { return fmt.Sprintf("%s to %v", p.Engine(), p.conv.Weight) },
		again: func(name string) (*Plan, error) {
			for _, form := range []Conv{c, in} {
				if engine, ok := strings.CutSuffix(name, " to "+form.Weight.String()); ok {
					return h.named(op, form, engine)
				}
			}
			return nil, fmt.Errorf("cudnn: %q names no engine for %s", name, describe(op, c))
		},
		run: func(p *Plan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, m[0], m[1], m[2])
		},
	}
	if t.Any && op == BackwardWeight && c.Weight != c.In {
		q.question += " or " + c.In.String()
		q.all = func() ([]*Plan, error) {
			plans, err := h.Candidates(op, c)
			more, err2 := h.Candidates(op, in)
			all, err := either(plans, err, more, err2)
			if err == nil {
				all = alternate(plans, more)
			}
			return all, err
		}
	}
	var s *sample
	ctx := h.ctx
	q.fill = func(m []drv.Ptr) error {
		s = newSample(op, c)
		if err := s.open(ctx); err != nil {
			return err
		}
		types := s.types(c)
		for i, to := range m {
			if i == s.result() {
				continue
			}
			if err := s.fill(ctx, t.Stream, i, types[i], to); err != nil {
				return err
			}
		}
		return nil
	}
	q.done = func() error {
		if s == nil {
			return nil
		}
		return s.close(ctx)
	}
	q.prepare = func(p *Plan, m []drv.Ptr) error { return s.prepare(ctx, t.Stream, p.conv, m) }
	q.check = func(p *Plan, m []drv.Ptr) error { return s.check(ctx, t.Stream, p.conv, m) }
	return choose(t, q)
}

// alternate takes from two lists in turn, so that a limit leaves some of both.
func alternate[P any](a, b []P) []P {
	var out []P
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			out = append(out, a[i])
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}

// Norm gives the plan for a Norm, built. It may be one that wants NormArgs.Zeros.
func (t *Tuner) Norm(n Norm) (*NormPlan, error) {
	h := t.Handle
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), int64(n.C)*4
	bytes := image * n.Type.Size()
	zeros := n
	zeros.Zeros = true
	const byZeros = " by zeros"
	return choose(t, question[*NormPlan]{question: n.String(),
		sizes: []int64{bytes, bytes, bytes, channel, channel, bytes, (image + 7) / 8, channel, channel, channel, channel},
		all: func() ([]*NormPlan, error) {
			plans, err := h.NormCandidates(n)
			if !n.Mask || n.Zeros {
				return plans, err
			}
			more, err2 := h.NormCandidates(zeros)
			return either(plans, err, more, err2)
		},
		name: func(p *NormPlan) string {
			if p.norm.Zeros {
				return p.Engine() + byZeros
			}
			return p.Engine()
		},
		again: func(name string) (*NormPlan, error) {
			form := n
			engine, ok := strings.CutSuffix(name, byZeros)
			if ok {
				form = zeros
			}
			g, err := h.normGraph(form)
			if err != nil {
				return nil, err
			}
			found, err := h.one(g, engine)
			if err != nil {
				return nil, err
			}
			return h.normPlans(form, []plan{found})[0], nil
		},
		run: func(p *NormPlan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, NormArgs{X: m[0], Add: m[1], Zeros: m[2], Scale: m[3], Bias: m[4], Y: m[5], Mask: m[6], Mean: m[7],
				InvStd: m[8], RunningMean: m[9], RunningVar: m[10]})
		}})
}

// NormGrad gives the plan for a NormGrad, built.
func (t *Tuner) NormGrad(n NormGrad) (*NormGradPlan, error) {
	h := t.Handle
	image, channel := int64(n.N)*int64(n.C)*int64(n.H)*int64(n.W), int64(n.C)*4
	bytes := image * n.Type.Size()
	return choose(t, question[*NormGradPlan]{question: n.String(),
		sizes: []int64{bytes, bytes, (image + 7) / 8, channel, channel, channel, bytes, bytes, channel, channel},
		all:   func() ([]*NormGradPlan, error) { return h.NormGradCandidates(n) },
		name:  (*NormGradPlan).Engine,
		again: func(name string) (*NormGradPlan, error) {
			g, err := h.normGradGraph(n)
			if err != nil {
				return nil, err
			}
			found, err := h.one(g, name)
			if err != nil {
				return nil, err
			}
			return &NormGradPlan{plan: found, norm: n}, nil
		},
		run: func(p *NormGradPlan, workspace drv.Ptr, m []drv.Ptr) error {
			return p.Run(t.Stream, workspace, NormGradArgs{X: m[0], DY: m[1], Mask: m[2], Scale: m[3], Mean: m[4], InvStd: m[5], DX: m[6],
				DAdd: m[7], DScale: m[8], DBias: m[9]})
		}})
}

// one is the plan of the engine with this name, not built. It owns the graph.
func (h *Handle) one(g *graph, name string) (plan, error) {
	e, err := h.remake(g, name)
	if err != nil {
		return plan{}, joined(err, g.destroy())
	}
	g.retain()
	return plan{h: h, graph: g, engine: e}, nil
}

// named is the plan of an engine that was chosen before, not built.
func (h *Handle) named(op Op, c Conv, name string) (*Plan, error) {
	if strings.HasPrefix(name, legacyPrefix) {
		found, err := h.legacyCandidates(op, c, h.wish(c))
		if err != nil {
			return nil, err
		}
		var kept *Plan
		for _, l := range found {
			p := h.legacyPlan(op, c, l)
			if p.Engine() == name {
				kept = p
				continue
			}
			err = joined(err, p.Close())
		}
		if kept == nil || err != nil {
			return nil, joined(fmt.Errorf("cudnn: %s has no %s", describe(op, c), name), err)
		}
		return kept, nil
	}
	g, err := h.convGraph(op, c)
	if err != nil {
		return nil, err
	}
	p, err := h.one(g, name)
	if err != nil {
		return nil, err
	}
	return &Plan{plan: p, op: op, conv: c}, nil
}

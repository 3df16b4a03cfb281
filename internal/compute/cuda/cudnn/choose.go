package cudnn

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// tunable is a pointer to a kind of plan that can be chosen.
type tunable interface {
	comparable
	buildablePlan
	Workspace() int64
	Compiled() bool
}

// An question is a question as the choice of a plan sees it.
type question[P tunable] struct {
	question string

	// sizes are those of the memory that plans work on.
	sizes []int64

	all func() ([]P, error) // the candidates, not built

	// again makes the one with this name, not built.
	again func(name string) (P, error)

	name func(P) string // what a choice is remembered by
	run  func(p P, workspace drv.Ptr, memory []drv.Ptr) error

	// Of results that are checked: what fills the memory of operands, what is done before a run
	// that is looked at, the look, and the end. All are nil where they are not. adds says that
	// a second run gives another result.
	fill    func(memory []drv.Ptr) error
	done    func() error
	prepare func(p P, memory []drv.Ptr) error
	check   func(p P, memory []drv.Ptr) error
	adds    bool
}

// joined is errors.Join that leaves a single error as it is.
func joined(err, more error) error {
	if more == nil {
		return err
	}
	return errors.Join(err, more)
}

// choose is the choice of one plan: that of the cache if it is there and still builds, else the
// fastest, on scratch memory.
func choose[P tunable](t *Tuner, q question[P]) (P, error) {
	var none P
	key := t.Handle.Key(q.question)
	p, known, ok := again(t, q, key)
	if ok {
		return p, nil
	}
	if t.Repeat > 0 {
		defer t.Cache.lock()()
		if !known {
			if p, _, ok := again(t, q, key); ok { // another process measured meanwhile
				return p, nil
			}
		}
	}
	plans, err := q.all()
	if err != nil {
		return none, err
	}
	if t.Repeat <= 0 {
		plans, err := keepBuilt(plans, 1, q.question)
		if err != nil {
			return none, err
		}
		return plans[0], nil
	}
	best, err := measure(t, q, key, plans)
	if err != nil {
		closeAll(plans)
		return none, err
	}
	return best, Release(plans, best)
}

// again is the plan of a choice that was made before, if one is known; ok if it still builds.
func again[P tunable](t *Tuner, q question[P], key string) (p P, known, ok bool) {
	choice, known := t.Cache.Get(key)
	if !known {
		return p, false, false
	}
	p, err := q.again(choice.Engine)
	if err == nil {
		if err = p.Build(); err == nil {
			return p, true, true
		}
		err = joined(err, p.Close())
	}
	t.fault("cudnn: the engine chosen for %s before, %s, no longer builds: %v", q.question, choice.Engine, err)
	return p, true, false
}

// fewest is how many candidates are tried of a question whose share of the time is used up, as long
// as there is time for others; share is what part of the time that is left a question may take, and
// longest the most.
const (
	fewest  = 4
	share   = 8
	longest = time.Second
)

// limit is how long the next question may take, and whether there is time left at all.
func (t *Tuner) limit() (time.Duration, bool) {
	if t.Budget <= 0 {
		return math.MaxInt64, true
	}
	return min(longest, max(0, t.Budget-t.spent)/share), t.spent < t.Budget
}

// margin is how much faster, by a part, an engine must be that is compiled anew at each start.
const margin = 1.0 / 32

// measure tries candidates on scratch memory and writes the result down.
func measure[P tunable](t *Tuner, q question[P], key string, plans []P) (best P, err error) {
	started := t.now()
	t.begin()
	defer func() { t.end(t.now().Sub(started)) }()
	b := &comparison[P]{Tuner: t, q: q, ctx: t.Handle.ctx, least: math.MaxInt64}
	defer func() { err = joined(err, b.close()) }()
	if err := b.open(); errors.Is(err, drv.ErrOutOfMemory) {
		t.notice("cudnn: %s: no engine is measured: %v", q.question, err)
		plans, err := keepBuilt(plans, 1, q.question)
		if err != nil {
			return best, err
		}
		return plans[0], nil
	} else if err != nil {
		return best, fmt.Errorf("cudnn: tune %s: %w", q.question, err)
	}
	m := newTrials(t, q, key, b, started)
	for _, p := range inOrder(plans, func(p P) bool { return m.likely[q.name(p)] }) {
		if m.enough(p) {
			break
		}
		if m.skips(p) {
			continue
		}
		if err := m.try(p); err != nil {
			return best, err
		}
	}
	if len(m.found) == 0 {
		return best, fmt.Errorf("cudnn: %s: none of %d engines runs: %w", q.question, len(plans), refused(m.reasons))
	}
	return m.choose()
}

// A trials is the candidates of a question that are tried, one after the other.
type trials[P tunable] struct {
	t   *Tuner
	q   question[P]
	key string
	b   *comparison[P]

	// likely are the engines that were chosen for questions alike.
	likely map[string]bool

	// most is how many are tried, 0 for all, besides those that the library compiles.
	most int

	// from is when the question's share of the time began, and limit is that share. left says
	// whether there is time for more than one candidate.
	from  time.Time
	limit time.Duration
	left  bool

	found []timedCandidate[P]

	// reasons are why others were refused.
	reasons []error
}

func newTrials[P tunable](t *Tuner, q question[P], key string, b *comparison[P], started time.Time) *trials[P] {
	m := &trials[P]{t: t, q: q, key: key, b: b, from: started, likely: t.Cache.relatives(key), most: t.Most}
	m.limit, m.left = t.limit()
	if len(m.likely) > 0 && m.most > 1 {
		m.most = max(len(m.likely), m.most/2)
	}
	return m
}

// enough reports whether p and those behind it are not tried any more, for lack of time.
func (m *trials[P]) enough(p P) bool {
	n, late := len(m.found), m.t.now().Sub(m.from) >= m.limit
	return n > 0 && (!m.left || late && (n >= fewest || p.Compiled()))
}

// skips reports whether p is left out.
func (m *trials[P]) skips(p P) bool {
	return m.most > 0 && len(m.found) >= m.most && !p.Compiled() || m.t.Cache.broken(m.key, m.q.name(p))
}

// try tries a candidate. An error ends the question; that the candidate is refused is none.
func (m *trials[P]) try(p P) error {
	t, q := m.t, m.q
	r, err := m.b.try(p)
	if err != nil && Refused(err) {
		// What the library says of a device that this engine broke looks like a refusal, and the
		// next engine would have the blame.
		if lost := m.b.ctx.Synchronize(t.Stream); lost != nil {
			err = joined(lost, err)
		}
	}
	switch {
	case err == nil:
		if m.found = append(m.found, r); len(m.found) == 1 {
			// The library loads what it needs with the first one.
			m.from = t.now()
		}
		return nil
	case errors.Is(err, drv.ErrLost):
		t.Cache.breaks(m.key, q.name(p))
	case Refused(err) || errors.Is(err, drv.ErrOutOfMemory):
		m.reasons = append(m.reasons, err)
		if !errors.Is(err, ErrNotSupported) {
			t.logf("cudnn: %s: %s is left out: %v", q.question, q.name(p), err)
		}
		return nil
	}
	return fmt.Errorf("cudnn: tune %s for %s: %w", p.Engine(), q.question, err)
}

// choose is the best of those that were found. It is written down, unless its results are wrong.
func (m *trials[P]) choose() (P, error) {
	t, q := m.t, m.q
	chosen := m.b.pick(m.found)
	choice := Choice{Engine: q.name(chosen.p), Candidates: len(m.found), Nanoseconds: chosen.time.Nanoseconds()}
	t.logf("cudnn: %s: %s, %v, fastest of %d", q.question, choice.Engine, chosen.time, choice.Candidates)
	if chosen.wrong == nil {
		if err := t.Cache.Put(m.key, choice); err != nil {
			// The choice holds, and the next start makes it again.
			t.fault("%v", err)
		}
	}
	return chosen.p, m.b.ctx.Synchronize(t.Stream)
}

// inOrder puts the likely ones first and the engines that the library compiles last.
func inOrder[P tunable](plans []P, likely func(P) bool) []P {
	rank := func(p P) int {
		switch {
		case likely(p):
			return 0
		case p.Compiled():
			return 2
		}
		return 1
	}
	order := slices.Clone(plans)
	slices.SortStableFunc(order, func(a, b P) int { return rank(a) - rank(b) })
	return order
}

// pick takes the fastest that is right and can be captured. If none is right by what the host
// computes, or none can be captured, the fastest has to do.
func (b *comparison[P]) pick(found []timedCandidate[P]) timedCandidate[P] {
	for _, r := range found {
		switch {
		case r.wrong != nil:
			b.fault("cudnn: %s: %s gives wrong numbers when it is tried: %v", b.q.question, b.q.name(r.p), r.wrong)
		case r.notCapturable != nil:
			b.fault("cudnn: %s: %s cannot be captured into a graph: %v", b.q.question, b.q.name(r.p), r.notCapturable)
		}
	}
	return slices.MinFunc(found, func(x, y timedCandidate[P]) int {
		return cmp.Or(truth(x.wrong != nil)-truth(y.wrong != nil), truth(x.notCapturable != nil)-truth(y.notCapturable != nil), cmp.Compare(x.cost(), y.cost()))
	})
}

// cost is what a candidate is judged by.
func (r timedCandidate[P]) cost() float64 {
	c := float64(r.time)
	if r.p.Compiled() {
		c *= 1 + margin
	}
	return c
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

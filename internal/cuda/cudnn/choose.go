package cudnn

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/drv"
)

// tunable is a pointer to a kind of plan that can be chosen.
type tunable interface {
	comparable
	buildable
	Workspace() int64
	Compiled() bool
}

// An asked is a question as the choice of a plan sees it.
type asked[P tunable] struct {
	question string
	sizes    []int64                      // of the memory that plans work on
	all      func() ([]P, error)          // the candidates, not built
	again    func(name string) (P, error) // the one with this name, not built
	name     func(P) string               // what a choice is remembered by
	run      func(p P, workspace drv.Ptr, memory []drv.Ptr) error

	// Of results that are checked: what fills the memory of operands, what is done before a run that is looked at, and the look. All
	// three are nil where they are not. adds says that a second run gives another result.
	fill    func(memory []drv.Ptr) error
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

// choose is the choice of one plan: that of the cache if it is there and still builds, else the fastest, on scratch memory.
func choose[P tunable](t *Tuner, q asked[P]) (P, error) {
	var none P
	key := t.Handle.Key(q.question)
	if choice, ok := t.Cache.Get(key); ok {
		p, err := q.again(choice.Engine)
		if err == nil {
			if err = p.Build(); err == nil {
				return p, nil
			}
			err = joined(err, p.Close())
		}
		t.notice("cudnn: the engine chosen for %s before, %s, no longer builds: %v", q.question, choice.Engine, err)
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

// fewest is how many candidates are tried of a question whose share of the time is used up, as long as there is time for others;
// share is what part of the time that is left a question may take, and longest the most.
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

// A bout is the measuring of one question's candidates.
type bout[P tunable] struct {
	*Tuner
	q         asked[P]
	ctx       *drv.Context
	watch     *watch
	memory    []drv.Ptr
	workspace drv.Ptr
	room      int64 // bytes of workspace
	least     time.Duration
}

// A tried is a candidate that runs.
type tried[P tunable] struct {
	p     P
	time  time.Duration // of one run
	wrong error         // it gives wrong numbers
	alone error         // it cannot be captured into a graph
}

// measure tries candidates on scratch memory and writes the result down.
func measure[P tunable](t *Tuner, q asked[P], key string, plans []P) (best P, err error) {
	started := t.now()
	t.begin()
	defer func() { t.end(t.now().Sub(started)) }()
	b := &bout[P]{Tuner: t, q: q, ctx: t.Handle.ctx, least: math.MaxInt64}
	defer func() { err = joined(err, b.close()) }()
	if err := b.open(); err != nil {
		return best, fmt.Errorf("cudnn: tune %s: %w", q.question, err)
	}
	limit, left := t.limit()
	likely, most := t.Cache.relatives(key), t.Most
	if len(likely) > 0 && most > 1 {
		most = max(len(likely), most/2)
	}
	var found []tried[P]
	var reasons []error
	from := started // of the question's share of the time
	for _, p := range inOrder(plans, func(p P) bool { return likely[q.name(p)] }) {
		n, late := len(found), t.now().Sub(from) >= limit
		if n > 0 && (!left || late && (n >= fewest || p.Compiled())) {
			break
		}
		if most > 0 && n >= most && !p.Compiled() || t.Cache.broken(key, q.name(p)) {
			continue
		}
		r, err := b.try(p)
		if err != nil && Refused(err) {
			// What the library says of a device that this engine broke looks like a refusal, and the next engine would have the blame.
			if lost := b.ctx.Synchronize(t.Stream); lost != nil {
				err = joined(lost, err)
			}
		}
		switch {
		case err == nil:
			if found = append(found, r); len(found) == 1 {
				from = t.now() // the library loads what it needs with the first one
			}
		case errors.Is(err, drv.ErrLost):
			t.Cache.breaks(key, q.name(p))
			return best, fmt.Errorf("cudnn: tune %s for %s: %w", p.Engine(), q.question, err)
		case Refused(err) || errors.Is(err, drv.ErrOutOfMemory):
			reasons = append(reasons, err)
			if !errors.Is(err, ErrNotSupported) {
				t.logf("cudnn: %s: %s is left out: %v", q.question, q.name(p), err)
			}
		default:
			return best, fmt.Errorf("cudnn: tune %s for %s: %w", p.Engine(), q.question, err)
		}
	}
	if len(found) == 0 {
		return best, fmt.Errorf("cudnn: %s: none of %d engines runs: %w", q.question, len(plans), refused(reasons))
	}
	chosen := b.pick(found)
	choice := Choice{Engine: q.name(chosen.p), Candidates: len(found), Nanoseconds: chosen.time.Nanoseconds()}
	t.logf("cudnn: %s: %s, %v, fastest of %d", q.question, choice.Engine, chosen.time, choice.Candidates)
	if chosen.wrong == nil {
		if err := t.Cache.Put(key, choice); err != nil {
			t.logf("%v", err) // the choice holds; the next start makes it again
		}
	}
	return chosen.p, b.ctx.Synchronize(t.Stream)
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

// open takes the memory that candidates work on.
func (b *bout[P]) open() error {
	b.memory = make([]drv.Ptr, len(b.q.sizes))
	for i, bytes := range b.q.sizes {
		ptr, err := b.ctx.Malloc(bytes)
		if err != nil {
			return err
		}
		b.memory[i] = ptr
		// Small positive numbers in each type: zeros would cost the device less power and time than it costs in earnest.
		if err := b.ctx.Memset8(ptr, 0x3c, bytes, b.Stream); err != nil {
			return err
		}
	}
	if b.q.fill != nil {
		if err := b.q.fill(b.memory); err != nil {
			return err
		}
	}
	var err error
	b.watch, err = newWatch(b.ctx, b.Stream, b.Repeat)
	return err
}

func (b *bout[P]) close() error {
	var errs []error
	for _, ptr := range append(b.memory, b.workspace) {
		if ptr != 0 {
			errs = append(errs, b.ctx.Free(ptr))
		}
	}
	if b.watch != nil {
		errs = append(errs, b.watch.close())
	}
	return errors.Join(errs...)
}

// try builds a candidate, looks at its result and times it.
func (b *bout[P]) try(p P) (r tried[P], err error) {
	if err := p.Build(); err != nil {
		return r, err
	}
	if bytes := p.Workspace(); bytes > b.room {
		if b.workspace != 0 {
			if err := b.ctx.Free(b.workspace); err != nil {
				return r, err
			}
			b.workspace, b.room = 0, 0
		}
		if b.workspace, err = b.ctx.Malloc(bytes); err != nil {
			return r, err
		}
		b.room = bytes
	}
	r.p = p
	run := func() error { return b.q.run(p, b.workspace, b.memory) }
	r.wrong, err = b.look(p, run)
	if err != nil && Refused(err) {
		// The error of a candidate before may have waited in the library for the next call.
		r.wrong, err = b.look(p, run)
	}
	if err != nil {
		return r, err
	}
	if r.time, err = b.watch.spell(run, 1); err != nil || r.time/slow > b.least {
		return r, err
	}
	n := b.watch.runs(r.time)
	exec, err := b.graph(p, n)
	if err != nil {
		if errors.Is(err, drv.ErrLost) {
			return r, err
		}
		r.alone = err
		r.time, err = b.watch.best(run, n, r.time)
	} else {
		r.time, r.wrong, err = b.inGraph(p, exec, n, r)
		err = joined(err, b.ctx.DestroyGraphExec(exec))
	}
	if err == nil && r.wrong == nil && r.alone == nil {
		b.least = min(b.least, r.time)
	}
	return r, err
}

// inGraph times a graph of n runs: as a step has them, without what it costs the host to launch each. It looks at the result, too.
func (b *bout[P]) inGraph(p P, exec drv.GraphExec, n int, r tried[P]) (time.Duration, error, error) {
	launch := func() error { return b.ctx.GraphLaunch(exec, b.Stream) }
	if r.wrong == nil {
		look := b.look
		if b.q.adds {
			look = b.plain
		}
		wrong, err := look(p, launch)
		if wrong != nil || err != nil {
			return r.time, wrong, err
		}
	}
	best := r.time
	for range spells {
		d, err := b.watch.spell(launch, 1)
		if err != nil {
			return 0, r.wrong, err
		}
		best = min(best, d/time.Duration(n))
	}
	return best, r.wrong, nil
}

// graph captures n runs of a candidate.
func (b *bout[P]) graph(p P, n int) (exec drv.GraphExec, err error) {
	if err := b.ctx.BeginCapture(b.Stream); err != nil {
		return 0, err
	}
	var launched error
	for range n {
		if launched = b.q.run(p, b.workspace, b.memory); launched != nil {
			break
		}
	}
	graph, err := b.ctx.EndCapture(b.Stream)
	if graph != 0 {
		defer func() { err = joined(err, b.ctx.DestroyGraph(graph)) }()
	}
	if launched != nil || err != nil {
		return 0, errors.Join(launched, err)
	}
	return b.ctx.Instantiate(graph)
}

// plain is look without the comparison.
func (b *bout[P]) plain(_ P, run func() error) (wrong, err error) {
	if err := run(); err != nil {
		return nil, err
	}
	return nil, b.ctx.Synchronize(b.Stream)
}

// look runs a candidate once and compares its result.
func (b *bout[P]) look(p P, run func() error) (wrong, err error) {
	if b.q.check == nil {
		return b.plain(p, run)
	}
	if err := b.q.prepare(p, b.memory); err != nil {
		return nil, err
	}
	if err := run(); err != nil {
		return nil, err
	}
	if err = b.q.check(p, b.memory); errors.Is(err, ErrWrong) {
		return err, nil
	}
	return nil, err
}

// pick takes the fastest that is right and can be captured. If none is right by what the host computes, or none can be captured, the
// fastest has to do.
func (b *bout[P]) pick(found []tried[P]) tried[P] {
	for _, r := range found {
		switch {
		case r.wrong != nil:
			b.notice("cudnn: %s: %s gives wrong numbers when it is tried: %v", b.q.question, b.q.name(r.p), r.wrong)
		case r.alone != nil:
			b.notice("cudnn: %s: %s cannot be captured into a graph: %v", b.q.question, b.q.name(r.p), r.alone)
		}
	}
	return slices.MinFunc(found, func(x, y tried[P]) int {
		return cmp.Or(truth(x.wrong != nil)-truth(y.wrong != nil), truth(x.alone != nil)-truth(y.alone != nil), cmp.Compare(x.cost(), y.cost()))
	})
}

// cost is what a candidate is judged by.
func (r tried[P]) cost() float64 {
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

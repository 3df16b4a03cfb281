package cudnn

import (
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A comparison measures the candidates for one question.
type comparison[P tunable] struct {
	*Tuner
	q         question[P]
	ctx       *drv.Context
	watch     *watch
	memory    []drv.Ptr
	workspace drv.Ptr
	room      int64 // bytes of workspace
	least     time.Duration
}

// A timedCandidate is a candidate that runs, with its time.
type timedCandidate[P tunable] struct {
	p P

	// time is that of one run.
	time time.Duration

	// wrong is why its results are wrong; nil: they are right.
	wrong error

	// notCapturable is why it cannot be captured into a graph; nil: it can.
	notCapturable error
}

// open allocates the memory that candidates work on.
func (b *comparison[P]) open() error {
	b.memory = make([]drv.Ptr, len(b.q.sizes))
	for i, bytes := range b.q.sizes {
		ptr, err := b.ctx.Malloc(bytes)
		if err != nil {
			return err
		}
		b.memory[i] = ptr
		// Small positive numbers in each type: zeros would cost the device less power and
		// time than it costs in earnest.
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

func (b *comparison[P]) close() error {
	var errs []error
	for _, ptr := range append(b.memory, b.workspace) {
		if ptr != 0 {
			errs = append(errs, b.ctx.Free(ptr))
		}
	}
	if b.watch != nil {
		errs = append(errs, b.watch.close())
	}
	if b.q.done != nil {
		errs = append(errs, b.q.done())
	}
	return errors.Join(errs...)
}

// try builds a candidate, looks at its result and times it.
func (b *comparison[P]) try(p P) (r timedCandidate[P], err error) {
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
		r.notCapturable = err
		r.time, err = b.watch.best(run, n, r.time)
	} else {
		r.time, r.wrong, err = b.inGraph(p, exec, n, r)
		err = joined(err, b.ctx.DestroyGraphExec(exec))
	}
	if err == nil && r.wrong == nil && r.notCapturable == nil {
		b.least = min(b.least, r.time)
	}
	return r, err
}

// inGraph times a graph of n runs: as a step has them, without what it costs the host to launch
// each. It looks at the result, too.
func (b *comparison[P]) inGraph(p P, exec drv.GraphExec, n int, r timedCandidate[P]) (time.Duration, error, error) {
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
func (b *comparison[P]) graph(p P, n int) (exec drv.GraphExec, err error) {
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
func (b *comparison[P]) plain(_ P, run func() error) (wrong, err error) {
	if err := run(); err != nil {
		return nil, err
	}
	return nil, b.ctx.Synchronize(b.Stream)
}

// look runs a candidate once and compares its result.
func (b *comparison[P]) look(p P, run func() error) (wrong, err error) {
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

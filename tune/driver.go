package tune

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// A driver runs the trials of a study: it asks the study for the next one, runs it in a slot, and
// tells its end. It stands above the study, which knows nothing of it but what is told of events.
type driver struct {
	study    *Study
	attempts attemptRunner
	// division divides nodes among the trials; nil: no Allocator does.
	division *division
	// idle is closed when all slots have ended.
	idle    chan struct{}
	helpers sync.WaitGroup
	// noHost is why trials had no host for too long. It is set before helpers end.
	noHost error
}

// newDriver makes the driver of a study. a and r are those of a study that divides nodes, or nil.
func newDriver(s *Study, a Allocator, r Scaler) *driver {
	d := &driver{study: s, idle: make(chan struct{})}
	if a != nil {
		d.division = newDivision(a, r)
		s.rec.notice(d.division.note)
	}
	d.attempts = attemptRunner{s, d.division}
	return d
}

// drive runs trials until there are no more, and says why it ended before.
func (d *driver) drive(ctx context.Context) error {
	trials, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.startWatch(ctx, cancel)
	d.startTicks()
	d.startDivision(ctx)
	stopHosts := d.startHosts(trials, cancel)
	d.runSlots(trials)
	close(d.idle)
	stopHosts()
	d.helpers.Wait()
	return d.reason(ctx)
}

// startWatch ends the trials when the study is over.
func (d *driver) startWatch(ctx context.Context, cancel context.CancelCauseFunc) {
	d.helpers.Go(func() {
		d.watch(ctx)
		cancel(errOver)
	})
}

// startTicks calls observers that are Tickers about every second.
func (d *driver) startTicks() {
	var all []Ticker
	for _, o := range d.study.cfg.Observers {
		if t, ok := o.(Ticker); ok {
			all = append(all, t)
		}
	}
	if len(all) > 0 {
		d.helpers.Go(func() { d.tick(all) })
	}
}

// tick calls the observers about every second until all slots have ended.
func (d *driver) tick(all []Ticker) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			d.study.View(func(v View) {
				for _, t := range all {
					t.Tick(v, now)
				}
			})
		case <-d.idle:
			return
		}
	}
}

// startDivision divides nodes among the trials, if an Allocator does.
func (d *driver) startDivision(ctx context.Context) {
	if d.division != nil {
		r := divider{d.study, d.division, d.idle}
		d.helpers.Go(func() { r.run(ctx) })
	}
}

// startHosts keeps the hosts of a Runner whose hosts come and go. Without a host for too long the
// trials are interrupted: they go on when the search is resumed.
func (d *driver) startHosts(trials context.Context, cancel context.CancelCauseFunc) (stop func()) {
	cfg := &d.study.cfg
	k, ok := cfg.Runner.(hostKeeper)
	if !ok {
		return func() {}
	}
	stopServing := func() {}
	if cfg.Dir != "" {
		stopServing = k.serveHosts(cfg.Dir)
	}
	replicas := 0
	if d.division != nil {
		replicas = d.division.least()
	}
	keeping, stopKeeping := context.WithCancel(trials)
	d.helpers.Go(func() {
		if d.noHost = k.keepHosts(keeping, cfg.Resources, replicas); d.noHost != nil {
			cancel(d.noHost)
		}
	})
	return func() {
		stopKeeping()
		stopServing()
	}
}

// runSlots runs trials in Config.Parallel slots until there are no more. With AsManyAsFit a slot
// that has begun a trial starts the next slot, which waits for a place.
func (d *driver) runSlots(trials context.Context) {
	var slots sync.WaitGroup
	defer slots.Wait()
	parallel := cmp.Or(d.study.cfg.Parallel, 1)
	if parallel == AsManyAsFit {
		var next func(slot int)
		next = func(slot int) {
			slots.Go(func() { d.slot(trials, slot, sync.OnceFunc(func() { next(slot + 1) })) })
		}
		next(0)
		return
	}
	for slot := range parallel {
		slots.Go(func() { d.slot(trials, slot, func() {}) })
	}
}

// reason is why the study ended before there were no more trials; nil: it did not.
func (d *driver) reason(ctx context.Context) error {
	name := d.study.cfg.Name
	halted, fatal := d.study.rec.ended()
	switch {
	case fatal != nil:
		return fatal
	case d.noHost != nil:
		return fmt.Errorf("tune: study %s: %w", name, d.noHost)
	case ctx.Err() != nil && !halted:
		return fmt.Errorf("tune: study %s: interrupted: %w", name, context.Cause(ctx))
	}
	return nil
}

// maxNap is how long the watch over a deadline sleeps: the clock of the wall may be set, or the
// machine suspended.
const maxNap = time.Minute

// watch returns when the study is over, and ends it at its timeout and at its deadline.
func (d *driver) watch(ctx context.Context) {
	s := d.study
	var timeout <-chan time.Time
	if s.cfg.Timeout > 0 {
		t := time.NewTimer(s.cfg.Timeout - s.elapsed())
		defer t.Stop()
		timeout = t.C
	}
	nap := time.NewTimer(maxNap)
	defer nap.Stop()
	for {
		if nap.Stop(); !s.cfg.Deadline.IsZero() {
			nap.Reset(min(s.cfg.Deadline.Sub(logTime(s.rec.clock.now())), maxNap))
		}
		select {
		case <-timeout:
			s.Stop(fmt.Sprintf("timeout of %v", s.cfg.Timeout))
		case <-nap.C:
			if !s.cfg.pastDeadline(logTime(s.rec.clock.now())) {
				continue
			}
			s.Stop(s.cfg.deadlineText())
		case <-s.rec.end.over:
		case <-ctx.Done():
		case <-d.idle:
		}
		return
	}
}

// slot runs trials one after another. It calls begun when one begins.
func (d *driver) slot(ctx context.Context, slot int, begun func()) {
	for ctx.Err() == nil {
		place, err := d.acquire(ctx)
		if err != nil {
			if ctx.Err() == nil {
				d.study.rec.failWith(fmt.Errorf("tune: study %s: allocate resources for a trial: %w", d.study.cfg.Name, err))
			}
			return
		}
		if !d.runNext(ctx, slot, place, begun) {
			return
		}
	}
}

// acquire waits for a place for a trial; nil: every slot is one.
func (d *driver) acquire(ctx context.Context) (Place, error) {
	if p, ok := d.study.cfg.Runner.(Placer); ok && d.division == nil {
		return p.Acquire(ctx, d.study.cfg.Resources)
	}
	return nil, nil
}

// runNext runs the next attempt at a place, which it releases. It returns false when there is none.
func (d *driver) runNext(ctx context.Context, slot int, place Place, begun func()) bool {
	location := ""
	if place != nil {
		defer place.Release()
		location = place.Location()
	}
	t, err := d.study.ask(ctx, location)
	if err != nil {
		return false
	}
	begun()
	d.attempts.run(ctx, slot, place, t)
	return true
}

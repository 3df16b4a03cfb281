package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// settleTime is how long a decision about the nodes waits for others that are due: a trial that
// ends is often followed by one that starts.
const settleTime = 200 * time.Millisecond

// divides says whether the study's scheduler divides nodes among trials.
func divides(c *Config) bool {
	_, ok := c.Scheduler.(Allocator)
	return ok
}

// dividing returns the scheduler and the runner of a study whose scheduler divides nodes, or nils.
func dividing(c *Config) (Allocator, Scaler, error) {
	a, ok := c.Scheduler.(Allocator)
	if !ok {
		return nil, nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	r, ok := c.Runner.(Scaler)
	if !ok {
		return nil, nil, fmt.Errorf("tune: %T divides nodes among elastic jobs, but %T runs no jobs: set Config.Runner to Jobs", a, c.Runner)
	}
	least, _ := a.Replicas()
	if err := r.Scalable(c.Resources, max(least, 1)); err != nil {
		return nil, nil, fmt.Errorf("tune: %T: a trial can never run: %w", a, err)
	}
	return a, r, nil
}

// A division is what a study needs to divide nodes among its trials while it runs. The nil division
// is that of a study whose trials have places of their own.
type division struct {
	allocator Allocator
	scaler    Scaler
	due       chan struct{} // holds one

	mu        sync.Mutex // guards all below
	causes    []string   // of the decision that is due
	reports   int        // since the last decision
	reporters map[int]*Reporter
	placed    map[int]int // by trial: the newest attempt that was given replicas
}

func newDivision(a Allocator, r Scaler) *division {
	return &division{allocator: a, scaler: r, due: make(chan struct{}, 1), reporters: make(map[int]*Reporter), placed: make(map[int]int)}
}

// note takes note of an event that may call for a decision.
func (d *division) note(e *Event) {
	if d == nil {
		return
	}
	switch e.Kind {
	case EventStart:
		d.want(fmt.Sprintf("trial %d started", e.Trial))
	case EventEnd:
		d.want(fmt.Sprintf("trial %d ended", e.Trial))
	case EventReport:
		most, _ := d.allocator.Pace()
		d.mu.Lock()
		d.reports++
		due := most > 0 && d.reports >= most
		d.mu.Unlock()
		if due {
			d.want(fmt.Sprintf("%d reports came", most))
		}
	}
}

// want says that a decision is due.
func (d *division) want(cause string) {
	d.mu.Lock()
	if !slices.Contains(d.causes, cause) {
		d.causes = append(d.causes, cause)
	}
	d.mu.Unlock()
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// maxCauses is how many causes a decision names.
const maxCauses = 4

// take returns why a decision is due, and begins to count again.
func (d *division) take(otherwise string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	causes := d.causes
	d.causes, d.reports = nil, 0
	if more := len(causes) - maxCauses; more > 0 {
		causes = append(causes[:maxCauses:maxCauses], fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(causes, ", "), otherwise)
}

// attend keeps the Reporter of an attempt until its end.
func (d *division) attend(r *Reporter) (end func()) {
	if d == nil {
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reporters[r.trial] = r
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.reporters[r.trial] == r {
			delete(d.reporters, r.trial)
			delete(d.placed, r.trial)
		}
	}
}

// waits says whether an attempt has not been given replicas yet. The time until it has to report
// does not run.
func (d *division) waits(r *Reporter) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placed[r.trial] != r.attempt
}

// begins takes note of an attempt's first replicas.
func (d *division) begins(trial, attempt int) {
	d.mu.Lock()
	r := d.reporters[trial]
	first := d.placed[trial] != attempt
	d.placed[trial] = attempt
	d.mu.Unlock()
	if first && r != nil && r.attempt == attempt {
		r.mu.Lock()
		r.heard = time.Now()
		r.mu.Unlock()
		select {
		case r.notify <- struct{}{}:
		default:
		}
	}
}

// divide makes the decisions of the study's allocator until the study is over.
func (s *Study) divide(ctx context.Context, idle chan struct{}) {
	d := s.division
	_, interval := d.allocator.Pace()
	timer := time.NewTimer(cmp.Or(interval, time.Hour))
	defer timer.Stop()
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	for {
		cause := fmt.Sprintf("%v have passed", interval)
		wait := settleTime
		select {
		case <-d.due:
		case why := <-d.scaler.Changes():
			d.want(why)
		case <-timer.C:
			if timer.Reset(cmp.Or(interval, time.Hour)); interval == 0 {
				continue
			}
			wait = 0
		case <-ctx.Done():
			return
		case <-idle:
			return
		}
		settle.Reset(wait)
		select {
		case <-settle.C:
		case <-ctx.Done():
			return
		case <-idle:
			return
		}
		select {
		case <-d.due: // its cause is among those taken now
		default:
		}
		if err := s.allocate(ctx, d.take(cause)); err != nil {
			if ctx.Err() == nil {
				s.mu.Lock()
				s.fail(err)
				s.mu.Unlock()
			}
			return
		}
		timer.Reset(cmp.Or(interval, time.Hour))
	}
}

// allocate makes one decision and has it carried out.
func (s *Study) allocate(ctx context.Context, cause string) error {
	d := s.division
	nodes, err := d.scaler.Slots(ctx, s.cfg.Resources)
	if err != nil {
		return fmt.Errorf("tune: study %s: find nodes for trials: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	running := s.l.dividing()
	s.mu.Unlock()
	states := d.scaler.States(ctx, running)
	e := Event{Kind: EventAllocate, Rule: clip(cause), Nodes: nodes}
	attempts := make(map[int]int)
	s.mu.Lock()
	for _, n := range s.l.dividing() { // some may have started or ended meanwhile
		j := states[n]
		t := s.l.trials[n]
		if j.Trial = n; j.Profile == t.run.profile {
			j.Profile = ""
		}
		j.Pausable = false // is known without the event
		j.Fixed = clip(j.Fixed)
		e.Jobs = append(e.Jobs, j)
		attempts[n] = t.Attempts
	}
	if len(e.Jobs) == 0 || s.l.halted != "" {
		s.mu.Unlock()
		return nil
	}
	err = s.emit(&e, func() (err error) {
		if e.Shares, err = s.l.allocate(&e); err == nil {
			s.l.share(&e)
		}
		return err
	})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.awaitWritten(e.Seq); err != nil {
		return err
	}
	for _, x := range e.Shares {
		if x.Pause {
			continue // it keeps what it has until its next report
		}
		if len(x.On) > 0 {
			d.begins(x.Trial, attempts[x.Trial])
		}
		d.scaler.Scale(x.Trial, attempts[x.Trial], x.On)
	}
	return nil
}

// dividing are the trials among which nodes are divided: those with an attempt that was not told to
// end.
func (l *ledger) dividing() (all []int) {
	for _, t := range l.trials {
		if t.run.active && t.run.told == "" && t.State == Running {
			all = append(all, t.Number)
		}
	}
	return all
}

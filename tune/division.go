package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
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

	mu sync.Mutex // guards all below
	// causes are those of the decision that is due.
	causes []string
	// reports counts those since the last decision.
	reports int
	// pulses are those of the attempts that run, by trial.
	pulses map[int]attemptPulse
	// placed has by trial the newest attempt that was given replicas.
	placed map[int]int
}

func newDivision(a Allocator, r Scaler) *division {
	return &division{allocator: a, scaler: r, due: make(chan struct{}, 1), pulses: make(map[int]attemptPulse), placed: make(map[int]int)}
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

// An attemptPulse is the pulse of an attempt.
type attemptPulse struct {
	attempt int
	pulse   *pulse
}

// attend keeps the pulse of an attempt until its end.
func (d *division) attend(trial, attempt int, p *pulse) (end func()) {
	if d == nil {
		return func() {}
	}
	mine := attemptPulse{attempt, p}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulses[trial] = mine
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.pulses[trial] == mine {
			delete(d.pulses, trial)
			delete(d.placed, trial)
		}
	}
}

// waits says whether an attempt has not been given replicas yet. The time until it has to report
// does not run.
func (d *division) waits(trial, attempt int) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placed[trial] != attempt
}

// begins takes note of an attempt's first replicas: from now on the time until it has to report
// runs.
func (d *division) begins(trial, attempt int) {
	d.mu.Lock()
	p := d.pulses[trial]
	first := d.placed[trial] != attempt
	d.placed[trial] = attempt
	d.mu.Unlock()
	if first && p.attempt == attempt {
		p.pulse.beat()
	}
}

// least is the smallest number of replicas of a trial, at least 1.
func (d *division) least() int {
	least, _ := d.allocator.Replicas()
	return max(least, 1)
}

// divide makes the decisions of the study's allocator until the study is over.
func (d *driver) divide(ctx context.Context) {
	_, interval := d.division.allocator.Pace()
	timer := time.NewTimer(cmp.Or(interval, time.Hour))
	defer timer.Stop()
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	for {
		wait, err := d.awaitDue(ctx, timer.C, interval)
		if err != nil {
			return
		}
		settle.Reset(wait)
		select {
		case <-settle.C:
		case <-ctx.Done():
			return
		case <-d.idle:
			return
		}
		select {
		case <-d.division.due: // its cause is taken now
		default:
		}
		if err := d.allocate(ctx, d.division.take(fmt.Sprintf("%v have passed", interval))); err != nil {
			if ctx.Err() == nil {
				d.study.rec.failWith(err)
			}
			return
		}
		timer.Reset(cmp.Or(interval, time.Hour))
	}
}

// awaitDue waits until a decision is due, and says how long to wait for others.
func (d *driver) awaitDue(ctx context.Context, passed <-chan time.Time, interval time.Duration) (settle time.Duration, err error) {
	for {
		select {
		case <-d.division.due:
			return settleTime, nil
		case why := <-d.division.scaler.Changes():
			d.division.want(why)
			return settleTime, nil
		case <-passed:
			if interval > 0 {
				return 0, nil
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-d.idle:
			return 0, errOver
		}
	}
}

// allocate makes one decision and has it carried out.
func (d *driver) allocate(ctx context.Context, cause string) error {
	s, scaler := d.study, d.division.scaler
	slots, err := scaler.Slots(ctx, s.cfg.Resources)
	if err != nil {
		return fmt.Errorf("tune: study %s: find nodes for trials: %w", s.cfg.Name, err)
	}
	states := scaler.States(ctx, s.dividing())
	shares, err := s.divideNodes(cause, slots, states)
	if err != nil {
		return err
	}
	for _, x := range shares {
		if x.Pause { // it keeps all until it reports
			continue
		}
		if len(x.On) > 0 {
			d.division.begins(x.Trial, x.attempt)
		}
		scaler.Scale(x.Trial, x.attempt, x.On)
	}
	return nil
}

// attemptShare is a share of a trial's attempt.
type attemptShare struct {
	jobs.Share
	attempt int
}

// dividing are the trials among which nodes are divided.
func (s *Study) dividing() []int {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.l.view.trials.dividing()
}

// divideNodes makes one decision of the allocator, and returns it when it is on the disk. Some
// trials may have started or ended since their states were asked for.
func (s *Study) divideNodes(cause string, nodes []jobs.NodeSlots, states map[int]jobs.State) ([]attemptShare, error) {
	s.rec.mu.Lock()
	e, attempts := s.l.division(states)
	e.Rule, e.Nodes = clip(cause), nodes
	if len(e.Jobs) == 0 || s.l.view.stops.halted != "" {
		s.rec.mu.Unlock()
		return nil, nil
	}
	err := s.rec.emit(&e, func() (err error) {
		if e.Shares, err = s.l.allocate(&e); err == nil {
			s.l.share(&e)
		}
		return err
	})
	s.rec.mu.Unlock()
	if err == nil {
		err = s.rec.awaitWritten(e.Seq)
	}
	if err != nil {
		return nil, err
	}
	shares := make([]attemptShare, len(e.Shares))
	for i, x := range e.Shares {
		shares[i] = attemptShare{x, attempts[i]}
	}
	return shares, nil
}

// division is the event of a decision by these states, and the attempts of its jobs. What the
// ledger knows without the event is left out of it.
func (l *ledger) division(states map[int]jobs.State) (e Event, attempts []int) {
	e.Kind = EventAllocate
	for _, n := range l.view.trials.dividing() {
		j, t := states[n], l.view.trials[n]
		if j.Trial = n; j.Profile == t.run.profile {
			j.Profile = ""
		}
		j.Pausable, j.Fixed = false, clip(j.Fixed)
		e.Jobs, attempts = append(e.Jobs, j), append(attempts, t.Attempts)
	}
	return e, attempts
}

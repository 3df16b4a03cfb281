package tune

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/tune/jobs"
)

// situation is what the allocator decides about by an event. Profiles that have not changed are not
// in the event.
func (l *ledger) situation(e *Event) jobs.AllocationRequest {
	s := jobs.AllocationRequest{Cause: e.Rule, Nodes: e.Nodes, Jobs: slices.Clone(e.Jobs)}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		t := l.view.trials[j.Trial]
		if j.Profile == "" {
			j.Profile = t.run.profile
		}
		j.Pausable = len(t.Checkpoints) > 0
	}
	return s
}

// allocate asks the allocator, unless the shares are from the log.
func (l *ledger) allocate(e *Event) ([]jobs.Share, error) {
	a, ok := l.scheduler.(Allocator)
	if !ok && l.cfg.logged == nil {
		return nil, fmt.Errorf("event %d: divides nodes among trials, which %T does not", e.Seq, l.scheduler)
	}
	for i, j := range e.Jobs {
		if t := l.view.Trial(j.Trial); t == nil || !t.run.active || i > 0 && j.Trial <= e.Jobs[i-1].Trial {
			return nil, fmt.Errorf("event %d: divides nodes among trial %d, which is not running", e.Seq, j.Trial)
		}
	}
	s := l.situation(e)
	shares := e.Shares
	if l.cfg.logged == nil {
		shares = a.Allocate(l.view, s)
	}
	if err := s.Check(shares); err != nil {
		return nil, fmt.Errorf("event %d: %T.Allocate: %w", e.Seq, l.scheduler, err)
	}
	return shares, nil
}

// share applies the decision of an event.
func (l *ledger) share(e *Event) {
	for i, x := range e.Shares {
		t, j := l.view.trials[x.Trial], e.Jobs[i]
		if j.Profile != "" {
			t.run.profile = j.Profile
			// A profile that cannot be read is shown as nothing.
			t.Training, _ = readTraining(j.Profile)
		}
		switch o := t.run.order; {
		case x.Pause && o == nil:
			t.run.order = &TrialDecision{Trial: x.Trial, Action: Pause, Rule: x.Rule, allocated: true}
		case !x.Pause && o != nil && o.allocated:
			t.run.order = nil
		}
		if !x.Pause {
			t.Placement = slices.Clone(x.On)
			if len(x.On) > 0 {
				t.Location = x.On.Location()
			}
		}
	}
}

// foldAllocate applies an allocation of the log, which must be what the scheduler decides.
func (l *ledger) foldAllocate(e *Event) error {
	shares, err := l.allocate(e)
	if err != nil {
		return err
	}
	if got, want := appendShares(nil, e.Shares), appendShares(nil, shares); !bytes.Equal(got, want) {
		return &DivergedError{e.Seq, string(got), string(want)}
	}
	l.share(e)
	return nil
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

package tune

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// next returns the next event for a free slot: a start, or that there are no more new trials. It
// returns ErrWait or ErrDone if there is none. It changes nothing.
func (l *ledger) next() (Event, error) {
	if l.view.stops.halted != "" {
		return Event{}, ErrDone
	}
	for _, n := range l.queue.numbers {
		if t := l.view.trials[n]; !t.run.active {
			return l.again(t, t.Rule), nil
		}
	}
	pick := l.scheduler.Next(l.view)
	switch pick.Kind {
	case ChoosePaused:
		t := l.view.Trial(pick.Trial)
		if t == nil || t.State != Paused {
			return Event{}, fmt.Errorf("tune: %T.Next chose trial %d of %d, which is not paused", l.scheduler, pick.Trial, len(l.view.trials))
		}
		// Its last attempt may still be ending: then it has to wait.
		if !t.run.active {
			return l.again(t, pick.Rule), nil
		}
	case ChooseNew:
		if l.view.stops.exhausted {
			break
		}
		e, err := l.propose(pick)
		if !errors.Is(err, ErrWait) {
			return e, err
		}
	}
	if l.active == 0 {
		return Event{}, ErrDone
	}
	return Event{}, ErrWait
}

// again is the start of a further attempt of a trial, from the checkpoint that it is to go on from.
func (l *ledger) again(t *Trial, rule string) Event {
	e := Event{Kind: EventStart, Trial: t.Number, Attempt: t.Attempts + 1, Donor: t.run.restore.Trial, Restore: t.run.restore.Step, RestoreOf: t.run.restore.Attempt, Rule: rule}
	if t.run.changed {
		e.Params = t.Params
	}
	if f := l.cfg.Fidelity; f != nil {
		level, _ := f.level(t)
		if p := f.at(t.Params, level); !p.Equal(t.Params) {
			e.Params = p
		}
	}
	return e
}

// propose is the start of a new trial.
func (l *ledger) propose(pick TrialChoice) (e Event, err error) {
	number := len(l.view.trials)
	if l.view.stops.failedOnly || l.view.plan.total >= 0 && number >= l.view.plan.total {
		return Event{Kind: EventExhausted}, nil
	}
	fixed, origin := l.view.plan.fixed(number)
	defer func() {
		// A panic in a function of the user, in the space or in the suggester, must not end
		// the program.
		if v := recover(); v != nil {
			err = fmt.Errorf("tune: propose trial %d: panic: %v", number, v)
		}
	}()
	var p Params
	if origin == FromDefault {
		p = fixed
	} else if p, err = l.suggester.Suggest(l.view, number, newRand(l.cfg.Seed, streamSuggest, uint64(number))); err != nil {
		switch {
		case errors.Is(err, ErrExhausted):
			return Event{Kind: EventExhausted}, nil
		case errors.Is(err, ErrWait):
			return Event{}, ErrWait
		}
		return Event{}, fmt.Errorf("tune: propose trial %d: %w", number, err)
	}
	// A suggester may propose the parameters of another trial, whose fidelity is among them and
	// is left out here.
	p = l.cfg.off(p)
	if err := l.cfg.Space.Contains(p); err != nil {
		return Event{}, fmt.Errorf("tune: propose trial %d: %T: %w", number, l.suggester, err)
	}
	for name, want := range fixed.All() {
		if got, ok := p.Get(name); ok && !sameValue(got, want) {
			return Event{}, fmt.Errorf("tune: propose trial %d: %T: parameter %q got %s, want the fixed value %s", number, l.suggester, name, formatValue(got), formatValue(want))
		}
	}
	if f := l.cfg.Fidelity; f != nil {
		p = f.at(p, f.from(pick.Step))
	}
	return Event{Kind: EventStart, New: true, Trial: number, Attempt: 1, Params: p, Origin: origin, Rule: pick.Rule}, nil
}

// begin applies a start.
func (l *ledger) begin(e *Event) error {
	var t *Trial
	if e.New {
		if e.Trial != len(l.view.trials) || e.Attempt != 1 {
			return fmt.Errorf("event %d: starts new trial %d attempt %d: want trial %d attempt 1", e.Seq, e.Trial, e.Attempt, len(l.view.trials))
		}
		t = &Trial{Number: e.Trial, Params: e.Params, Origin: e.Origin, Best: -1, Seed: trialSeed(l.cfg.Seed, e.Trial), StartedAt: e.At}
		t.run.restore = checkpoints.None(e.Trial)
		l.view.trials = append(l.view.trials, t)
		l.hash.start(e)
	} else {
		if t = l.view.Trial(e.Trial); t == nil || t.run.active || e.Attempt != t.Attempts+1 || t.State != Paused && t.State != Pending {
			return fmt.Errorf("event %d: starts trial %d attempt %d, which cannot start in its state", e.Seq, e.Trial, e.Attempt)
		}
		// That a paused trial goes on is a choice of the scheduler, and so a decision.
		if t.State == Paused {
			l.hash.goOn(e)
		}
		l.queue.remove(t.Number)
		if e.Params.Len() > 0 {
			t.Params = e.Params
		}
	}
	l.view.setState(t, Running)
	t.Attempts = e.Attempt
	t.Location = e.Location
	t.Rule, t.Placement = "", nil
	// An order of the Allocator to give up all replicas is done: the new attempt has none yet.
	if o := t.run.order; o != nil && o.allocated {
		t.run.order = nil
	}
	// Another order stands, though it was given before the attempt that was cut off.
	t.run.active, t.run.told, t.run.changed, t.run.cut = true, "", false, false
	t.run.since, t.run.before = e.At, t.Elapsed
	l.active++
	l.scheduler.Started(l.view, t.Number)
	return nil
}

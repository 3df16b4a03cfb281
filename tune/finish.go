package tune

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/trialjob"
)

// noReport is the error of a trial that returned and never reported.
const noReport = trialjob.NoReport

// judgeEnd completes the event of an end: an attempt that returned without a report has
// failed, and a failure is retried or not.
func (l *ledger) judgeEnd(e *Event) {
	t := l.view.trials[e.Trial]
	if e.Outcome == Returned && t.run.told == "" && !t.hasReported(l.cfg.Fidelity) {
		e.Outcome, e.Failure = Broke, UserCode
		if len(t.Reports) == 0 || l.cfg.Fidelity != nil {
			e.Error = noReport
		} else {
			e.Error = fmt.Sprintf("it returned without a report of %q", l.view.goals.metric)
		}
	}
	if t.run.told != "" && e.Outcome != Interrupted {
		e.Outcome, e.Failure = Obeyed, ""
	}
	e.Retry = e.Outcome == Broke && t.Failures[e.Failure] < l.cfg.Retries.budget(e.Failure) && l.view.stops.halted == "" && t.Origin != FromElsewhere
}

// clock takes note of how long a trial has trained by an event of its attempt.
func (t *Trial) clock(e *Event) { t.Elapsed = t.run.before + e.At - t.run.since }

// hasReported says whether a trial whose attempt returned has a result. With a fidelity, which may
// be nil, the attempt has to report one: each level is a run of its own.
func (t *Trial) hasReported(f *Fidelity) bool {
	r, ok := t.Last()
	return ok && (f == nil || r.Attempt == t.Attempts)
}

// hasResult says whether a report of a trial was judged.
func (t *Trial) hasResult() bool {
	_, ok := t.Last()
	return ok
}

// finish applies an end.
func (l *ledger) finish(e *Event) error {
	t := l.view.Trial(e.Trial)
	if t == nil || !t.run.active || e.Attempt != t.Attempts {
		return fmt.Errorf("event %d: end of trial %d attempt %d, which is not running", e.Seq, e.Trial, e.Attempt)
	}
	t.clock(e)
	t.run.active = false
	l.active--
	if e.Outcome == Broke {
		t.Error, t.Failure = e.Error, e.Failure
		if t.Failures == nil {
			t.Failures = map[Failure]int{}
		}
		t.Failures[e.Failure]++
	}
	// An attempt that was asked to end has its state since then.
	if t.run.told != "" {
		t.run.told = ""
		return nil
	}
	switch e.Outcome {
	case Returned, Obeyed:
		if l.cfg.Fidelity.climbs(t) {
			l.enqueue(t)
		} else {
			l.end(t, Completed, "")
		}
	case Interrupted:
		l.enqueue(t)
		t.run.cut = true
	case Broke:
		if e.Retry {
			l.enqueue(t)
		} else {
			l.end(t, Failed, string(e.Failure))
		}
	default:
		return fmt.Errorf("event %d: outcome %q is unknown", e.Seq, e.Outcome)
	}
	return nil
}

// halt ends the study: trials that run or wait are stopped, paused ones stay.
func (l *ledger) halt(e *Event) {
	l.view.stops.halt(e)
	for _, t := range l.view.trials {
		if t.State == Running || t.State == Pending {
			if t.run.active {
				t.run.told = Stop
			}
			l.end(t, Stopped, e.Rule)
		}
	}
}

// open begins a new process: the attempts of the previous process are lost, and only the current
// config ends the study.
func (l *ledger) open() {
	for _, t := range l.view.trials {
		if t.run.active {
			t.run.active, t.run.told = false, ""
			l.active--
		}
	}
	l.view.stops.resume()
}

// requeue queues trials again, ahead of those in the queue, since they ran before.
func (l *ledger) requeue(e *Event) error {
	for _, n := range e.Trials {
		if t := l.view.Trial(n); t != nil {
			l.queue.remove(t.Number)
		}
	}
	defer l.queue.ahead()()
	l.view.stops.failedOnly = l.view.stops.failedOnly || e.Rule == string(ErroredOnly)
	for _, n := range e.Trials {
		t := l.view.Trial(n)
		if t == nil || t.run.active || t.State == Completed || t.State == Pruned {
			return fmt.Errorf("event %d: requeues trial %d, which is running or has finished", e.Seq, n)
		}
		if e.Fresh {
			t.run.restore = checkpoints.None(n)
		}
		if t.State == Failed {
			// Its retries start over.
			t.Failures = nil
		}
		l.enqueue(t)
	}
	return nil
}

// noStart applies the event that inTime has put in the place of a start.
func (l *ledger) noStart(e *Event) error {
	if e.Kind == EventAbandon {
		return l.abandon(e)
	}
	l.view.stops.exhaust(e)
	return nil
}

// abandon stops trials without a running attempt.
func (l *ledger) abandon(e *Event) error {
	for _, n := range e.Trials {
		t := l.view.Trial(n)
		if t == nil || t.run.active || t.State.Final() {
			return fmt.Errorf("event %d: abandons trial %d, which is running or has finished", e.Seq, n)
		}
		l.end(t, Stopped, e.Rule)
	}
	return nil
}

// keep applies a checkpoint.
func (l *ledger) keep(e *Event) error {
	t := l.view.Trial(e.Trial)
	if t == nil || e.Bytes < 0 {
		return fmt.Errorf("event %d: checkpoint of trial %d, which does not exist", e.Seq, e.Trial)
	}
	c := Checkpoint{e.Step, e.Attempt, e.Bytes}
	i, ok := slices.BinarySearchFunc(t.Checkpoints, e.Step, func(c Checkpoint, step int) int { return c.Step - step })
	if ok {
		return fmt.Errorf("event %d: checkpoint of trial %d step %d, which exists already", e.Seq, e.Trial, e.Step)
	}
	t.Checkpoints = slices.Insert(t.Checkpoints, i, c)
	l.storage.bytes += e.Bytes
	t.run.restore = c.name(t.Number)
	return nil
}

// drop applies the removal or loss of a checkpoint.
func (l *ledger) drop(e *Event) error {
	t := l.view.Trial(e.Trial)
	if t == nil {
		return fmt.Errorf("event %d: drops a checkpoint of trial %d, which does not exist", e.Seq, e.Trial)
	}
	gone := checkpoints.Name{Trial: t.Number, Step: e.Step, Attempt: e.Attempt}
	t.Checkpoints = slices.DeleteFunc(t.Checkpoints, func(c Checkpoint) bool { return c.name(t.Number) == gone })
	l.storage.remove(gone, e.Bytes)
	for _, u := range l.view.trials {
		if u.run.restore != gone {
			continue
		}
		u.run.restore = checkpoints.None(u.Number)
		if n := len(u.Checkpoints); n > 0 {
			u.run.restore = u.Checkpoints[n-1].name(u.Number)
		}
	}
	return nil
}

package tune

import (
	"fmt"
	"strings"
	"time"
)

// Config.Deadline is kept by three rules, all of them functions of the log. A new trial starts only
// if a whole trial fits into the time that is left; a trial that was paused continues only if it
// reaches the next rung, and one that was interrupted only if it reaches its next report; and at
// the deadline the study is halted. The time that is left is counted from the time that the log has
// for the event, so that a log replays on any clock.

// deadlineRule begins the rule of an event that a deadline caused.
const deadlineRule = "deadline of "

// deadlineText names the deadline, in its own time zone.
func (c *Config) deadlineText() string { return deadlineRule + c.Deadline.Format(time.RFC3339) }

// pastDeadline says whether a time is at the deadline or after it.
func (c *Config) pastDeadline(now time.Time) bool {
	return !c.Deadline.IsZero() && !now.Before(c.Deadline)
}

// isLate says whether the deadline caused an event: there are no new trials, or one does not
// continue.
func (e *Event) isLate() bool {
	return (e.Kind == EventExhausted || e.Kind == EventAbandon) && strings.HasPrefix(e.Rule, deadlineRule)
}

// inTime is the start e if it has a use before the deadline, and else the event in its place: that
// there are no new trials, or that a trial does not continue.
func (l *ledger) inTime(e Event, now time.Time) Event {
	if e.Kind != EventStart || l.cfg.Deadline.IsZero() {
		return e
	}
	left := l.cfg.Deadline.Sub(now)
	need, what := l.need(&e)
	if need < left {
		return e
	}
	rule := fmt.Sprintf("%s: %s %v, and %v were left", l.cfg.deadlineText(), what, legible(need), legible(max(left, 0)))
	if e.New {
		return Event{Kind: EventExhausted, Rule: rule}
	}
	return Event{Kind: EventAbandon, Trials: []int{e.Trial}, Rule: rule}
}

// legible rounds a time for people.
func legible(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// need is how long a start takes to be of use, as far as the trials so far tell, and what takes so
// long.
func (l *ledger) need(e *Event) (need time.Duration, what string) {
	if e.New {
		if s, ok := l.suggester.(Timed); ok {
			if d, ok := s.Takes(l.view, e.Params); ok {
				return d, "such a trial takes"
			}
		}
		return l.view.trials.trialTime(l.view.elapsed), "a trial takes"
	}
	t := l.view.trials[e.Trial]
	last, ok := t.Last()
	if !ok {
		return l.view.trials.firstReportTime(), "its first report takes"
	}
	// A run begins anew, and takes longer at a higher level.
	if f := l.cfg.Fidelity; f != nil {
		level, _ := f.level(t)
		trained := 0
		for _, r := range t.Reports {
			trained += r.Step
		}
		return time.Duration(float64(last.Elapsed) * float64(f.Step(level)) / float64(max(trained, 1))), fmt.Sprintf("%s %v takes", f.Parameter, level)
	}
	// A step takes as long as those before it. What is behind the checkpoint is trained again.
	step := float64(last.Elapsed) / float64(max(last.Step, 1))
	from := max(e.Restore, 0)
	if last.Action != Pause {
		again := float64(max(last.Step-from, 0)) * step
		return time.Duration(again + float64(last.Elapsed)/float64(len(t.Reports))), "its next report takes"
	}
	next := 0
	if s, ok := l.scheduler.(Staged); ok {
		next = s.NextStep(l.view, t.Number)
	}
	if next <= last.Step {
		next = l.view.trials.rungAfter(last.Step)
	}
	return time.Duration(float64(max(next-from, 1)) * step), fmt.Sprintf("step %d takes", next)
}

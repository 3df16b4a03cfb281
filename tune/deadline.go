package tune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/plural"
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
			if d, ok := s.Takes(l, e.Params); ok {
				return d, "such a trial takes"
			}
		}
		return l.trialTime(), "a trial takes"
	}
	t := l.trials[e.Trial]
	last, ok := t.Last()
	if !ok {
		return l.firstReportTime(), "its first report takes"
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
		next = s.NextStep(l, t.Number)
	}
	if next <= last.Step {
		next = l.rungAfter(last.Step)
	}
	return time.Duration(float64(max(next-from, 1)) * step), fmt.Sprintf("step %d takes", next)
}

// trialTime is how long a new trial is going to train: the median of those that trained to their
// end. As long as there is none, it is the longest time that any trial has trained so far.
func (l *ledger) trialTime() time.Duration {
	var whole []time.Duration
	var longest time.Duration
	for _, t := range l.trials {
		if t.Origin == FromElsewhere {
			continue
		}
		trained := t.Elapsed
		if t.run.active {
			trained = t.run.before + l.elapsed - t.run.since
		}
		longest = max(longest, trained)
		if t.State == Completed {
			whole = append(whole, t.Elapsed)
		}
	}
	if len(whole) == 0 {
		return longest
	}
	return medianTime(whole)
}

// firstReportTime is the median time of first reports, 0 without any.
func (l *ledger) firstReportTime() time.Duration {
	var all []time.Duration
	for _, t := range l.trials {
		if len(t.Reports) > 0 && t.Origin != FromElsewhere {
			all = append(all, t.Reports[0].Elapsed)
		}
	}
	return medianTime(all)
}

// medianTime is the upper median; 0 of none.
func medianTime(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// rungAfter is the least step after this one at which a trial was paused or completed. If none was,
// it is twice the step.
func (l *ledger) rungAfter(step int) int {
	next := 0
	for _, t := range l.trials {
		from, _ := t.find(step + 1)
		for i, r := range t.Reports[from:] {
			ended := t.State == Completed && from+i == len(t.Reports)-1
			if (ended || r.Action == Pause) && (next == 0 || r.Step < next) {
				next = r.Step
				break
			}
		}
	}
	if next == 0 {
		return max(2*step, step+1)
	}
	return next
}

// maxMissed is how many trials a text names.
const maxMissed = 12

// missed says for people what the deadline kept from being done; "" is nothing.
func (l *ledger) missed() string {
	var stopped, left []int
	for _, t := range l.trials {
		switch {
		case t.State != Stopped || !strings.HasPrefix(t.Rule, deadlineRule):
		case t.Rule == l.halted:
			stopped = append(stopped, t.Number)
		default:
			left = append(left, t.Number)
		}
	}
	halted := strings.HasPrefix(l.halted, deadlineRule)
	deadline := l.halted
	var parts []string
	why := ""
	if before, after, ok := strings.Cut(l.noMore, ": "); ok {
		deadline, why = before, " ("+after+")"
	}
	n := l.plan.total - len(l.trials)
	switch {
	case !halted && l.noMore == "" || halted && l.exhausted && l.noMore == "" || n == 0:
	case n < 0:
		parts = append(parts, "no further trials were started"+why)
	default:
		parts = append(parts, fmt.Sprintf("%d of %s %s not started%s", n, plural.Of(l.plan.total, "trial"), were(n), why))
	}
	if len(left) > 0 {
		if deadline == "" || !strings.HasPrefix(deadline, deadlineRule) {
			deadline, _, _ = strings.Cut(l.trials[left[0]].Rule, ": ")
		}
		parts = append(parts, trialsText(left)+" "+were(len(left))+" not continued")
	}
	if len(stopped) > 0 {
		parts = append(parts, trialsText(stopped)+" "+were(len(stopped))+" stopped")
	}
	if len(parts) == 0 {
		return ""
	}
	return deadline + ": " + strings.Join(parts, "; ")
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// trialsText names trials: "trials 3, 7 and 5 more".
func trialsText(numbers []int) string {
	names := make([]string, min(len(numbers), maxMissed))
	for i := range names {
		names[i] = fmt.Sprint(numbers[i])
	}
	text := "trial"
	if len(numbers) > 1 {
		text = "trials"
	}
	text += " " + strings.Join(names, ", ")
	if more := len(numbers) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

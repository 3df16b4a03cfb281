package tune

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// A ledger is the state of a study: the sum of its events, and the scheduler. It has no
// clock, lock or disk. The same events in the same order make the same ledger.
type ledger struct {
	cfg       *Config
	plan      *plan
	suggester Suggester
	scheduler Scheduler
	goals     goals

	trials history
	counts map[State]int
	// active counts attempts under way, failed trials in state Failed.
	active, failed int
	// best is the trial with the best result, or -1.
	best int
	// judged says that a report had the metric.
	judged bool
	queue  startQueue
	stops  stops

	// seq is the number of the next event. elapsed and wall are At and Time of the newest one.
	seq     uint64
	elapsed time.Duration
	wall    time.Time

	// kept is the size of all checkpoints in bytes. stale are those from before an exploit,
	// which are to be removed.
	kept  int64
	stale []checkpoints.Saved
	hash  decisionHash

	// of is the result whose view the ledger is, or nil.
	of *Result
}

// name is the checkpoint's among those of all trials.
func (c Checkpoint) name(trial int) checkpoints.Name {
	return checkpoints.Name{Trial: trial, Step: c.Step, Attempt: c.Attempt}
}

// saved is the checkpoint among those of all trials.
func (c Checkpoint) saved(trial int) checkpoints.Saved {
	return checkpoints.Saved{Name: c.name(trial), Bytes: c.Bytes}
}

// runState is the internal state of a trial's attempts.
type runState struct {
	// active says that an attempt is under way.
	active bool
	// told is the answer to the attempt: anything but Continue and "" ends it.
	told Action
	// order is the answer to the next report; nil: the report is judged.
	order *TrialDecision
	// since is At of the attempt's start, and before the trial's Elapsed by then.
	since, before time.Duration
	// restore is where the next attempt continues from.
	restore checkpoints.Name
	// cut says that the newest attempt was interrupted.
	cut bool
	// changed says that the parameters changed since the last start.
	changed bool
	// profile is the newest of an allocation.
	profile string
}

func newLedger(cfg *Config) (*ledger, error) {
	p, err := newPlan(cfg)
	if err != nil {
		return nil, err
	}
	l := &ledger{cfg: cfg, plan: p, suggester: cfg.Suggester, scheduler: cfg.Scheduler, counts: map[State]int{}, best: -1}
	if l.suggester == nil {
		l.suggester = Random{}
	}
	if l.scheduler == nil {
		l.scheduler = FIFO{}
	}
	if l.goals, err = newGoals(cfg); err != nil {
		return nil, err
	}
	l.hash.begin()
	return l, nil
}

// Space implements View.
func (l *ledger) Space() Space { return l.cfg.Space }

// Fidelity implements View.
func (l *ledger) Fidelity() *Fidelity { return l.cfg.Fidelity }

// Metric implements View.
func (l *ledger) Metric() string { return l.goals.metric }

// Mode implements View.
func (l *ledger) Mode() Mode { return l.goals.resolved() }

// Seed implements View.
func (l *ledger) Seed() uint64 { return l.cfg.Seed }

// Len implements View.
func (l *ledger) Len() int { return len(l.trials) }

// Trial implements View.
func (l *ledger) Trial(number int) *Trial {
	if number < 0 || number >= len(l.trials) {
		return nil
	}
	return l.trials[number]
}

// Trials implements View.
func (l *ledger) Trials() iter.Seq[*Trial] { return slices.Values(l.trials) }

// Count implements View.
func (l *ledger) Count(s State) int { return l.counts[s] }

// Score implements View.
func (l *ledger) Score(value float64) float64 { return l.goals.score(value) }

// Result implements View.
func (l *ledger) Result(t *Trial) float64 { return l.cfg.result(t) }

// result is the value by which a trial is ranked, or NaN.
func (c *Config) result(t *Trial) float64 {
	if r, ok := c.ranked(t); ok {
		return r.Value
	}
	return math.NaN()
}

// Fixed implements View.
func (l *ledger) Fixed(number int) Params {
	p, _ := l.plan.fixed(number)
	return p
}

// Exhausted implements View.
func (l *ledger) Exhausted() bool { return l.stops.exhausted }

// Plan implements View.
func (l *ledger) Plan() Plan {
	p := Plan{Trials: l.plan.total, Deadline: l.cfg.Deadline}
	if l.of != nil {
		p.Missed = l.of.Missed
	} else {
		p.Missed = l.missed()
	}
	if !p.Deadline.IsZero() && !l.wall.IsZero() {
		p.Ends = l.elapsed + p.Deadline.Sub(l.wall)
	}
	if r := l.cfg.logged; r != nil {
		p.Parallel, p.Suggester, p.Scheduler = l.cfg.Parallel, strings.TrimPrefix(r.suggester, "*"), strings.TrimPrefix(r.scheduler, "*")
		return p
	}
	p.Parallel, p.Suggester, p.Scheduler = cmp.Or(l.cfg.Parallel, 1), ruleName(l.cfg.Suggester, Random{}), ruleName(l.cfg.Scheduler, FIFO{})
	return p
}

// Elapsed implements View.
func (l *ledger) Elapsed() time.Duration { return l.elapsed }

// step takes the number and time of the next event.
func (l *ledger) step(e *Event) error {
	if e.Seq != l.seq {
		return fmt.Errorf("event %d: want event %d", e.Seq, l.seq)
	}
	if e.At < l.elapsed {
		return fmt.Errorf("event %d: its time %v is before %v, the time of the previous event", e.Seq, e.At, l.elapsed)
	}
	l.seq, l.elapsed, l.wall = e.Seq+1, e.At, e.Time
	return nil
}

// setState sets a trial's state, and counts it there.
func (l *ledger) setState(t *Trial, s State) {
	if t.State != "" {
		l.counts[t.State]--
	}
	l.failed += b2i(s == Failed) - b2i(t.State == Failed)
	t.State = s
	l.counts[s]++
	t.EndedAt = 0
	if s.Final() {
		t.EndedAt = l.elapsed
	}
}

// end makes a trial final and tells the scheduler.
func (l *ledger) end(t *Trial, s State, rule string) {
	l.queue.remove(t.Number)
	l.setState(t, s)
	t.Rule = rule
	t.run.order = nil
	l.scheduler.Ended(l, t.Number)
}

// enqueue lets a trial start, or go on, as soon as a slot is free.
func (l *ledger) enqueue(t *Trial) {
	l.setState(t, Pending)
	l.queue.add(t.Number)
}

// noteBest keeps l.best up to date after t's result has changed.
func (l *ledger) noteBest(t *Trial, worse bool) {
	// With constraints the trial's best report may be another one than before, but stays
	// feasible.
	if l.best == t.Number && (worse || l.cfg.Scope == LastReport) {
		l.best = -1
		for _, u := range l.trials {
			if l.beats(u) {
				l.best = u.Number
			}
		}
		return
	}
	if l.beats(t) {
		l.best = t.Number
	}
}

// beats says whether t's result is finite, feasible and better than the best trial's. The earlier
// trial wins a tie. With several objectives there is no best trial.
func (l *ledger) beats(t *Trial) bool {
	r := l.Result(t)
	if !isFinite(r) || l.cfg.several() || l.Violation(t) > 0 {
		return false
	}
	if l.best < 0 {
		return true
	}
	old := l.Result(l.trials[l.best])
	return l.goals.better(r, old) || l.Score(r) == l.Score(old) && t.Number < l.best
}

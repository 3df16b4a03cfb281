package tune

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// A ledger is the state of a study: the sum of its events, and the scheduler. It has no
// clock, lock or disk. The same events in the same order make the same ledger.
type ledger struct {
	cfg       *Config
	plan      *plan
	suggester Suggester
	scheduler Scheduler

	metric     string // "" until it is known; the first objective's
	mode       Mode
	objectives []Objective // if there are several
	goals      []string    // further metrics that a report must have to be judged

	trials  []*Trial
	counts  map[State]int
	active  int // attempts under way
	seq     uint64
	elapsed time.Duration
	wall    time.Time // of the newest event
	queue   []int     // trials that start before the scheduler is asked, in this order
	failed  int       // trials in state Failed
	best    int       // the trial with the best result, or -1

	exhausted bool
	noMore    string // the rule of the deadline by which there are no new trials, "" if it is not the reason
	noNew     bool   // resumed for failed trials only
	halted    string // the rule that ended the study, "" if none did
	haltErr   string
	judged    bool   // a report had the metric
	enough    string // the rule of a pruner that ended it, which a resume does not undo

	kept  int64       // bytes of checkpoints
	stale []keptBytes // checkpoints from before an exploit, to be removed
	hash  decisionHash

	of *Result // whose view it is, or nil
}

// A keptStep names a checkpoint; step -1 is none.
type keptStep struct{ trial, step, attempt int }

// keptBytes is a checkpoint with its size.
type keptBytes struct {
	keptStep
	bytes int64
}

func (c Checkpoint) of(trial int) keptStep { return keptStep{trial, c.Step, c.Attempt} }

// runState is the internal state of a trial's attempts.
type runState struct {
	active  bool           // an attempt is under way
	told    Action         // the answer to the attempt: anything but Continue ends it
	order   *TrialDecision // the answer to the next report
	since   time.Duration  // At of the attempt's start
	before  time.Duration  // Elapsed by then
	restore keptStep       // where the next attempt continues from
	queued  bool
	cut     bool // its attempt was interrupted
	changed bool // the parameters changed since the last start

	profile string // the newest of an allocation
}

func newLedger(cfg *Config) (*ledger, error) {
	p, err := newPlan(cfg)
	if err != nil {
		return nil, err
	}
	l := &ledger{cfg: cfg, plan: p, suggester: cfg.Suggester, scheduler: cfg.Scheduler, metric: cfg.Metric, counts: map[State]int{}, best: -1}
	if l.suggester == nil {
		l.suggester = Random{}
	}
	if l.scheduler == nil {
		l.scheduler = FIFO{}
	}
	l.objectives, l.goals = resolved(cfg.Objectives), cfg.goals()
	if l.mode = cfg.Mode; cfg.several() {
		l.metric, l.mode = l.objectives[0].Metric, l.objectives[0].Mode
	} else if l.metric != "" {
		if l.mode, err = cfg.Mode.resolve(l.metric); err != nil {
			return nil, err
		}
	}
	l.hash.begin()
	return l, nil
}

// Space implements View.
func (l *ledger) Space() Space { return l.cfg.Space }

// Fidelity implements View.
func (l *ledger) Fidelity() *Fidelity { return l.cfg.Fidelity }

// Metric implements View.
func (l *ledger) Metric() string { return l.metric }

// Mode implements View.
func (l *ledger) Mode() Mode {
	if l.mode == Auto {
		return Max
	}
	return l.mode
}

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
func (l *ledger) Score(value float64) float64 { return l.Mode().Score(value) }

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
func (l *ledger) Exhausted() bool { return l.exhausted }

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

// ruleName is a suggester's or scheduler's type for people.
func ruleName(rule, otherwise any) string { return strings.TrimPrefix(typeOf(rule, otherwise), "*") }

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
	l.unqueue(t)
	l.setState(t, s)
	t.Rule = rule
	t.run.order = nil
	l.scheduler.Ended(l, t.Number)
}

func (l *ledger) enqueue(t *Trial) {
	l.setState(t, Pending)
	if !t.run.queued {
		t.run.queued = true
		l.queue = append(l.queue, t.Number)
	}
}

func (l *ledger) unqueue(t *Trial) {
	if t.run.queued {
		t.run.queued = false
		l.queue = slices.DeleteFunc(l.queue, func(n int) bool { return n == t.Number })
	}
}

// better says whether a result is better than another; NaN is worse than all.
func (l *ledger) better(a, b float64) bool {
	if a != a {
		return false
	}
	return b != b || l.Score(a) > l.Score(b)
}

// noteBest keeps l.best up to date after t's result has changed.
func (l *ledger) noteBest(t *Trial, worse bool) {
	if l.best == t.Number && (worse || l.cfg.Scope == LastReport) { // with constraints a feasible report stays the best one
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
	return l.better(r, old) || l.Score(r) == l.Score(old) && t.Number < l.best
}

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

// standings are how a study stands: what its suggester, scheduler, pruners and observers see of it.
// They implement View. The ledger changes them by events; who gets them as a View must not.
type standings struct {
	cfg   *Config
	plan  *plan
	goals goals
	stops stops

	trials history
	// counts has how many trials are in each state.
	counts map[State]int
	// best is the trial with the best result, or -1.
	best int

	// seq is the number of the next event. elapsed and wall are At and Time of the newest one.
	seq     uint64
	elapsed time.Duration
	wall    time.Time

	// told is Plan.Missed where it was told before: of a result. "" has it made.
	told string
}

// newStandings are those of a study that has not begun.
func newStandings(cfg *Config) (*standings, error) {
	p, err := newPlan(cfg)
	if err != nil {
		return nil, err
	}
	g, err := newGoals(cfg)
	if err != nil {
		return nil, err
	}
	return &standings{cfg: cfg, plan: p, goals: g, counts: map[State]int{}, best: -1}, nil
}

// Space implements View.
func (v *standings) Space() Space { return v.cfg.Space }

// Fidelity implements View.
func (v *standings) Fidelity() *Fidelity { return v.cfg.Fidelity }

// Metric implements View.
func (v *standings) Metric() string { return v.goals.metric }

// Mode implements View.
func (v *standings) Mode() Mode { return v.goals.resolved() }

// Seed implements View.
func (v *standings) Seed() uint64 { return v.cfg.Seed }

// Len implements View.
func (v *standings) Len() int { return len(v.trials) }

// Trial implements View.
func (v *standings) Trial(number int) *Trial {
	if number < 0 || number >= len(v.trials) {
		return nil
	}
	return v.trials[number]
}

// Trials implements View.
func (v *standings) Trials() iter.Seq[*Trial] { return slices.Values(v.trials) }

// Count implements View.
func (v *standings) Count(s State) int { return v.counts[s] }

// Score implements View.
func (v *standings) Score(value float64) float64 { return v.goals.score(value) }

// Result implements View.
func (v *standings) Result(t *Trial) float64 { return v.cfg.result(t) }

// Fixed implements View.
func (v *standings) Fixed(number int) Params {
	p, _ := v.plan.fixed(number)
	return p
}

// Exhausted implements View.
func (v *standings) Exhausted() bool { return v.stops.exhausted }

// Plan implements View.
func (v *standings) Plan() Plan {
	p := Plan{Trials: v.plan.total, Deadline: v.cfg.Deadline, Missed: v.missed()}
	if !p.Deadline.IsZero() && !v.wall.IsZero() {
		p.Ends = v.elapsed + p.Deadline.Sub(v.wall)
	}
	if r := v.cfg.logged; r != nil {
		p.Parallel, p.Suggester, p.Scheduler = v.cfg.Parallel, strings.TrimPrefix(r.suggester, "*"), strings.TrimPrefix(r.scheduler, "*")
		return p
	}
	p.Parallel, p.Suggester, p.Scheduler = cmp.Or(v.cfg.Parallel, 1), ruleName(v.cfg.Suggester, Random{}), ruleName(v.cfg.Scheduler, FIFO{})
	return p
}

// missed says for people what the deadline has kept from being done; "" is nothing.
func (v *standings) missed() string {
	if v.told != "" {
		return v.told
	}
	return missed(v.trials, &v.stops, v.plan.total)
}

// Elapsed implements View.
func (v *standings) Elapsed() time.Duration { return v.elapsed }

// Objectives implements View.
func (v *standings) Objectives() []Objective { return v.goals.all() }

// Constraints implements View.
func (v *standings) Constraints() []Constraint { return v.cfg.Constraints }

// Values implements View.
func (v *standings) Values(t *Trial) []float64 {
	r, ok := v.cfg.ranked(t)
	if !ok {
		return nil
	}
	return v.goals.values(&r)
}

// Violation implements View.
func (v *standings) Violation(t *Trial) float64 {
	r, ok := v.cfg.ranked(t)
	if !ok {
		return math.NaN()
	}
	return violation(v.cfg.Constraints, r.Metrics)
}

// step takes the number and time of the next event. It is an error if the event is not the next
// one.
func (v *standings) step(e *Event) error {
	if e.Seq != v.seq {
		return fmt.Errorf("event %d: want event %d", e.Seq, v.seq)
	}
	if e.At < v.elapsed {
		return fmt.Errorf("event %d: its time %v is before %v, the time of the previous event", e.Seq, e.At, v.elapsed)
	}
	v.seq, v.elapsed, v.wall = e.Seq+1, e.At, e.Time
	return nil
}

// setState sets a trial's state, and counts it there.
func (v *standings) setState(t *Trial, s State) {
	if t.State != "" {
		v.counts[t.State]--
	}
	t.State = s
	v.counts[s]++
	t.EndedAt = 0
	if s.Final() {
		t.EndedAt = v.elapsed
	}
}

// noteBest keeps v.best up to date after t's result has changed.
func (v *standings) noteBest(t *Trial, worse bool) {
	// With constraints the trial's best report may be another one than before, but stays
	// feasible.
	if v.best == t.Number && (worse || v.cfg.Scope == LastReport) {
		v.best = -1
		for _, u := range v.trials {
			if v.beats(u) {
				v.best = u.Number
			}
		}
		return
	}
	if v.beats(t) {
		v.best = t.Number
	}
}

// beats says whether t's result is finite, feasible and better than the best trial's. The earlier
// trial wins a tie. With several objectives there is no best trial.
func (v *standings) beats(t *Trial) bool {
	r := v.Result(t)
	if !isFinite(r) || v.cfg.several() || v.Violation(t) > 0 {
		return false
	}
	if v.best < 0 {
		return true
	}
	old := v.Result(v.trials[v.best])
	return v.goals.better(r, old) || v.Score(r) == v.Score(old) && t.Number < v.best
}

package schedule

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/paragon-train/paragon/tune"
)

// MedianStopping is Ray Tune's median rule, which is Google Vizier's (Golovin et al. 2017, section
// 3.2.1): a trial is stopped if its best value so far is worse than the median of the other trials'
// running means, each over the reports from Grace up to the trial's step. Only trials that have
// reached this step count. In a study with a Fidelity the values at one level are compared.
type MedianStopping struct {
	tune.FIFO
	// Grace is the step below which nothing is stopped or averaged. Zero is 1.
	Grace int
	// MinTrials is the number of other trials that must have reached the step. Zero is 3.
	MinTrials int

	means map[int]*runningMean
	// steps are those that any trial has reported, in order.
	steps []int
	// at has for each of steps the running means up to it, of the trials that got as far.
	at map[int]*rung
}

// A runningMean is what the rule remembers of a trial.
type runningMean struct {
	steps []int
	// sums has the sum of the scores up to each of steps.
	sums []float64
	// apart says that each step has a value of its own, which is no part of a curve: then sums
	// are the scores.
	apart bool
}

// at is the mean of the scores up to a step; NaN before the first.
func (m *runningMean) at(step int) float64 {
	n := sort.SearchInts(m.steps, step+1)
	switch {
	case n == 0:
		return math.NaN()
	case m.apart && m.steps[n-1] < step:
		return math.NaN()
	case m.apart:
		return m.sums[n-1]
	}
	return m.sums[n-1] / float64(n)
}

// add adds a report, and returns the mean up to it.
func (m *runningMean) add(step int, score float64) float64 {
	if n := len(m.sums); n > 0 && !m.apart {
		score += m.sums[n-1]
	}
	m.steps, m.sums = append(m.steps, step), append(m.sums, score)
	return m.at(step)
}

// last is the newest step; -1: there is none.
func (m *runningMean) last() int {
	if len(m.steps) == 0 {
		return -1
	}
	return m.steps[len(m.steps)-1]
}

// record adds a report. It returns how many others got as far, the median of their means up to its
// step, and the best of them.
func (m *MedianStopping) record(trial, step int, score float64, apart bool) (others int, cutoff float64, best []int) {
	if m.means == nil {
		m.means, m.at = make(map[int]*runningMean), make(map[int]*rung)
	}
	own := m.means[trial]
	if own == nil {
		own = &runningMean{apart: apart}
		m.means[trial] = own
	}
	// This is the first report of the step: trials that are beyond it count, too.
	if m.at[step] == nil {
		r := &rung{}
		for _, n := range slices.Sorted(maps.Keys(m.means)) {
			if o := m.means[n]; o.last() >= step {
				if mean := o.at(step); !math.IsNaN(mean) {
					r.insert(entry{n, mean}, false)
				}
			}
		}
		m.at[step] = r
		i, _ := slices.BinarySearch(m.steps, step)
		m.steps = slices.Insert(m.steps, i, step)
	}
	i, _ := slices.BinarySearch(m.steps, own.last()+1)
	for ; m.steps[i] < step; i++ {
		// The trial has skipped these steps.
		if mean := own.at(m.steps[i]); !math.IsNaN(mean) {
			m.at[m.steps[i]].insert(entry{trial, mean}, false)
		}
	}
	mean := own.add(step, score)
	r := m.at[step]
	others, cutoff, best = len(r.entries), r.percentile(50), r.best()
	r.insert(entry{trial, mean}, false)
	return others, cutoff, best
}

// Reported implements tune.Scheduler.
func (m *MedianStopping) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	t := v.Trial(trial)
	last, ok := t.Last()
	if !ok || last.Step < max(m.Grace, 1) {
		return tune.Go()
	}
	others, cutoff, best := m.record(trial, last.Step, v.Score(last.Value), v.Fidelity() != nil)
	if others < minTrials(m.MinTrials, 3) {
		return tune.Go()
	}
	d := explain(tune.Continue, fmt.Sprintf("median at step %d", last.Step), bestValue(v, t))
	d.Cutoff, d.Competitors = v.Score(cutoff), best
	if v.Score(d.Value) < cutoff {
		d.Action = tune.Stop
	}
	return d
}

// bestValue returns the best value that a trial reported, or NaN if none was finite. With a
// Fidelity it returns the value of the newest level.
func bestValue(v tune.View, t *tune.Trial) float64 {
	if last, ok := t.Last(); ok && v.Fidelity() != nil {
		return last.Value
	}
	if t.Best < 0 {
		return math.NaN()
	}
	return t.Reports[t.Best].Value
}

// minTrials is n, or zero where it is not set.
func minTrials(n, zero int) int {
	if n > 0 {
		return n
	}
	return zero
}

// Percentile is Optuna's percentile pruner (the median pruner with 50): a trial is stopped if its
// best value so far is worse than the percentile of the values that completed trials had at the
// same step.
type Percentile struct {
	tune.FIFO
	// Percent is the share of trials that continue: 25 stops all but the best quarter. Zero is
	// 50, the median.
	Percent float64
	// Startup is how many trials must have completed. Zero is 5, below zero none.
	Startup int
	// Warmup is the step below which nothing is stopped.
	Warmup int
	// Interval is the number of steps between two checks. Zero is 1.
	Interval int
	// MinTrials is how many completed trials must have a value at the step. Zero is 1.
	MinTrials int

	completed int
	// at has the completed trials' scores by step.
	at map[int]*rung
}

// Validate says what is wrong with the fields.
func (p *Percentile) Validate() error {
	if p.Percent < 0 || p.Percent > 100 || p.Warmup < 0 || p.Interval < 0 {
		return fmt.Errorf("schedule: Percentile: Percent %v, Warmup %d, Interval %d: want 0 to 100, and 0 or more", p.Percent, p.Warmup, p.Interval)
	}
	return nil
}

// Ended implements tune.Scheduler.
func (p *Percentile) Ended(v tune.View, trial int) {
	t := v.Trial(trial)
	if t.State != tune.Completed {
		return
	}
	p.completed++
	if p.at == nil {
		p.at = make(map[int]*rung)
	}
	for _, r := range t.Reports {
		if r.Action == tune.Unjudged {
			continue
		}
		if p.at[r.Step] == nil {
			p.at[r.Step] = &rung{}
		}
		p.at[r.Step].insert(entry{trial, v.Score(r.Value)}, false)
	}
}

// Reported implements tune.Scheduler.
func (p *Percentile) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	if err := p.Validate(); err != nil {
		return invalid(err)
	}
	startup := p.Startup
	if startup == 0 {
		startup = 5
	}
	t := v.Trial(trial)
	last, ok := t.Last()
	if !ok || p.completed < max(startup, 0) || p.completed == 0 || !due(t, last.Step, p.Warmup, max(p.Interval, 1)) {
		return tune.Go()
	}
	r := p.at[last.Step]
	if r == nil || len(r.entries) < max(p.MinTrials, 1) {
		return tune.Go()
	}
	percent := p.Percent
	if percent == 0 {
		percent = 50
	}
	d := explain(tune.Continue, fmt.Sprintf("percentile %v at step %d", percent, last.Step), bestValue(v, t))
	cutoff := r.percentile(100 - percent)
	d.Cutoff, d.Competitors = v.Score(cutoff), r.best()
	if v.Score(d.Value) < cutoff {
		d.Action = tune.Stop
	}
	return d
}

// due says whether a step is the first report in its interval: intervals begin at warmup.
func due(t *tune.Trial, step, warmup, interval int) bool {
	if step < warmup {
		return false
	}
	before := -1
	for i := len(t.Reports) - 1; i >= 0; i-- {
		if r := t.Reports[i]; r.Step < step && r.Action != tune.Unjudged {
			before = r.Step
			break
		}
	}
	begin := (step-warmup)/interval*interval + warmup
	return before < begin
}

package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// The rules of ASHA.
const (
	// Stopping, the zero rule, is that of Ray Tune and AutoGluon: at a rung a trial is stopped
	// if its value is worse than the percentile (1−1/eta)·100 of the earlier values at the
	// rung. The first trial always continues.
	Stopping = ""
	// Promotion is that of the paper (Li et al. 2020, A System for Massively Parallel
	// Hyperparameter Tuning, algorithm 2): a trial is paused at each rung, and continues when
	// it is among the best 1/eta of those that reached the rung. A free slot takes the best
	// such trial of the highest rung, else a new one. A trial that is among them on arrival
	// continues without a pause.
	Promotion = "promotion"
	// OptunaRule is that of Optuna's successive halving: as Stopping, but the trial's own value
	// counts, and it must be among the best ⌊n/eta⌋, at least the best, of n. The first eta−1
	// to arrive keep only the best so far.
	OptunaRule = "optuna"
	// DeterminedRule is that of Determined's asynchronous halving: the rungs are MaxStep/eta^k,
	// and of values that are equal the later one counts as better.
	DeterminedRule = "determined"
)

// ASHA is asynchronous successive halving: trials are compared at rungs, which are steps that grow
// by a factor, and those that are not among the best at a rung are stopped or paused.
//
// A report beyond a rung counts for the rung. One that passes several rungs counts for the highest
// (Stopping, as in Ray) or for all of them.
//
// In a study with a Fidelity the rungs are its levels, whatever MinStep, Eta and Rungs say; Eta
// still says how many go on.
type ASHA struct {
	// Rule is Stopping, Promotion, OptunaRule or DeterminedRule.
	Rule string
	// MinStep is the lowest rung. Zero is 1; for OptunaRule it is a hundredth of the last step
	// of the first trial that completes, and nothing is stopped before. DeterminedRule does not
	// use it.
	MinStep int
	// MaxStep is the step at which a trial is complete. Zero is no limit, which only OptunaRule
	// allows.
	MaxStep int
	// Eta is the factor from rung to rung; one in Eta trials continues. Zero is 3.
	Eta float64
	// Rungs bounds the number of rungs of DeterminedRule, the last step included. Zero is 5.
	Rungs int
	// Brackets is how many sets of rungs there are; bracket s begins s rungs higher, and trials
	// are compared only within their bracket. Zero is 1. Not for DeterminedRule.
	Brackets int
	// BracketRule says how a trial's bracket is drawn: BracketsByBudget or BracketsByCount.
	BracketRule string
	// Guard, if not nil, keeps slow starters: trials that a rung would stop, but whose curve
	// may still end among the best.
	Guard *Guard

	err      error
	ready    bool
	last     float64
	weights  []float64
	brackets []bracket
	trials   map[int]*ashaTrial
}

// A bracket is one set of rungs, lowest first.
type bracket struct{ rungs []rung }

// An ashaTrial is what ASHA remembers of a trial.
type ashaTrial struct {
	bracket int
	// next is the lowest rung that the trial has not passed.
	next int
	// recorded has bit k set if rung k has the trial's value.
	recorded uint
	// paused says that the trial waits at rung next−1 to be promoted.
	paused bool
	// guarded says that the guard has kept the trial alive since the rule was to cut it.
	guarded bool
}

// Validate says what is wrong with the fields.
func (a *ASHA) Validate() error {
	switch a.Rule {
	case Stopping, Promotion, OptunaRule, DeterminedRule:
	default:
		return fmt.Errorf("schedule: ASHA: rule %q: want %q, %q, %q or %q", a.Rule, Stopping, Promotion, OptunaRule, DeterminedRule)
	}
	switch {
	case a.Eta != 0 && !(a.Eta > 1):
		return fmt.Errorf("schedule: ASHA: Eta is %v: want more than 1", a.Eta)
	case a.MinStep < 0 || a.MaxStep < 0 || a.Rungs < 0 || a.Brackets < 0:
		return fmt.Errorf("schedule: ASHA: MinStep %d, MaxStep %d, Rungs %d, Brackets %d: want 0 or more", a.MinStep, a.MaxStep, a.Rungs, a.Brackets)
	case a.MaxStep == 0 && a.Rule != OptunaRule:
		return errors.New("schedule: ASHA: MaxStep is 0: want the step at which a trial is complete")
	case a.MaxStep > 0 && a.MaxStep < a.MinStep:
		return fmt.Errorf("schedule: ASHA: MaxStep %d is below MinStep %d", a.MaxStep, a.MinStep)
	}
	if n := a.Brackets; n > 1 {
		if a.Rule == DeterminedRule {
			return fmt.Errorf("schedule: ASHA: %d brackets: rule %q has one", n, a.Rule)
		}
		levels := rungLevels(float64(max(a.MinStep, 1)), a.top(), a.eta(), 0)
		if n > len(levels) {
			return fmt.Errorf("schedule: ASHA: %d brackets: there are only %d rungs from %d to %v", n, len(levels), max(a.MinStep, 1), a.top())
		}
		if _, err := bracketWeights(a.BracketRule, levels, n); err != nil {
			return err
		}
	}
	return nil
}

// eta is Eta, or its default.
func (a *ASHA) eta() float64 {
	if a.Eta > 1 {
		return a.Eta
	}
	return 3
}

// top is MaxStep, or a step that nothing reaches.
func (a *ASHA) top() float64 {
	if a.MaxStep > 0 {
		return float64(a.MaxStep)
	}
	return 1 << 40
}

// setup makes the rungs.
func (a *ASHA) setup(v tune.View) {
	if a.ready {
		return
	}
	if a.err = a.Validate(); a.err != nil {
		a.ready = true
		return
	}
	if f := v.Fidelity(); f != nil {
		a.ready = true
		a.overLevels(v, f.Steps())
		return
	}
	a.last = a.top()
	least := float64(a.MinStep)
	if least == 0 && a.Rule == OptunaRule {
		last, known := 0, false
		for t := range v.Trials() {
			if step, ok := t.LastStep(); ok && t.State == tune.Completed {
				last, known = max(last, step), true
			}
		}
		if !known {
			// The rungs are not known yet: they come with the first trial that
			// completes.
			return
		}
		least = float64(max(last/100, 1))
	}
	a.ready = true
	least = max(least, 1)
	if a.Rule == DeterminedRule {
		a.brackets = []bracket{a.determinedRungs()}
		return
	}
	a.divide(rungLevels(least, a.top(), a.eta(), 0))
}

// divide makes the brackets of rungs at these levels. At the top a trial is complete.
func (a *ASHA) divide(levels []float64) {
	a.weights, _ = bracketWeights(a.BracketRule, levels, max(a.Brackets, 1))
	for s := range max(a.Brackets, 1) {
		var b bracket
		for _, level := range levels[s:] {
			if level < a.last {
				b.rungs = append(b.rungs, rung{level: level})
			}
		}
		a.brackets = append(a.brackets, b)
	}
}

// overLevels makes the rungs of a study with a Fidelity: its levels, so that no trial is compared
// at a rung by its result at another level.
func (a *ASHA) overLevels(v tune.View, steps []int) {
	levels := make([]float64, len(steps))
	for i, s := range steps {
		levels[i] = float64(s)
	}
	a.last = levels[len(levels)-1]
	if a.Brackets > len(levels) {
		a.err = fmt.Errorf("schedule: ASHA: %d brackets: the study's %s has %d levels", a.Brackets, v.Fidelity().Parameter, len(levels))
		return
	}
	a.divide(levels)
}

// determinedRungs are MaxStep/eta^(R−1−k), rounded down, at least 1.
func (a *ASHA) determinedRungs() bracket {
	r := a.Rungs
	if r == 0 {
		r = 5
	}
	r = min(r, int(math.Floor(math.Log(a.top())/math.Log(a.eta())+1e-9))+1)
	var b bracket
	for k := range r - 1 {
		level := max(math.Floor(a.top()/math.Pow(a.eta(), float64(r-1-k))+1e-9), 1)
		b.rungs = append(b.rungs, rung{level: level})
	}
	return b
}

// trial is what is remembered of a trial, which joins a bracket when it is first asked for.
func (a *ASHA) trial(v tune.View, n int) *ashaTrial {
	if a.trials == nil {
		a.trials = make(map[int]*ashaTrial)
	}
	t := a.trials[n]
	if t == nil {
		t = &ashaTrial{}
		if len(a.brackets) > 1 {
			t.bracket = pick(a.weights, v.Seed(), n)
		}
		a.trials[n] = t
	}
	return t
}

// Started implements tune.Scheduler: a paused trial that starts was promoted.
func (a *ASHA) Started(v tune.View, trial int) {
	a.setup(v)
	if t := a.trials[trial]; t != nil && t.paused {
		t.paused = false
	}
}

// Ended implements tune.Scheduler. What the trial reached at rungs stays there.
func (a *ASHA) Ended(v tune.View, trial int) {
	a.setup(v)
	if t := a.trials[trial]; t != nil {
		t.paused = false
	}
}

// Reported implements tune.Scheduler.
func (a *ASHA) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	a.setup(v)
	if a.err != nil {
		return invalid(a.err)
	}
	last, ok := v.Trial(trial).Last()
	if !ok || len(a.brackets) == 0 {
		return tune.Go()
	}
	t := a.trial(v, trial)
	if float64(last.Step) >= a.last {
		d := explain(tune.Complete, "asha: last step", last.Value)
		d.Rung = len(a.brackets[t.bracket].rungs)
		return d
	}
	d := a.judge(v, trial, t, last)
	if a.Guard != nil {
		return a.guarded(v, trial, t, last, d, rng)
	}
	return d
}

// judge takes the trial past the rungs that its newest report reaches.
func (a *ASHA) judge(v tune.View, trial int, t *ashaTrial, last tune.Report) tune.Decision {
	b := &a.brackets[t.bracket]
	step, score := float64(last.Step), v.Score(last.Value)
	if a.Rule == Stopping {
		for k := len(b.rungs) - 1; k >= 0; k-- {
			if b.rungs[k].level > step || t.recorded>>k&1 == 1 {
				continue
			}
			t.recorded |= 1 << k
			t.next = k + 1
			return a.stopping(v, &b.rungs[k], k, trial, last.Value, score)
		}
		return tune.Go()
	}
	d := tune.Go()
	for t.next < len(b.rungs) && b.rungs[t.next].level <= step {
		k := t.next
		t.next++
		d = a.ranked(v, &b.rungs[k], k, trial, last.Value, score)
		if d.Action != tune.Continue {
			t.paused = d.Action == tune.Pause
			break
		}
	}
	return d
}

// stopping compares with the values recorded before, and records.
func (a *ASHA) stopping(v tune.View, r *rung, k, trial int, value, score float64) tune.Decision {
	d := explain(tune.Continue, fmt.Sprintf("asha rung %d at step %v", k, r.level), value)
	d.Rung, d.Competitors = k, r.best()
	if len(r.entries) > 0 {
		cutoff := r.percentile((1 - 1/a.eta()) * 100)
		// Score is its own inverse: this is the cutoff as trials report it.
		d.Cutoff = v.Score(cutoff)
		if score < cutoff {
			d.Action = tune.Stop
		}
	}
	r.insert(entry{trial, score}, false)
	return d
}

// ranked records, and compares with all that are there.
func (a *ASHA) ranked(v tune.View, r *rung, k, trial int, value, score float64) tune.Decision {
	d := explain(tune.Continue, fmt.Sprintf("asha %s rung %d at step %v", a.Rule, k, r.level), value)
	d.Rung, d.Competitors = k, r.best()
	place := r.insert(entry{trial, score}, a.Rule == DeterminedRule)
	keep := a.keep(len(r.entries))
	if keep > 0 {
		d.Cutoff = v.Score(r.entries[keep-1].score)
	}
	switch {
	case a.Rule == OptunaRule && score >= r.entries[keep-1].score, a.Rule != OptunaRule && place < keep:
	case a.Rule == Promotion:
		d.Action = tune.Pause
	default:
		d.Action = tune.Stop
	}
	return d
}

// keep is how many of n at a rung go on: ⌊n/eta⌋, and at least one but by Promotion, which waits
// until there are eta.
func (a *ASHA) keep(n int) int {
	k := int(math.Floor(float64(n)/a.eta() + 1e-9))
	if a.Rule == Promotion {
		return k
	}
	return max(k, 1)
}

// Next implements tune.Scheduler: with Promotion, the best paused trial of the highest rung at
// which one is to go on.
func (a *ASHA) Next(v tune.View) tune.TrialChoice {
	if a.Rule != Promotion {
		return a.fresh(v)
	}
	top := 0
	for _, b := range a.brackets {
		top = max(top, len(b.rungs))
	}
	for k := top - 1; k >= 0; k-- {
		for _, b := range a.brackets {
			if k >= len(b.rungs) {
				continue
			}
			r := &b.rungs[k]
			for _, e := range r.entries[:a.keep(len(r.entries))] {
				t := a.trials[e.trial]
				if t.paused && t.next == k+1 && v.Trial(e.trial).State == tune.Paused {
					return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: e.trial, Rule: fmt.Sprintf("asha: promoted from rung %d at step %v", k, r.level)}
				}
			}
		}
	}
	return a.fresh(v)
}

// fresh is a new trial. With a Fidelity it begins at the lowest rung of its bracket.
func (a *ASHA) fresh(v tune.View) tune.TrialChoice {
	f := v.Fidelity()
	if f == nil || len(a.brackets) < 2 {
		return tune.TrialChoice{}
	}
	return tune.TrialChoice{Step: f.Steps()[pick(a.weights, v.Seed(), v.Len())]}
}

// explain is a decision about a value.
func explain(a tune.Action, rule string, value float64) tune.Decision {
	d := tune.Go()
	d.Action, d.Rule, d.Value = a, rule, value
	return d
}

// invalid is the decision of a scheduler with invalid fields: trials continue, and each decision
// has the error.
func invalid(err error) tune.Decision {
	d := tune.Go()
	d.Rule = err.Error()
	return d
}

// NextStep implements tune.Staged.
func (a *ASHA) NextStep(_ tune.View, trial int) int {
	t := a.trials[trial]
	switch {
	case t == nil || a.err != nil || t.bracket >= len(a.brackets):
		return 0
	case t.next < len(a.brackets[t.bracket].rungs):
		return int(math.Ceil(a.brackets[t.bracket].rungs[t.next].level))
	}
	return a.MaxStep
}

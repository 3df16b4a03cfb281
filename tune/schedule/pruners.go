package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// MaxStep completes a trial at its first report of this step or a later one.
type MaxStep int

// Prune implements tune.Pruner.
func (m MaxStep) Prune(v tune.View, trial int) tune.StopDecision {
	if last, ok := v.Trial(trial).LastStep(); !ok || last < int(m) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{Trial: tune.Complete, Rule: fmt.Sprintf("step %d reached", int(m))}
}

// Reached stops when the metric is at least as good as Value: the study, or with TrialOnly the
// trial that reported. In a study with a Fidelity only results at its highest level count.
type Reached struct {
	Value     float64
	TrialOnly bool
}

// Prune implements tune.Pruner.
func (r Reached) Prune(v tune.View, trial int) tune.StopDecision {
	last, ok := v.Trial(trial).Last()
	if !ok || v.Score(last.Value) < v.Score(r.Value) {
		return tune.StopDecision{}
	}
	if f := v.Fidelity(); f != nil && last.Step < f.Step(f.High) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{Trial: tune.Complete, StopAll: !r.TrialOnly, Rule: fmt.Sprintf("%s is %.6g, which reaches %.6g", v.Metric(), last.Value, r.Value)}
}

// TrialPlateau completes a trial whose newest values have a small standard deviation.
type TrialPlateau struct {
	// Deviation is that standard deviation. Zero is 0.01.
	Deviation float64
	// Reports is the number of newest values. Zero is 4.
	Reports int
	// Grace is the least number of reports of a trial. Zero is 4.
	Grace int
	// Level, if HasLevel is set, limits it to trials whose newest value is at least this good.
	Level    float64
	HasLevel bool
}

// Prune implements tune.Pruner.
func (p TrialPlateau) Prune(v tune.View, trial int) tune.StopDecision {
	n, grace, limit := p.Reports, p.Grace, p.Deviation
	if n <= 0 {
		n = 4
	}
	if grace <= 0 {
		grace = 4
	}
	if limit <= 0 {
		limit = 0.01
	}
	var values []float64
	for _, r := range v.Trial(trial).Reports {
		if r.Action != tune.Unjudged {
			values = append(values, r.Value)
		}
	}
	if len(values) < max(n, grace) || p.HasLevel && v.Score(values[len(values)-1]) < v.Score(p.Level) {
		return tune.StopDecision{}
	}
	d := deviation(values[len(values)-n:])
	if !(d <= limit) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{Trial: tune.Complete, Rule: fmt.Sprintf("plateau: the newest %d values deviate by %.3g", n, d)}
}

// deviation is the standard deviation of a population.
func deviation(values []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(values)))
}

// StudyPlateau ends the study when its best results have a small standard deviation and no new
// trial has joined them for a while.
type StudyPlateau struct {
	// Top is the number of best results. Zero is 10.
	Top int
	// Deviation is that standard deviation. Zero is 0.001.
	Deviation float64
	// Patience is the number of trials that must have ended after the newest of the best.
	Patience int

	// ended is how many trials were over when halt was last computed.
	ended int
	halt  tune.StopDecision
}

// Prune implements tune.Pruner.
func (p *StudyPlateau) Prune(v tune.View, _ int) tune.StopDecision {
	ended := v.Count(tune.Completed) + v.Count(tune.Pruned)
	if ended == p.ended {
		return p.halt
	}
	p.ended, p.halt = ended, tune.StopDecision{}
	top, limit := p.Top, p.Deviation
	if top <= 0 {
		top = 10
	}
	if limit <= 0 {
		limit = 0.001
	}
	type result struct {
		value, score float64
		// place is the trial's place in the order of ends.
		place int
		at    time.Duration
		trial int
	}
	var all []result
	for t := range v.Trials() {
		if x := v.Result(t); (t.State == tune.Completed || t.State == tune.Pruned) && !math.IsNaN(x) {
			all = append(all, result{value: x, score: v.Score(x), at: t.EndedAt, trial: t.Number})
		}
	}
	if len(all) < top {
		return tune.StopDecision{}
	}
	slices.SortFunc(all, func(a, b result) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.trial, b.trial)) })
	for i := range all {
		all[i].place = i
	}
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	newest := 0
	var values []float64
	for _, r := range all[:top] {
		newest = max(newest, r.place)
		values = append(values, r.value)
	}
	if d := deviation(values); d <= limit && len(all)-1-newest >= p.Patience {
		p.halt = tune.StopDecision{StopAll: true, Rule: fmt.Sprintf("plateau: the best %d results deviate by %.3g", top, d)}
	}
	return p.halt
}

// StudyTime ends the study at the first report after it has run for this long, summed over all
// resumes.
type StudyTime time.Duration

// Prune implements tune.Pruner.
func (s StudyTime) Prune(v tune.View, _ int) tune.StopDecision {
	if v.Elapsed() < time.Duration(s) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{StopAll: true, Rule: fmt.Sprintf("time budget of %v is spent", time.Duration(s))}
}

// TrialTime completes a trial at its first report after this training time.
type TrialTime time.Duration

// Prune implements tune.Pruner.
func (s TrialTime) Prune(v tune.View, trial int) tune.StopDecision {
	if v.Trial(trial).Elapsed < time.Duration(s) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{Trial: tune.Complete, Rule: fmt.Sprintf("trained for %v", time.Duration(s))}
}

// Number ends the study at the first report after this many trials have ended, completed or pruned.
type Number int

// Prune implements tune.Pruner.
func (n Number) Prune(v tune.View, _ int) tune.StopDecision {
	if v.Count(tune.Completed)+v.Count(tune.Pruned) < int(n) {
		return tune.StopDecision{}
	}
	return tune.StopDecision{StopAll: true, Rule: fmt.Sprintf("%d trials have ended", int(n))}
}

// AnyPruner takes the first answer of its pruners that ends the trial or the study; AllPruners ends
// them only if all do.
type (
	AnyPruner  []tune.Pruner
	AllPruners []tune.Pruner
)

// Prune implements tune.Pruner.
func (a AnyPruner) Prune(v tune.View, trial int) tune.StopDecision {
	var result tune.StopDecision
	for _, s := range a {
		h := s.Prune(v, trial)
		if result.Rule == "" {
			result.Rule = h.Rule
		}
		if result.Trial == "" {
			result.Trial = h.Trial
		}
		result.StopAll = result.StopAll || h.StopAll
	}
	return result
}

// Prune implements tune.Pruner.
func (a AllPruners) Prune(v tune.View, trial int) tune.StopDecision {
	if len(a) == 0 {
		return tune.StopDecision{}
	}
	result := tune.StopDecision{StopAll: true}
	action := tune.Complete
	both := true
	for i, s := range a {
		h := s.Prune(v, trial)
		result.StopAll = result.StopAll && h.StopAll
		if h.Trial == "" || h.Trial == tune.Continue {
			both = false
		}
		if h.Trial == tune.Stop {
			action = tune.Stop
		}
		if i > 0 && h.Rule != "" && result.Rule != "" {
			result.Rule += " and "
		}
		result.Rule += h.Rule
	}
	if both {
		result.Trial = action
	}
	if !both && !result.StopAll {
		return tune.StopDecision{}
	}
	return result
}

// PruneFunc makes a Pruner of a function, which must be a pure function of the view.
type PruneFunc func(v tune.View, trial int) tune.StopDecision

// Prune implements tune.Pruner.
func (f PruneFunc) Prune(v tune.View, trial int) tune.StopDecision { return f(v, trial) }

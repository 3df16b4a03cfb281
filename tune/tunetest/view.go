// Package tunetest helps to test suggesters, schedulers and pruners: a View to
// fill by hand, without a study.
package tunetest

import (
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A View is a tune.View whose trials are set by hand. Its fields may be changed
// between calls. Each Report and End moves the clock on by a second.
type View struct {
	SearchSpace tune.Space
	// MetricName is "value" if it is "".
	MetricName string
	// Direction is Max if it is Auto.
	Direction tune.Mode
	// Goals are several objectives; then MetricName and Direction are not used.
	Goals     []tune.Objective
	Bounds    []tune.Constraint
	Levels    *tune.Fidelity
	StudySeed uint64
	// Last ranks trials by their last report, and not by their best.
	Last bool
	// NoNew is what Exhausted returns.
	NoNew      bool
	FixedParts map[int]tune.Params
	All        []*tune.Trial
	Now        time.Duration

	seq uint64
}

// Space implements tune.View.
func (v *View) Space() tune.Space { return v.SearchSpace }

// Metric implements tune.View.
func (v *View) Metric() string {
	if len(v.Goals) > 0 {
		return v.Goals[0].Metric
	}
	if v.MetricName == "" {
		return "value"
	}
	return v.MetricName
}

// Mode implements tune.View.
func (v *View) Mode() tune.Mode {
	if len(v.Goals) > 0 {
		return v.Goals[0].Mode
	}
	if v.Direction == tune.Auto {
		return tune.Max
	}
	return v.Direction
}

// Seed implements tune.View.
func (v *View) Seed() uint64 { return v.StudySeed }

// Len implements tune.View.
func (v *View) Len() int { return len(v.All) }

// Trial implements tune.View.
func (v *View) Trial(number int) *tune.Trial {
	if number < 0 || number >= len(v.All) {
		return nil
	}
	return v.All[number]
}

// Trials implements tune.View.
func (v *View) Trials() iter.Seq[*tune.Trial] {
	return func(yield func(*tune.Trial) bool) {
		for _, t := range v.All {
			if !yield(t) {
				return
			}
		}
	}
}

// Count implements tune.View.
func (v *View) Count(s tune.State) int {
	n := 0
	for _, t := range v.All {
		if t.State == s {
			n++
		}
	}
	return n
}

// Score implements tune.View.
func (v *View) Score(value float64) float64 { return v.Mode().Score(value) }

// Objectives implements tune.View.
func (v *View) Objectives() []tune.Objective {
	if len(v.Goals) > 0 {
		return v.Goals
	}
	return []tune.Objective{{Metric: v.Metric(), Mode: v.Mode()}}
}

// Constraints implements tune.View.
func (v *View) Constraints() []tune.Constraint { return v.Bounds }

// Fidelity implements tune.View.
func (v *View) Fidelity() *tune.Fidelity { return v.Levels }

// ranked is the report that a trial is judged by.
func (v *View) ranked(t *tune.Trial) (tune.Report, bool) {
	if v.Last || len(v.Goals) > 0 {
		return t.Last()
	}
	if t.Best < 0 || t.Best >= len(t.Reports) {
		return tune.Report{}, false
	}
	return t.Reports[t.Best], true
}

// Result implements tune.View.
func (v *View) Result(t *tune.Trial) float64 {
	if r, ok := v.ranked(t); ok {
		return r.Value
	}
	return math.NaN()
}

// Values implements tune.View.
func (v *View) Values(t *tune.Trial) []float64 {
	r, ok := v.ranked(t)
	if !ok {
		return nil
	}
	if len(v.Goals) == 0 {
		return []float64{r.Value}
	}
	var values []float64
	for _, o := range v.Goals {
		x, _ := r.Metrics.Get(o.Metric)
		values = append(values, x)
	}
	return values
}

// Violation implements tune.View.
func (v *View) Violation(t *tune.Trial) float64 {
	r, ok := v.ranked(t)
	if !ok {
		return math.NaN()
	}
	sum := 0.0
	for _, c := range v.Bounds {
		x, _ := r.Metrics.Get(c.Metric)
		sum += c.Violation(x)
	}
	return sum
}

// Fixed implements tune.View.
func (v *View) Fixed(number int) tune.Params { return v.FixedParts[number] }

// Exhausted implements tune.View.
func (v *View) Exhausted() bool { return v.NoNew }

// Elapsed implements tune.View.
func (v *View) Elapsed() time.Duration { return v.Now }

// Add adds a running trial.
func (v *View) Add(p tune.Params) *tune.Trial {
	t := &tune.Trial{Number: len(v.All), Params: p, Origin: tune.FromSuggester, State: tune.Running, Best: -1, Attempts: 1, StartedAt: v.Now}
	v.All = append(v.All, t)
	return t
}

// Report adds a report of the study's metric to a trial.
func (v *View) Report(t *tune.Trial, step int, value float64) {
	v.ReportAll(t, step, map[string]float64{v.Metric(): value})
}

// ReportAll adds a report of several metrics, among them the study's.
func (v *View) ReportAll(t *tune.Trial, step int, values map[string]float64) {
	value := values[v.Metric()]
	var all tune.Metrics
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, tune.Metric{Name: name, Value: values[name]})
	}
	v.seq++
	v.Now += time.Second
	t.Elapsed += time.Second
	t.Reports = append(t.Reports, tune.Report{Step: step, Value: value, Metrics: all,
		Seq: v.seq, Attempt: t.Attempts, Elapsed: t.Elapsed, At: v.Now, Action: tune.Continue})
	if !math.IsNaN(value) && !math.IsInf(value, 0) && (t.Best < 0 || v.Score(value) > v.Score(t.Reports[t.Best].Value)) {
		t.Best = len(t.Reports) - 1
	}
}

// End gives a trial a final state.
func (v *View) End(t *tune.Trial, s tune.State) {
	v.seq++
	v.Now += time.Second
	t.State, t.EndedAt = s, v.Now
}

// Done adds a trial that is completed with one report at step 1.
func (v *View) Done(p tune.Params, value float64) *tune.Trial {
	t := v.Add(p)
	v.Report(t, 1, value)
	v.End(t, tune.Completed)
	return t
}

// Rand returns a source of random numbers for a test, from a seed of its own.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7e57)) }

// Plan implements tune.View: no number of trials is known.
func (v *View) Plan() tune.Plan { return tune.Plan{Trials: -1, Parallel: 1} }

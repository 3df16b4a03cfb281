// Package tunetest helps to test suggesters, schedulers and pruners: a View to
// fill by hand, without a study.
package tunetest

import (
	"iter"
	"math"
	"math/rand/v2"
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
	Direction  tune.Mode
	StudySeed  uint64
	Last       bool // judge trials by their last report
	NoNew      bool // Exhausted
	FixedParts map[int]tune.Params
	All        []*tune.Trial
	Now        time.Duration

	seq uint64
}

// Space implements tune.View.
func (v *View) Space() tune.Space { return v.SearchSpace }

// Metric implements tune.View.
func (v *View) Metric() string {
	if v.MetricName == "" {
		return "value"
	}
	return v.MetricName
}

// Mode implements tune.View.
func (v *View) Mode() tune.Mode {
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

// Result implements tune.View.
func (v *View) Result(t *tune.Trial) float64 {
	if v.Last {
		if r, ok := t.Last(); ok {
			return r.Value
		}
		return math.NaN()
	}
	if t.Best < 0 || t.Best >= len(t.Reports) {
		return math.NaN()
	}
	return t.Reports[t.Best].Value
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

// Report adds a report to a trial.
func (v *View) Report(t *tune.Trial, step int, value float64) {
	v.seq++
	v.Now += time.Second
	t.Elapsed += time.Second
	t.Reports = append(t.Reports, tune.Report{Step: step, Value: value, Metrics: tune.Metrics{{Name: v.Metric(), Value: value}},
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

package suggesttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// Run searches with a number of trials, parallel at once, each lasting as long as the others. It
// returns how far above the minimum the value of the trial with the smallest report is, and all the
// trials.
func (p Problem) Run(s tune.Suggester, trials, parallel int, seed uint64) (regret float64, v *tunetest.View, err error) {
	v = &tunetest.View{SearchSpace: p.Space, Direction: tune.Min, StudySeed: seed}
	finish := func(t *tune.Trial) {
		y := p.Value(t.Params)
		if p.Noise > 0 {
			y += p.Noise * rand.New(rand.NewPCG(seed, ^uint64(t.Number))).NormFloat64()
		}
		v.Report(t, 1, y)
		v.End(t, tune.Completed)
	}
	for i := range trials {
		if i >= parallel {
			finish(v.Trial(i - parallel))
		}
		params, err := s.Suggest(v, i, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return 0, v, fmt.Errorf("suggesttest: %s trial %d: %w", p.Name, i, err)
		}
		v.Add(params)
	}
	for i := max(0, trials-parallel); i < trials; i++ {
		finish(v.Trial(i))
	}
	return p.RegretAfter(v, trials), v, nil
}

// RegretAfter is the regret of a search's first trials: how far above the minimum the value of the
// one with the smallest report among them is.
func (p Problem) RegretAfter(v *tunetest.View, trials int) float64 {
	best := v.Trial(0)
	for t := range v.Trials() {
		if t.Number < trials && v.Result(t) < v.Result(best) {
			best = t
		}
	}
	return p.Value(best.Params) - p.Min
}

// Regrets runs the search with the seeds 0 to seeds−1, each with a suggester of its own.
func (p Problem) Regrets(suggester func() tune.Suggester, trials, parallel, seeds int) ([]float64, error) {
	all := make([]float64, seeds)
	for s := range all {
		r, _, err := p.Run(suggester(), trials, parallel, uint64(s))
		if err != nil {
			return nil, err
		}
		all[s] = r
	}
	return all, nil
}

// Median is the median of values.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile is the value at part q of the sorted values, between two of them on the line that joins
// them. NaN if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	at := q * float64(len(v)-1)
	i := min(int(at), max(len(v)-2, 0))
	return v[i] + (at-float64(i))*(v[min(i+1, len(v)-1)]-v[i])
}

package suggesttest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// Run searches with a number of trials, parallel at once, each lasting as long as the others. It returns the smallest value
// found above the minimum, and all the trials.
func (p Problem) Run(s tune.Suggester, trials, parallel int, seed uint64) (regret float64, v *tunetest.View, err error) {
	v = &tunetest.View{SearchSpace: p.Space, Direction: tune.Min, StudySeed: seed}
	finish := func(t *tune.Trial) {
		y := p.Value(t.Params)
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
	best := p.Value(v.Trial(0).Params)
	for t := range v.Trials() {
		best = min(best, v.Result(t))
	}
	return best - p.Min, v, nil
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

// Median is the median of values, Mean their mean.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Mean is the mean of values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

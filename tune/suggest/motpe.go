package suggest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/pareto"
)

// MOTPE proposes for several objectives by the tree-structured Parzen estimator (Ozaki et al. 2020). As TPE it fits a density l to the good trials and g
// to the rest, draws candidates from l, and takes the one with the largest l/g.
//
// Good are three in twenty of the finished trials, at most 25, front by front; of the front that does not fit as a whole, those whose hypervolume together is
// large. Each counts in l by the hypervolume that it alone adds. The hypervolume's reference point is a tenth of each objective's range below the
// worst feasible trial. Trials that violate constraints come after all others, those that violate less first. Running trials count as not good.
type MOTPE struct {
	// Univariate fits a density to each parameter alone. Else one joint density is fitted to all parameters that share a condition, for three in five
	// proposals.
	Univariate bool
	// Startup is the number of finished trials below which proposals are quasi-random. Zero is 10.
	Startup int
	// Candidates is the number of draws from l for each proposal. Zero is 24.
	Candidates int
	// IgnoreRunning leaves running trials out of both densities.
	IgnoreRunning bool

	reader   reader
	matrices []sobolMatrix
}

// Validate says what is wrong with the fields.
func (s *MOTPE) Validate() error {
	if s.Startup < 0 || s.Candidates < 0 {
		return fmt.Errorf("suggest: MOTPE: Startup %d, Candidates %d: want 0 or more", s.Startup, s.Candidates)
	}
	return nil
}

// Suggest implements tune.Suggester.
func (s *MOTPE) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if err := s.Validate(); err != nil {
		return tune.Params{}, err
	}
	m, recs := s.reader.read(v)
	fixed := v.Fixed(number)
	given := m.given(fixed)
	good, rest := s.split(recs)
	startup := s.Startup
	if startup == 0 {
		startup = 10
	}
	if finished(recs) < startup || len(good) == 0 {
		return m.params(m.startPoint(recs, given, &s.matrices, v.Seed(), number, rng), fixed)
	}
	weights := contributions(recs, good)
	x := m.fresh(recs, given, rng, func() []float64 { return s.propose(m, recs, good, rest, weights, given, rng) })
	return m.params(x, fixed)
}

// split is the good trials and the others, as indices of records, oldest first.
func (s *MOTPE) split(recs []record) (good, rest []int) {
	var done []int
	for i := range recs {
		switch {
		case joins(&recs[i]):
			done = append(done, i)
		case recs[i].finished(), recs[i].state == recordRunning && !s.IgnoreRunning:
			rest = append(rest, i)
		}
	}
	points, violations := make([][]float64, len(done)), make([]float64, len(done))
	for i, n := range done {
		points[i], violations[i] = recs[n].scores, recs[n].violation
	}
	enough := min((3*len(done)+19)/20, mostGood)
	isGood := make([]bool, len(done))
	have := 0
	for _, front := range pareto.Fronts(points, violations, enough) {
		if room := enough - have; len(front) > room {
			var tied [][]float64
			for _, i := range front {
				tied = append(tied, points[i])
			}
			chosen := pareto.Subset(tied, reference(recs), room)
			for k, i := range chosen {
				chosen[k] = front[i]
			}
			front = chosen
		}
		for _, i := range front {
			isGood[i] = true
		}
		have += len(front)
	}
	for i, n := range done {
		if isGood[i] {
			good = append(good, n)
		} else {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	return good, rest
}

// reference is a point that is worse than all trials, by a tenth of their range.
func reference(recs []record) []float64 {
	var low, high []float64
	feasible := slices.ContainsFunc(recs, func(r record) bool { return joins(&r) && r.violation == 0 })
	for i := range recs {
		if !joins(&recs[i]) || feasible && recs[i].violation > 0 {
			continue
		}
		if low == nil {
			low, high = slices.Clone(recs[i].scores), slices.Clone(recs[i].scores)
		}
		for k, x := range recs[i].scores {
			low[k], high[k] = min(low[k], x), max(high[k], x)
		}
	}
	for k := range low {
		below := (high[k] - low[k]) / 10
		if below <= 0 {
			below = max(math.Abs(low[k])/10, 1e-12)
		}
		low[k] -= below
	}
	return low
}

// contributions are the weights of good trials: the hypervolume that each alone adds to that of all, as a share of the largest. Trials that violate
// constraints, and those that others dominate, weigh little.
func contributions(recs []record, good []int) []float64 {
	const least = 1e-3
	weights := make([]float64, len(good))
	var points [][]float64
	var at []int
	for i, n := range good {
		weights[i] = least
		if recs[n].violation == 0 {
			points, at = append(points, recs[n].scores), append(at, i)
		}
	}
	if len(points) == 0 {
		for i := range weights {
			weights[i] = 1
		}
		return weights
	}
	parts := pareto.Contributions(points, reference(recs))
	if top := slices.Max(parts); top > 0 {
		for k, i := range at {
			weights[i] = max(parts[k]/top, least)
		}
	}
	return weights
}

// propose returns values for the model's dims, NaN where a parameter is not there.
func (s *MOTPE) propose(m *model, recs []record, good, rest []int, weights, given []float64, rng *rand.Rand) []float64 {
	rules := optunaRules
	rules.joint, rules.narrow = 0.05, 4
	joint := !s.Univariate
	if joint && rng.Float64() < sharpSingle {
		joint = false
		rules.priorWeight, rules.narrow = 0.4, 1.5
	}
	rows := func(indices []int) [][]float64 {
		all := make([][]float64, len(indices))
		for i, n := range indices {
			all[i] = recs[n].x
		}
		return all
	}
	l, g := sample{rows(good), weights}, sample{rows(rest), nil}
	return proposeBetween(m, l, g, joint, rules, s.Candidates, given, rng)
}

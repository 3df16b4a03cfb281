package suggest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/pareto"
)

// MOTPE proposes for several objectives by the tree-structured Parzen estimator (Ozaki et al.
// 2020). As TPE it fits a density l to the good trials and g to the rest, draws candidates from l,
// and takes the one with the largest l/g.
//
// Good are three in twenty of the finished trials, at most 25, front by front; of the front that
// does not fit as a whole, those whose hypervolume together is large. Each counts in l by the
// hypervolume that it alone adds. The hypervolume's reference point is a tenth of each objective's
// range below the worst feasible trial. Trials that violate constraints come after all others,
// those that violate less first. Running trials count as not good.
//
// Once a trial has violated constraints, a quarter of the good trials are ones that violate them,
// but less than most, and that no feasible trial dominates. Half of the proposals look for further
// pieces of the feasible region: there it is half of the good trials, all count the same, and each
// parameter has a density of its own.
type MOTPE struct {
	// Univariate fits a density to each parameter alone. Else one joint density is fitted to
	// all parameters that share a condition, for three in five proposals.
	Univariate bool
	// Startup is the number of trials that have finished or run below which proposals are
	// quasi-random; three must have finished. Zero is 10.
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
	startup := s.Startup
	if startup == 0 {
		startup = 10
	}
	if starting(recs, startup) || !slices.ContainsFunc(recs, func(r record) bool { return joins(&r) }) {
		return m.params(m.startPoint(recs, given, &s.matrices, v.Seed(), number, rng), fixed)
	}
	near, look := 0.0, false
	if slices.ContainsFunc(recs, func(r record) bool { return joins(&r) && r.violation > 0 }) {
		if near = nearPart; rng.Float64() < lookForPieces {
			near, look = nearWhenLooking, true
		}
	}
	good, rest := s.split(recs, near)
	weights := make([]float64, len(good))
	for i := range weights {
		weights[i] = 1
	}
	if !look {
		weights = contributions(recs, good)
	}
	best, others := sample{rowsOf(recs, good), weights}, sample{rowsOf(recs, rest), nil}
	x := m.fresh(recs, given, rng, func() []float64 { return s.propose(m, best, others, look, given, rng) })
	return m.params(x, fixed)
}

// lookForPieces is the part of proposals that look for further pieces of the feasible region once a
// trial has violated constraints.
const lookForPieces = 0.5

// nearPart and nearWhenLooking are the parts of the good trials that violate constraints: of
// proposals that refine the known front, where such trials have next to no weight but do not count
// as bad ones, and of those that look for further pieces.
const (
	nearPart        = 0.25
	nearWhenLooking = 0.5
)

// split is the good trials and the others, as indices of records, oldest first. A part near of the
// good trials violate constraints, as far as there are such ones that promise something; others
// that do are good only if there are too few feasible trials.
func (s *MOTPE) split(recs []record, near float64) (good, rest []int) {
	var done []int
	for i := range recs {
		switch {
		case joins(&recs[i]):
			done = append(done, i)
		case recs[i].finished(), recs[i].state == recordRunning && !s.IgnoreRunning:
			rest = append(rest, i)
		}
	}
	enough := min((3*len(done)+19)/20, mostGood)
	feasible, violating := feasibleFirst(recs, done)
	if near = math.Round(near * float64(enough)); near > 0 && len(feasible) > 0 {
		good = promising(recs, feasible, violating, int(near))
	}
	first := min(enough-len(good), len(feasible))
	good = append(good, frontByFront(objectives(recs, feasible), feasible, first)...)
	slices.SortStableFunc(violating, func(a, b int) int { return cmp.Compare(recs[a].violation, recs[b].violation) })
	for _, i := range violating {
		if len(good) < enough && !slices.Contains(good, i) {
			good = append(good, i)
		}
	}
	for _, i := range done {
		if !slices.Contains(good, i) {
			rest = append(rest, i)
		}
	}
	slices.Sort(good)
	slices.Sort(rest)
	return good, rest
}

// feasibleFirst divides indices of records into those of feasible trials and those that violate
// constraints.
func feasibleFirst(recs []record, indices []int) (feasible, violating []int) {
	for _, i := range indices {
		if recs[i].violation > 0 {
			violating = append(violating, i)
		} else {
			feasible = append(feasible, i)
		}
	}
	return feasible, violating
}

// objectives are the scores of records.
func objectives(recs []record, indices []int) [][]float64 {
	points := make([][]float64, len(indices))
	for k, i := range indices {
		points[k] = recs[i].scores
	}
	return points
}

// promising are at most n of the violating trials that tell where a further piece of the feasible
// region may be: they are in the half that violates least, and no feasible trial dominates them.
// They are chosen front by front, with the violation as one more objective, as the infeasible
// parents of Ray et al. (2009).
func promising(recs []record, feasible, violating []int, n int) []int {
	if len(violating) == 0 {
		return nil
	}
	sorted := make([]float64, len(violating))
	for k, i := range violating {
		sorted[k] = recs[i].violation
	}
	slices.Sort(sorted)
	middle := sorted[len(sorted)/2]
	known := objectives(recs, feasible)
	// What any feasible trial dominates, one on this front does.
	front := pareto.Fronts(known, nil, 1)[0]
	var open []int
	var points [][]float64
	for _, i := range violating {
		r := &recs[i]
		if r.violation <= middle && !slices.ContainsFunc(front, func(k int) bool { return pareto.Dominates(known[k], r.scores) }) {
			open, points = append(open, i), append(points, append(slices.Clone(r.scores), -r.violation))
		}
	}
	return frontByFront(points, open, n)
}

// frontByFront are the indices of n of the points, or of all if there are fewer, front by front; of
// the front that does not fit as a whole those whose hypervolume together is large.
func frontByFront(points [][]float64, indices []int, n int) []int {
	var all []int
	for _, front := range pareto.Fronts(points, make([]float64, len(points)), n) {
		if room := n - len(all); len(front) > room {
			tied := make([][]float64, len(front))
			for k, i := range front {
				tied[k] = points[i]
			}
			chosen := pareto.Subset(tied, below(points), room)
			for k, i := range chosen {
				chosen[k] = front[i]
			}
			front = chosen
		}
		for _, i := range front {
			all = append(all, indices[i])
		}
	}
	return all
}

// reference is a point that is worse than all feasible trials, or if there is none than all, by a
// tenth of their range.
func reference(recs []record) []float64 {
	var done []int
	for i := range recs {
		if joins(&recs[i]) {
			done = append(done, i)
		}
	}
	if feasible, _ := feasibleFirst(recs, done); len(feasible) > 0 {
		done = feasible
	}
	return below(objectives(recs, done))
}

// below is a point that is worse than all of the points, by a tenth of their range.
func below(points [][]float64) []float64 {
	if len(points) == 0 {
		return nil
	}
	low, high := slices.Clone(points[0]), slices.Clone(points[0])
	for _, p := range points[1:] {
		for k, x := range p {
			low[k], high[k] = min(low[k], x), max(high[k], x)
		}
	}
	for k := range low {
		by := (high[k] - low[k]) / 10
		if by <= 0 {
			by = max(math.Abs(low[k])/10, 1e-12)
		}
		low[k] -= by
	}
	return low
}

// contributions are the weights of good trials: the hypervolume that each alone adds to that of
// all, as a share of the largest. Trials that violate constraints, and those that others dominate,
// weigh little.
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

// propose returns values for the model's dims, NaN where a parameter is not there. If each is set,
// every parameter has a density of its own.
func (s *MOTPE) propose(m *model, good, rest sample, each bool, given []float64, rng *rand.Rand) []float64 {
	r := ratio{rules: optunaRules, joint: !s.Univariate && !each, candidates: s.Candidates}
	r.rules.joint, r.rules.narrow = 0.05, 4
	if each || r.joint && rng.Float64() < sharpSingle {
		r.joint = false
		r.rules.priorWeight, r.rules.narrow = 0.4, 1.5
	}
	return r.propose(m, good, rest, given, rng)
}

// rowsOf are the values of some of the records.
func rowsOf(recs []record, indices []int) [][]float64 {
	all := make([][]float64, len(indices))
	for i, n := range indices {
		all[i] = recs[n].x
	}
	return all
}

package suggest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// The rules of TPE's densities.
const (
	// Sharp, the zero rules, are Optuna's with half the bandwidth and, for a continuous parameter alone, 0.4 of the
	// prior's weight. On the problems of this package's tests their regret is about half of Optuna's.
	Sharp = ""
	// Optuna's rules are those of Optuna 4.6.
	Optuna = "optuna"
	// Hyperopt's rules are those of Hyperopt 0.3: fewer good trials, another truncation.
	Hyperopt = "hyperopt"
)

// TPE proposes by the tree-structured Parzen estimator (Bergstra et al. 2011): it splits the finished trials into the good
// ones and the rest, fits a density to each, l and g, draws candidates from l, and takes the one with the largest l/g.
//
// Pruned trials rank below complete ones, by the step that they reached and then by value; failed ones are left out. Running
// trials count as not good ones (the constant liar), so that many trials at once spread. A conditional parameter's
// densities come from the trials that had it.
type TPE struct {
	// Univariate fits a density to each parameter alone. Else one joint density is fitted to all parameters that share a
	// condition, which finds out how they depend on each other.
	Univariate bool
	// Rules are Sharp, Optuna or Hyperopt.
	Rules string
	// Startup is the number of finished trials below which proposals are quasi-random. Zero is 10 (Hyperopt: 20).
	Startup int
	// Candidates is the number of draws from l for each proposal. Zero is 24.
	Candidates int
	// PriorWeight is the weight of the prior kernel against an observation's 1. Zero is the rules' own.
	PriorWeight float64
	// Explore is the part of proposals that search within one value of a parameter on which others depend, each value as
	// likely, among the trials that had it. Without it a branch that looks bad at first, since its own parameters were not
	// searched yet, is hardly tried again. Zero is 0.25 with Sharp rules, and none with the others, as those do; below zero is
	// none. Spaces without conditions are not touched.
	Explore float64
	// IgnoreRunning leaves running trials out of both densities.
	IgnoreRunning bool

	reader   reader
	matrices []sobolMatrix
}

// Validate says what is wrong with the fields.
func (t *TPE) Validate() error {
	switch t.Rules {
	case Sharp, Optuna, Hyperopt:
	default:
		return fmt.Errorf("suggest: TPE: rules %q: want %q, %q or %q", t.Rules, Sharp, Optuna, Hyperopt)
	}
	if t.Startup < 0 || t.Candidates < 0 || t.PriorWeight < 0 {
		return fmt.Errorf("suggest: TPE: Startup %d, Candidates %d, PriorWeight %v: want 0 or more", t.Startup, t.Candidates, t.PriorWeight)
	}
	return nil
}

// Suggest implements tune.Suggester.
func (t *TPE) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if err := t.Validate(); err != nil {
		return tune.Params{}, err
	}
	m, recs := t.reader.read(v)
	fixed := v.Fixed(number)
	given := m.given(fixed)
	if finished(recs) < t.startup() {
		return m.params(m.startPoint(recs, given, &t.matrices, v.Seed(), number, rng), fixed)
	}
	search := func(recs []record, given []float64) []float64 {
		good, rest := t.split(recs)
		return m.fresh(recs, given, rng, func() []float64 { return t.propose(m, good, rest, given, rng) })
	}
	within, part := t.branch(m, recs, given, rng)
	x := search(within, part)
	if len(within) < len(recs) && slices.ContainsFunc(within, func(r record) bool { return r.hash == hash(x) }) {
		x = search(recs, given) // all of the branch has been tried
	}
	return m.params(x, fixed)
}

// branch restricts a part of the proposals to the trials with one value of a parameter that others depend on.
func (t *TPE) branch(m *model, recs []record, given []float64, rng *rand.Rand) ([]record, []float64) {
	part := t.Explore
	if part == 0 && t.Rules == Sharp {
		part = 0.25
	}
	var parents []int
	for _, j := range m.parents {
		if math.IsNaN(given[j]) {
			parents = append(parents, j)
		}
	}
	if len(parents) == 0 || rng.Float64() >= part {
		return recs, given
	}
	j := parents[rng.IntN(len(parents))]
	value := float64(rng.IntN(m.dims[j].choices))
	given = slices.Clone(given)
	given[j] = value
	var within []record
	for i := range recs {
		if recs[i].x[j] == value {
			within = append(within, recs[i])
		}
	}
	return within, given
}

// finished counts the trials that the models learn from.
func finished(recs []record) int {
	n := 0
	for i := range recs {
		if recs[i].finished() {
			n++
		}
	}
	return n
}

// below is the number of n finished trials that count as good.
func (t *TPE) below(n int) int {
	if t.Rules == Hyperopt {
		return min(int(math.Ceil(0.25*math.Sqrt(float64(n)))), 25)
	}
	return min((n+9)/10, 25)
}

func (t *TPE) startup() int {
	switch {
	case t.Startup > 0:
		return t.Startup
	case t.Rules == Hyperopt:
		return 20
	}
	return 10
}

func (t *TPE) rules() parzenRules {
	r := optunaRules
	switch {
	case t.Rules == Hyperopt:
		r.hyperopt = true
	case t.Rules == Sharp && t.Univariate:
		r.priorWeight, r.narrow = 0.4, 1.5
	case t.Rules == Sharp:
		r.joint, r.narrow = 0.1, 4
	}
	if t.PriorWeight > 0 {
		r.priorWeight, r.coarseWeight = t.PriorWeight, t.PriorWeight
	}
	return r
}

// split sorts the finished records into good and other ones, each oldest first; running ones are added to the others.
func (t *TPE) split(recs []record) (good, rest [][]float64) {
	var done []int
	for i := range recs {
		if recs[i].finished() {
			done = append(done, i)
		}
	}
	slices.SortStableFunc(done, func(a, b int) int { return recs[a].compare(&recs[b]) })
	isGood := make([]bool, len(recs))
	for _, i := range done[:t.below(len(done))] {
		isGood[i] = true
	}
	for i := range recs {
		switch {
		case isGood[i]:
			good = append(good, recs[i].x)
		case recs[i].finished(), recs[i].state == recordRunning && !t.IgnoreRunning:
			rest = append(rest, recs[i].x)
		}
	}
	return good, rest
}

// propose returns values for the model's dims, NaN where a parameter is not there.
func (t *TPE) propose(m *model, good, rest [][]float64, given []float64, rng *rand.Rand) []float64 {
	x := m.blank()
	for _, group := range m.groups(!t.Univariate) {
		if !m.active(group[0], x) {
			continue
		}
		var free []int
		var dims []*dim
		for _, j := range group {
			if given != nil && !math.IsNaN(given[j]) {
				x[j] = given[j]
				continue
			}
			free, dims = append(free, j), append(dims, m.dims[j])
		}
		if len(free) == 0 {
			continue
		}
		best := t.best(dims, project(good, free), project(rest, free), rng)
		for i, j := range free {
			x[j] = best[i]
		}
	}
	return x
}

// best draws candidates from l and returns the one with the largest log l − log g.
func (t *TPE) best(dims []*dim, good, rest [][]float64, rng *rand.Rand) []float64 {
	l, g := newMixture(dims, good, t.rules()), newMixture(dims, rest, t.rules())
	n := t.Candidates
	if n <= 0 {
		n = 24
	}
	var best []float64
	top := math.Inf(-1)
	el, eg := l.evaluator(), g.evaluator()
	seen := make(map[float64]bool)
	for range n {
		x := l.sample(rng)
		if len(dims) == 1 && dims[0].size() < math.Inf(1) {
			if seen[x[0]] {
				continue
			}
			seen[x[0]] = true
		}
		if v := el.logDensity(x) - eg.logDensity(x); best == nil || v > top {
			best, top = x, v
		}
	}
	return best
}

// project keeps the columns of group, of the rows that have them all.
func project(rows [][]float64, group []int) [][]float64 {
	out := make([][]float64, 0, len(rows))
	flat := make([]float64, 0, len(rows)*len(group))
next:
	for _, row := range rows {
		for _, j := range group {
			if math.IsNaN(row[j]) {
				continue next
			}
		}
		start := len(flat)
		for _, j := range group {
			flat = append(flat, row[j])
		}
		out = append(out, flat[start:len(flat):len(flat)])
	}
	return out
}

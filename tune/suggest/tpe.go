package suggest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// The rules of TPE's densities.
const (
	// Sharp, the zero rules, have kernels as wide as the distance to their neighbours in each
	// parameter, down to a quarter of Optuna's least width, and, for a continuous parameter
	// alone, 0.4 of the prior's weight. Better trials weigh more among the good ones, two in
	// five proposals take a density for each parameter alone, and branches of a conditional
	// space are chosen by what they promise.
	Sharp = ""
	// Optuna's rules are those of Optuna 4.6.
	Optuna = "optuna"
	// Hyperopt's rules are those of Hyperopt 0.3: fewer good trials, another truncation.
	Hyperopt = "hyperopt"
)

// TPE proposes by the tree-structured Parzen estimator (Bergstra et al. 2011): it splits the
// finished trials into the good ones and the rest, fits a density to each, l and g, draws
// candidates from l, and takes the one with the largest l/g.
//
// Pruned trials rank below complete ones, by the step that they reached and then by value; failed
// ones are left out. Running trials count as not good ones (the constant liar), so that many trials
// at once spread. A conditional parameter's densities come from the trials that had it.
type TPE struct {
	// Univariate fits a density to each parameter alone. Else one joint density is fitted to
	// all parameters that share a condition, which finds out how they depend on each other;
	// with Sharp rules to three in five proposals.
	Univariate bool
	// Rules are Sharp, Optuna or Hyperopt.
	Rules string
	// Startup is the number of trials that have finished or run below which proposals are
	// quasi-random; three must have finished. Zero is 10 (Hyperopt: 20).
	Startup int
	// Candidates is the number of draws from l for each proposal. Zero is 24.
	Candidates int
	// PriorWeight is the weight of the prior kernel against an observation's 1. Zero is the
	// rules' own.
	PriorWeight float64
	// Explore is, with Sharp rules, the part of proposals that go to the branch with the
	// largest expected gain, the others going to the branch of the best trial: a branch is what
	// is there under one value of a parameter on which others depend. Zero is 0.5; below zero
	// such a parameter is searched like any other choice.
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
	if t.reader.stepped && t.Rules == Sharp && len(v.Objectives()) == 1 {
		recs = foretoldSteps(recs)
	}
	return t.suggest(m, recs, v, number, rng)
}

// suggest proposes by these records.
func (t *TPE) suggest(m *model, recs []record, v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	fixed := v.Fixed(number)
	given := m.given(fixed)
	if starting(recs, t.startup()) {
		return m.params(m.startPoint(recs, given, &t.matrices, v.Seed(), number, rng), fixed)
	}
	part, within := given, recs
	if t.Rules == Sharp && t.Explore >= 0 {
		part, within = m.branches(recs, given, cmp.Or(t.Explore, branchExplore), rng)
	}
	if len(within) < len(recs) {
		if finished(within) < branchStartup {
			return m.params(m.startPoint(within, part, &t.matrices, v.Seed(), number, rng), fixed)
		}
		if x := t.search(m, within, part, rng); !has(within, hash(m.settle(x))) {
			return m.params(x, fixed)
		}
		// Every setting of the branch has been tried.
	}
	return m.params(t.search(m, recs, given, rng), fixed)
}

// search proposes a point that is likely among the good trials and unlikely among the rest.
func (t *TPE) search(m *model, recs []record, given []float64, rng *rand.Rand) []float64 {
	good, rest := t.split(recs)
	return m.fresh(recs, given, rng, func() []float64 { return t.propose(m, good, rest, given, rng) })
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

// bestOf are the indices of the n best finished records, best first; of equal ones the older.
func bestOf(recs []record, n int) []int {
	top := make([]int, 0, n+1)
	for i := range recs {
		if n == 0 || !recs[i].finished() || len(top) == n && recs[top[n-1]].compare(&recs[i]) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, i, func(o, i int) int {
			if recs[o].compare(&recs[i]) <= 0 {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, i)
		top = top[:min(len(top), n)]
	}
	return top
}

// goodCount is the number of n finished trials that count as good.
func (t *TPE) goodCount(n int) int {
	if t.Rules == Hyperopt {
		return min(int(math.Ceil(0.25*math.Sqrt(float64(n)))), mostGood)
	}
	return min((n+9)/10, mostGood)
}

// startup is the number of random trials before the first proposal, as Optuna and Hyperopt have it.
func (t *TPE) startup() int {
	switch {
	case t.Startup > 0:
		return t.Startup
	case t.Rules == Hyperopt:
		return 20
	}
	return 10
}

// sharpWindow is how many of the trials that are not good Sharp rules look at, the newest ones, so
// that a proposal's cost does not grow with all trials.
const sharpWindow = 500

// sharpSingle is the part of proposals with a density for each parameter alone: these put together
// what different good trials have found, which is best where parameters do not depend on each
// other, as the joint density is where they do.
const sharpSingle = 0.4

// sharpWide is the part of proposals with kernels no narrower than Optuna's once there are mostGood
// good trials: by then these may all lie in one basin of a rugged function, which narrow kernels do
// not leave.
const sharpWide = 0.3

// mostGood is the largest number of trials that count as good.
const mostGood = 25

// rules are how densities are made. joint says that all parameters of a branch have one density
// together.
func (t *TPE) rules(joint bool) parzenRules {
	r := optunaRules
	switch {
	case t.Rules == Hyperopt:
		r.hyperopt = true
	case t.Rules == Sharp && joint:
		r.joint, r.narrow = 0, 4
	case t.Rules == Sharp:
		r.priorWeight, r.narrow = 0.4, 1.5
	}
	if t.PriorWeight > 0 {
		r.priorWeight, r.coarseWeight = t.PriorWeight, t.PriorWeight
	}
	return r
}

// A sample are the values that a density is fitted to, oldest first, with their weights; nil: by
// age.
type sample struct {
	rows    [][]float64
	weights []float64
}

// split divides the finished records into good and other ones; running ones are added to the
// others.
func (t *TPE) split(recs []record) (good, rest sample) {
	top := bestOf(recs, t.goodCount(finished(recs)))
	rank := make(map[int]int, len(top))
	sum := 0.0
	for k, i := range top {
		rank[i] = k + 1
		sum += math.Log(float64(len(top)+1) / float64(k+1))
	}
	for _, i := range slices.Sorted(slices.Values(top)) {
		good.rows = append(good.rows, recs[i].x)
		if t.Rules == Sharp {
			good.weights = append(good.weights, math.Log(float64(len(top)+1)/float64(rank[i]))*float64(len(top))/sum)
		}
	}
	for i := len(recs) - 1; i >= 0 && (t.Rules != Sharp || len(rest.rows) < sharpWindow); i-- {
		if rank[i] == 0 && (recs[i].finished() || recs[i].state == recordRunning && !t.IgnoreRunning) {
			rest.rows = append(rest.rows, recs[i].x)
		}
	}
	slices.Reverse(rest.rows)
	return good, rest
}

// propose returns values for the model's dims, NaN where a parameter is not there.
func (t *TPE) propose(m *model, good, rest sample, given []float64, rng *rand.Rand) []float64 {
	joint := !t.Univariate
	if joint && t.Rules == Sharp && rng.Float64() < sharpSingle {
		joint = false
	}
	rules := t.rules(joint)
	if t.Rules == Sharp && len(good.rows) >= mostGood && rng.Float64() < sharpWide {
		rules.narrow = 1
	}
	return ratio{rules, joint, t.Candidates}.propose(m, good, rest, given, rng)
}

// A ratio says how a proposal is chosen by the ratio of two densities.
type ratio struct {
	rules parzenRules
	// joint says that dims which are there together have one density.
	joint bool
	// candidates are how many are drawn; zero is 24.
	candidates int
}

// propose fits densities l to the good trials and g to the rest, of each group of dims, and takes
// from l what has the largest l/g. It returns values for the model's dims, NaN where a parameter is
// not there.
func (r ratio) propose(m *model, good, rest sample, given []float64, rng *rand.Rand) []float64 {
	x := m.blank()
	for _, group := range m.groups(r.joint) {
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
		best := bestRatio(dims, good.project(free), rest.project(free), r.rules, r.candidates, rng)
		for i, j := range free {
			x[j] = best[i]
		}
	}
	return x
}

// bestRatio draws candidates from l and returns the one with the largest log l − log g.
func bestRatio(dims []*dim, good, rest sample, rules parzenRules, candidates int, rng *rand.Rand) []float64 {
	l, g := newMixture(dims, good.rows, good.weights, rules), newMixture(dims, rest.rows, rest.weights, rules)
	if candidates <= 0 {
		candidates = 24
	}
	var best []float64
	top := math.Inf(-1)
	el, eg := l.evaluator(), g.evaluator()
	seen := make(map[float64]bool)
	for range candidates {
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
func (s sample) project(group []int) sample {
	out := sample{rows: make([][]float64, 0, len(s.rows))}
	flat := make([]float64, 0, len(s.rows)*len(group))
	if s.weights != nil {
		out.weights = make([]float64, 0, len(s.rows))
	}
next:
	for i, row := range s.rows {
		for _, j := range group {
			if math.IsNaN(row[j]) {
				continue next
			}
		}
		start := len(flat)
		for _, j := range group {
			flat = append(flat, row[j])
		}
		out.rows = append(out.rows, flat[start:len(flat):len(flat)])
		if s.weights != nil {
			out.weights = append(out.weights, s.weights[i])
		}
	}
	return out
}

package suggest

import (
	"math"
	"math/rand/v2"
	"slices"
)

// parzenRules are the constants of a Parzen estimator.
type parzenRules struct {
	// priorWeight is the prior kernel's weight against 1 of an observation, for one continuous
	// dim.
	priorWeight float64
	// coarseWeight is the same for a stepped dim, a choice, or several dims.
	coarseWeight float64
	// joint makes sigma joint·n^(−1/(d+4))·(hi−lo) for several dims. Zero is the distance to
	// the neighbours in each dim.
	joint float64
	// narrow makes sigma at least (hi−lo)/min(100, narrow·(2+n)). For a stepped dim it counts
	// as 1.
	narrow float64
	// hyperopt truncates the mixture as a whole, and gives a single observation half the range
	// as sigma.
	hyperopt bool
	// ramp is how many of the newest observations weigh 1. Older ones' weights fall linearly to
	// 1/n.
	ramp int
}

// optunaRules are those of Optuna 4.6.
var optunaRules = parzenRules{priorWeight: 1, coarseWeight: 1, joint: 0.2, narrow: 1, ramp: 25}

// A mixture is a weighted sum of product kernels over some dims: one kernel around each observation
// and one, the last, for the prior (Bergstra et al. 2011, Algorithms for Hyper-Parameter
// Optimization, section 4).
//
// A numeric factor is a normal around mu with sigma, truncated to the dim's wide bounds. The
// density of a stepped dim is the mass of the value's cell, of a choice a table.
type mixture struct {
	dims []*dim
	// weight has for each component its share; they sum to 1.
	weight []float64
	// factors has one for each dim.
	factors []factor
	rules   parzenRules
}

// A factor has the kernels' parts in one dim.
type factor struct {
	// mu and sigma are those of a numeric dim's components, in inner units.
	mu, sigma []float64
	// scale is log of 1/(sigma·√(2π)·mass inside the bounds), for a stepped dim log(1/mass).
	scale []float64
	// class is the observed choice of a choice dim. The prior's is the number of choices.
	class []int
	// table has the log probability of each choice, for each class of a choice dim.
	table [][]float64
	// lo and hi are the wide bounds: half a step beyond the values, where there are steps.
	lo, hi float64
}

// observationWeights has 1 for each of n observations, oldest first; beyond the newest ramp ones
// the weights fall linearly from 1 to 1/n.
func observationWeights(n, ramp int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	if n <= ramp || ramp <= 0 {
		return w
	}
	m := n - ramp
	first := 1 / float64(n)
	for i := range m {
		if m == 1 {
			w[i] = first
		} else {
			w[i] = first + (1-first)*float64(i)/float64(m-1)
		}
	}
	return w
}

// newMixture fits the estimator to observations, oldest first; row[j] is the value in dims[j]. With
// more than one dim the sigmas are those of joint sampling, rules.joint·n^(−1/(d+4))·(hi−lo), or
// the distances between the observations. Weights, if not nil, are those of the observations, of
// mean 1.
func newMixture(dims []*dim, obs [][]float64, weights []float64, rules parzenRules) *mixture {
	n := len(obs)
	if weights == nil {
		weights = observationWeights(n, rules.ramp)
	}
	m := &mixture{dims: dims, rules: rules, factors: make([]factor, len(dims))}
	prior := rules.coarseWeight
	if len(dims) == 1 && dims[0].choices == 0 && dims[0].step == 0 {
		prior = rules.priorWeight
	}
	m.weight = append(slices.Clip(weights), prior)
	sum := 0.0
	for _, w := range m.weight {
		sum += w
	}
	for i := range m.weight {
		m.weight[i] /= sum
	}
	for j, d := range dims {
		f := &m.factors[j]
		if d.choices > 0 {
			f.choice(d, obs, j, prior)
			continue
		}
		f.numeric(d, obs, j, rules, len(dims) > 1, len(dims))
	}
	return m
}

// choice fills the factor of a choice: kernel i has (prior/(n+1) + [c = x_i]), normalised; the
// prior is uniform.
func (f *factor) choice(d *dim, obs [][]float64, j int, prior float64) {
	n, k := len(obs), d.choices
	f.class = make([]int, n+1)
	for i, row := range obs {
		f.class[i] = min(max(int(row[j]), 0), k-1)
	}
	f.class[n] = k
	base := prior / float64(n+1)
	total := base*float64(k) + 1
	f.table = make([][]float64, k+1)
	for c := range f.table {
		row := make([]float64, k)
		for i := range row {
			switch {
			case c == k:
				row[i] = -math.Log(float64(k))
			case c == i:
				row[i] = math.Log((base + 1) / total)
			default:
				row[i] = math.Log(base / total)
			}
		}
		f.table[c] = row
	}
}

func (f *factor) numeric(d *dim, obs [][]float64, j int, rules parzenRules, joint bool, numDims int) {
	n := len(obs)
	f.lo, f.hi = d.wide()
	mid, width := (f.lo+f.hi)/2, f.hi-f.lo
	if d.normal() {
		mid, width = d.mean, d.sd
	}
	f.mu = make([]float64, n+1)
	for i, row := range obs {
		f.mu[i] = d.inner(row[j])
	}
	f.mu[n] = mid
	f.sigma = make([]float64, n+1)
	switch {
	case joint && rules.joint == 0:
		// A component without a neighbour is as wide as the range.
		f.sigma[0] = width
		f.neighbours(n)
	case joint:
		s := rules.joint * math.Pow(float64(max(n, 1)), -1/float64(numDims+4)) * width
		for i := range f.sigma {
			f.sigma[i] = s
		}
	case rules.hyperopt && n == 1:
		f.sigma[0] = width / 2
	default:
		f.neighbours(n + 1)
	}
	narrow := rules.narrow
	if d.step > 0 {
		narrow = 1
	}
	least := width / min(100, narrow*float64(2+n))
	for i := range n {
		f.sigma[i] = min(max(f.sigma[i], least), width)
	}
	f.sigma[n] = width
	f.scale = make([]float64, n+1)
	for i, s := range f.sigma {
		mass := normalMass((f.lo-f.mu[i])/s, (f.hi-f.mu[i])/s)
		if rules.hyperopt {
			// The mass within the bounds is divided out over the whole mixture.
			mass = 1
		}
		if mass != 1 {
			f.scale[i] = -math.Log(mass)
		}
		if d.step == 0 {
			f.scale[i] -= math.Log(s) + logSqrt2Pi
		}
	}
}

// neighbours sets each of the first n sigmas to the larger distance to the two sorted neighbours;
// the outermost ones have only the inner neighbour.
func (f *factor) neighbours(n int) {
	if n < 2 {
		return
	}
	type at struct {
		mu float64
		i  int
	}
	order := make([]at, n)
	for i, mu := range f.mu[:n] {
		order[i] = at{mu, i}
	}
	slices.SortFunc(order, func(a, b at) int {
		// This is far quicker than cmp.Or, and a good part of a proposal's time.
		switch {
		case a.mu < b.mu:
			return -1
		case a.mu > b.mu:
			return 1
		}
		return a.i - b.i
	})
	for p, o := range order {
		left, right := 0.0, 0.0
		if p > 0 {
			left = o.mu - order[p-1].mu
		}
		if p < n-1 {
			right = order[p+1].mu - o.mu
		}
		f.sigma[o.i] = max(left, right)
	}
}

func logSumExp(terms []float64) float64 {
	top := math.Inf(-1)
	for _, t := range terms {
		top = max(top, t)
	}
	if math.IsInf(top, 0) {
		return top
	}
	sum := 0.0
	for _, t := range terms {
		// What is below e⁻⁴⁰ of the largest does not move the sum.
		if t -= top; t > -40 {
			sum += math.Exp(t)
		}
	}
	return top + math.Log(sum)
}

// sample draws one point, in values: a kernel by weight, then each dim from its truncated normal or
// table.
func (m *mixture) sample(rng *rand.Rand) []float64 {
	u, k := rng.Float64(), len(m.weight)-1
	for i, w := range m.weight {
		if u < w {
			k = i
			break
		}
		u -= w
	}
	x := make([]float64, len(m.dims))
	for j, d := range m.dims {
		f := &m.factors[j]
		if d.choices > 0 {
			v := rng.Float64()
			c := d.choices - 1
			for i, lp := range f.table[f.class[k]] {
				if p := math.Exp(lp); v < p {
					c = i
					break
				} else {
					v -= p
				}
			}
			x[j] = float64(c)
			continue
		}
		a, b := normalCDF((f.lo-f.mu[k])/f.sigma[k]), normalCDF((f.hi-f.mu[k])/f.sigma[k])
		z := normalQuantile(a + rng.Float64()*(b-a))
		x[j] = d.value(min(max(f.mu[k]+f.sigma[k]*z, f.lo), f.hi))
	}
	return x
}

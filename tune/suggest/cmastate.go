package suggest

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// A cmaState is the distribution m + σ·N(0, C), with C = B·D²·Bᵀ.
type cmaState struct {
	d, lambda, restarts, generation int
	mean, pc, ps                    []float64
	sigma                           float64
	c, b                            *mat.Dense
	// scale is the diagonal of D, where C = B·D²·Bᵀ.
	scale []float64
}

// newCMAState is the distribution before the first population: a ball around the mean.
func newCMAState(d, lambda int, mean []float64, sigma float64) *cmaState {
	s := &cmaState{d: d, lambda: lambda, mean: slices.Clone(mean), sigma: sigma,
		pc: make([]float64, d), ps: make([]float64, d), scale: make([]float64, d), c: mat.NewDense(d, d, nil), b: mat.NewDense(d, d, nil)}
	for i := range d {
		s.c.Set(i, i, 1)
		s.b.Set(i, i, 1)
		s.scale[i] = 1
	}
	return s
}

// whiten is C^(−1/2)·y.
func (s *cmaState) whiten(y []float64) []float64 {
	t, out := make([]float64, s.d), make([]float64, s.d)
	for k := range s.d {
		for i := range s.d {
			t[k] += s.b.At(i, k) * y[i]
		}
		t[k] /= s.scale[k]
	}
	for i := range s.d {
		for k := range s.d {
			out[i] += s.b.At(i, k) * t[k]
		}
	}
	return out
}

// norm2 is the Euclidean length.
func norm2(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// cmaWeights are the recombination weights of a population, best first, and the learning rates
// (Hansen's tutorial, table 1). Weights of the worse half are negative (equations 49 to 53); muEff
// is the variance-effective size, cSigma and dSigma are those of the step size (55), cc, c1 and cMu
// those of the covariance (56 to 58).
func cmaWeights(d, lambda int) (w []float64, muEff, cSigma, dSigma, cc, c1, cMu float64) {
	n := float64(d)
	w = make([]float64, lambda)
	var sum, sum2, neg, neg2 float64
	for i := range w {
		w[i] = math.Log(float64(lambda+1)/2) - math.Log(float64(i+1))
		if i < lambda/2 {
			sum, sum2 = sum+w[i], sum2+w[i]*w[i]
		} else {
			neg, neg2 = neg-w[i], neg2+w[i]*w[i]
		}
	}
	muEff = sum * sum / sum2
	cSigma = (muEff + 2) / (n + muEff + 5)
	dSigma = 1 + 2*max(0, math.Sqrt((muEff-1)/(n+1))-1) + cSigma
	cc = (4 + muEff/n) / (n + 4 + 2*muEff/n)
	c1 = 2 / ((n+1.3)*(n+1.3) + muEff)
	cMu = min(1-c1, 2*(muEff-2+1/muEff)/((n+2)*(n+2)+muEff))
	muNeg := neg * neg / max(neg2, 1e-300)
	alpha := min(1+c1/max(cMu, 1e-300), 1+2*muNeg/(muEff+2), (1-c1-cMu)/(n*max(cMu, 1e-300)))
	for i := range w {
		if i < lambda/2 {
			w[i] /= sum
		} else if neg > 0 {
			w[i] *= alpha / neg
		}
	}
	return w, muEff, cSigma, dSigma, cc, c1, cMu
}

// tell folds one population, best first, into the state (tutorial, equations 41 to 47): the mean
// moves by the weighted step, the paths remember where it went, and step size and covariance follow
// the paths.
func (s *cmaState) tell(points [][]float64) {
	w, muEff, cSigma, dSigma, cc, c1, cMu := cmaWeights(s.d, len(points))
	n := float64(s.d)
	s.generation++
	p := s.fold(points, w)
	for i := range p.step {
		s.mean[i] = min(max(s.mean[i]+s.sigma*p.step[i], 0), 1)
	}
	white := s.whiten(p.step)
	for i := range s.ps {
		s.ps[i] = (1-cSigma)*s.ps[i] + math.Sqrt(cSigma*(2-cSigma)*muEff)*white[i]
	}
	// chi is the expected length of a standard normal vector.
	chi := math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))
	length := norm2(s.ps)
	// h stops the covariance's path while the step size's is long: the covariance must not grow
	// along a way that the step size makes up for.
	h := 0.0
	if length/math.Sqrt(1-math.Pow(1-cSigma, 2*float64(s.generation))) < (1.4+2/(n+1))*chi {
		h = 1
	}
	for i := range s.pc {
		s.pc[i] = (1-cc)*s.pc[i] + h*math.Sqrt(cc*(2-cc)*muEff)*p.step[i]
	}
	total := 0.0
	for k := range w {
		total += w[k]
	}
	s.adapt(p, w, 1+c1*(1-h)*cc*(2-cc)-c1-cMu*total, c1, cMu)
	s.sigma *= math.Exp(min(1, cSigma/dSigma*(length/chi-1)))
	s.sigma = min(s.sigma, 0.6)
	s.decompose()
}

// A cmaPopulation is a population as steps from the mean, in units of sigma.
type cmaPopulation struct {
	// ys are the steps, best first, and lengths their whitened lengths.
	ys      [][]float64
	lengths []float64
	// step is the weighted mean of the steps with positive weights.
	step []float64
}

// fold makes steps of points. One that is too far is shortened to √n + 2n/(n+2) of its whitened
// length, since a trial may be drawn from a distribution that has moved on since (Hansen 2011,
// Injecting External Solutions Into CMA-ES). A value that a point does not have (NaN) is no step.
func (s *cmaState) fold(points [][]float64, w []float64) *cmaPopulation {
	n := float64(s.d)
	far := math.Sqrt(n) + 2*n/(n+2)
	p := &cmaPopulation{make([][]float64, len(points)), make([]float64, len(points)), make([]float64, s.d)}
	for k, x := range points {
		y := make([]float64, s.d)
		for i := range y {
			if y[i] = (x[i] - s.mean[i]) / s.sigma; math.IsNaN(x[i]) {
				y[i] = 0
			}
		}
		length := norm2(s.whiten(y))
		if length > far {
			for i := range y {
				y[i] *= far / length
			}
			length = far
		}
		p.ys[k], p.lengths[k] = y, length
		if w[k] <= 0 {
			continue
		}
		for i := range y {
			p.step[i] += w[k] * y[i]
		}
	}
	return p
}

// adapt is the update of the covariance by its path (c1) and the population (cMu). The covariance
// before counts by keep.
func (s *cmaState) adapt(p *cmaPopulation, w []float64, keep, c1, cMu float64) {
	n := float64(s.d)
	for i := range s.d {
		for j := range i + 1 {
			v := keep*s.c.At(i, j) + c1*s.pc[i]*s.pc[j]
			for k, y := range p.ys {
				wk := w[k]
				if wk < 0 {
					// Negative weights are scaled by the length of their step,
					// which keeps the covariance positive definite (tutorial,
					// equation 46).
					wk *= n / max(p.lengths[k]*p.lengths[k], 1e-12)
				}
				v += cMu * wk * y[i] * y[j]
			}
			s.c.Set(i, j, v)
			s.c.Set(j, i, v)
		}
	}
}

// decompose sets B and D from C.
func (s *cmaState) decompose() {
	sym := mat.NewSymDense(s.d, nil)
	for i := range s.d {
		for j := range i + 1 {
			sym.SetSym(i, j, s.c.At(i, j))
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, true) {
		return
	}
	var b mat.Dense
	eig.VectorsTo(&b)
	s.b = &b
	for i, v := range eig.Values(nil) {
		s.scale[i] = math.Sqrt(max(v, 1e-20))
	}
}

// converged reports whether the distribution has become a point, or too flat to sample from.
func (s *cmaState) converged() bool {
	top, low := slices.Max(s.scale), slices.Min(s.scale)
	return s.sigma*top < 1e-6 || top > 1e7*low || math.IsNaN(s.sigma)
}

// sample draws one point of the unit cube; a coordinate outside is drawn again with the point, at
// last cut.
func (s *cmaState) sample(least []float64, rng *rand.Rand) []float64 {
	x := make([]float64, s.d)
	for try := range 20 {
		z := make([]float64, s.d)
		for k := range z {
			z[k] = rng.NormFloat64() * s.scale[k]
		}
		inside := true
		for i := range x {
			y := 0.0
			for k := range z {
				y += s.b.At(i, k) * z[k]
			}
			sd := s.sigma * math.Sqrt(max(s.c.At(i, i), 0))
			x[i] = s.mean[i] + s.sigma*y
			// A stepped value must stay within reach of its neighbours.
			if extra := least[i]*least[i] - sd*sd; extra > 0 {
				x[i] += math.Sqrt(extra) * rng.NormFloat64()
			}
			inside = inside && x[i] >= 0 && x[i] < 1
		}
		if inside || try == 19 {
			break
		}
	}
	for i := range x {
		x[i] = min(max(x[i], 0), 1-1e-12)
	}
	return x
}

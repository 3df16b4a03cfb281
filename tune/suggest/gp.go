package suggest

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/paragon-train/paragon/tune/internal/bfgs"
)

// gpTheta are a Gaussian process's hyper-parameters, as logarithms: one length scale for each
// input, the kernel's amplitude, and the noise's standard deviation.
type gpTheta []float64

// A gp is a Gaussian process with a Matérn-5/2 kernel and one length scale for each input
// (Rasmussen and Williams 2006, chapters 2 and 4), conditioned on points x with values y of mean 0
// and variance about 1.
type gp struct {
	theta gpTheta
	x     [][]float64
	chol  mat.Cholesky
	// y are the sets of values.
	y [][]float64
	// alpha is K⁻¹·y of each set.
	alpha []*mat.VecDense
}

// matern is the kernel without amplitude at scaled distance r, and −k'(r)/r.
func matern(r float64) (k, slope float64) {
	s := math.Sqrt(5) * r
	e := math.Exp(-s)
	return (1 + s + s*s/3) * e, 5.0 / 3 * (1 + s) * e
}

// distance is the scaled distance of two points.
func (t gpTheta) distance(a, b []float64, inverse []float64) float64 {
	sum := 0.0
	for i := range a {
		d := gap(a[i], b[i]) * inverse[i]
		sum += d * d
	}
	return math.Sqrt(sum)
}

// gap is the distance in one input, at most 1: numbers are in [0, 1], and choices, whose inputs are
// whole numbers, are all as far from each other.
func gap(a, b float64) float64 { return min(math.Abs(a-b), 1) }

// inverseScales are the inverse length scales.
func (t gpTheta) inverseScales() []float64 {
	inv := make([]float64, len(t)-2)
	for i := range inv {
		inv[i] = math.Exp(-t[i])
	}
	return inv
}

// variance is the kernel's at distance 0.
func (t gpTheta) variance() float64 { return math.Exp(2 * t[len(t)-2]) }

// noise is the variance of one value. It has a floor, which keeps the covariance positive definite
// where points repeat.
func (t gpTheta) noise() float64 { return math.Exp(2*t[len(t)-1]) + 1e-8 }

// noiseShare is the noise's part of a value's variance.
func (t gpTheta) noiseShare() float64 { return t.noise() / (t.noise() + t.variance()) }

// A maternValue is what matern returns for a pair of points.
type maternValue struct{ k, slope float64 }

// covariance is K + noise, and the kernels of the pairs (i, j < i) without amplitude.
func (t gpTheta) covariance(x [][]float64) (*mat.SymDense, []maternValue) {
	k := mat.NewSymDense(len(x), nil)
	pairs := make([]maternValue, 0, len(x)*(len(x)-1)/2)
	inv, v := t.inverseScales(), t.variance()
	for i := range x {
		for j := range i {
			m, slope := matern(t.distance(x[i], x[j], inv))
			k.SetSym(i, j, v*m)
			pairs = append(pairs, maternValue{m, slope})
		}
		k.SetSym(i, i, v+t.noise())
	}
	return k, pairs
}

// Priors of the hyper-parameters' logarithms: normal, with these means and standard deviations.
// Scales of about half the cube, mostly little noise; wide enough that some ten points overrule
// them.
const (
	gpScaleMean, gpScaleSD = -0.7, 0.9
	gpAmpMean, gpAmpSD     = 0, 0.7
	gpNoiseMean, gpNoiseSD = -4, 2
)

// gpPrior is the negative logarithm of the priors' density, up to a constant, and adds its
// gradient.
func gpPrior(t gpTheta, grad []float64) float64 {
	sum := 0.0
	for i, v := range t {
		mean, sd := gpScaleMean, gpScaleSD
		switch i {
		case len(t) - 2:
			mean, sd = gpAmpMean, gpAmpSD
		case len(t) - 1:
			mean, sd = gpNoiseMean, gpNoiseSD
		}
		z := (v - mean) / sd
		sum += 0.5 * z * z
		if grad != nil {
			grad[i] += z / sd
		}
	}
	return sum
}

// loss is the negative log marginal likelihood (Rasmussen and Williams, equation 5.8) plus the
// priors' terms, up to a constant; grad, if not nil, is overwritten with its gradient (equation
// 5.9).
func (t gpTheta) loss(x [][]float64, y []float64, grad []float64) float64 {
	n := len(x)
	for i := range grad {
		grad[i] = 0
	}
	var chol mat.Cholesky
	k, pairs := t.covariance(x)
	if !chol.Factorize(k) {
		return math.Inf(1)
	}
	var alpha mat.VecDense
	if err := chol.SolveVecTo(&alpha, mat.NewVecDense(n, y)); err != nil && math.IsInf(chol.Cond(), 0) {
		return math.Inf(1)
	}
	loss := 0.5*mat.Dot(mat.NewVecDense(n, y), &alpha) + 0.5*chol.LogDet()
	if grad == nil {
		return loss + gpPrior(t, nil)
	}
	var inverse mat.SymDense
	if err := chol.InverseTo(&inverse); err != nil && math.IsInf(chol.Cond(), 0) {
		return math.Inf(1)
	}
	d := len(t) - 2
	inv, v := t.inverseScales(), t.variance()
	for i := range n {
		ai := alpha.AtVec(i)
		for j := range i {
			// ∂loss/∂K_ij, counted for both halves.
			w := inverse.At(i, j) - ai*alpha.AtVec(j)
			pair := pairs[0]
			pairs = pairs[1:]
			grad[d] += w * 2 * v * pair.k
			for p := range d {
				q := gap(x[i][p], x[j][p]) * inv[p]
				grad[p] += w * v * pair.slope * q * q
			}
		}
		w := 0.5 * (inverse.At(i, i) - ai*ai)
		grad[d] += w * 2 * v
		grad[d+1] += w * 2 * math.Exp(2*t[d+1])
	}
	return loss + gpPrior(t, grad)
}

// fitGP finds the hyper-parameters of least loss from a few fixed starts.
func fitGP(x [][]float64, y []float64) gpTheta {
	d := len(x[0])
	var best gpTheta
	top := math.Inf(1)
	for _, from := range []struct{ scale, noise float64 }{{-0.7, gpNoiseMean}, {-1.6, gpNoiseMean}, {-0.7, -1}} {
		start := make(gpTheta, d+2)
		for i := range d {
			start[i] = from.scale
		}
		start[d], start[d+1] = 0, from.noise
		at, f := bfgs.Minimise(func(v, g []float64) float64 { return gpTheta(v).loss(x, y, g) }, start, 25)
		if f < top {
			best, top = at, f
		}
	}
	if best == nil {
		best = make(gpTheta, d+2)
		for i := range d {
			best[i] = gpScaleMean
		}
		best[d+1] = gpNoiseMean
	}
	return best
}

// newGP conditions on x with one or more sets of values.
func newGP(theta gpTheta, x [][]float64, ys ...[]float64) *gp {
	g := &gp{theta: theta, x: x}
	k, _ := theta.covariance(x)
	for jitter := 1e-8; !g.chol.Factorize(k) && jitter < 1; jitter *= 10 {
		for i := range x {
			k.SetSym(i, i, k.At(i, i)+jitter)
		}
	}
	g.values(ys...)
	return g
}

func (g *gp) values(ys ...[]float64) {
	g.y, g.alpha = ys, g.alpha[:0]
	for _, y := range ys {
		a := mat.NewVecDense(len(y), nil)
		// The error of a bad condition is a warning, and the noise bounds the condition.
		_ = g.chol.SolveVecTo(a, mat.NewVecDense(len(y), y))
		g.alpha = append(g.alpha, a)
	}
}

// meansAtPoints are the posterior means at the process's points, for one set of values. K·α is y −
// noise·α, since (K + noise)·α is y.
func (g *gp) meansAtPoints(set int) []float64 {
	out := slices.Clone(g.alpha[set].RawVector().Data)
	noise := g.theta.noise()
	for i, a := range out {
		out[i] = g.y[set][i] - noise*a
	}
	return out
}

// least are the smallest posterior means at the process's points, one for each set of values: what
// is known to be reached where values have noise.
func (g *gp) least() []float64 {
	out := make([]float64, len(g.alpha))
	for s := range out {
		out[s] = slices.Min(g.meansAtPoints(s))
	}
	return out
}

// A gpPredictor evaluates one process at many points without taking memory for each.
type gpPredictor struct {
	g    *gp
	inv  []float64
	v    float64
	k, w []float64
	l    *mat.TriDense
	raw  []float64
	// means are the posterior means at the last point, one for each set of values.
	means []float64
}

func (g *gp) predictor() *gpPredictor {
	n := len(g.x)
	p := &gpPredictor{g: g, inv: g.theta.inverseScales(), v: g.theta.variance(), k: make([]float64, n), w: make([]float64, n),
		means: make([]float64, len(g.alpha)), l: mat.NewTriDense(n, mat.Lower, nil)}
	g.chol.LTo(p.l)
	p.raw = p.l.RawTriangular().Data
	return p
}

// at sets means and returns the standard deviation of the noiseless function at x.
func (p *gpPredictor) at(x []float64) float64 {
	n := len(p.k)
	for i, xi := range p.g.x {
		m, _ := matern(p.g.theta.distance(x, xi, p.inv))
		p.k[i] = p.v * m
	}
	for s, a := range p.g.alpha {
		sum := 0.0
		for i, ai := range a.RawVector().Data {
			sum += p.k[i] * ai
		}
		p.means[s] = sum
	}
	variance := p.v
	// This solves L·w = k.
	for i := range n {
		sum := p.k[i]
		row := p.raw[i*n : i*n+i]
		for j, lij := range row {
			sum -= lij * p.w[j]
		}
		w := sum / p.raw[i*n+i]
		p.w[i] = w
		variance -= w * w
	}
	return math.Sqrt(max(variance, 1e-12))
}

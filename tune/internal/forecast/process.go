package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/paragon-train/paragon/tune/internal/bfgs"
)

// theta are a process's hyper-parameters, as logarithms: one length scale for each input, the
// kernel's amplitude, and the noise's standard deviation.
type theta []float64

// variance is the kernel's at distance 0.
func (t theta) variance() float64 { return math.Exp(2 * t[len(t)-2]) }

// noise is the variance of one value. It has a floor, which keeps the covariance positive definite
// where points repeat.
func (t theta) noise() float64 { return math.Exp(2*t[len(t)-1]) + 1e-8 }

// inverseScales are the inverse length scales.
func (t theta) inverseScales() []float64 {
	inv := make([]float64, len(t)-2)
	for i := range inv {
		inv[i] = math.Exp(-t[i])
	}
	return inv
}

// matern is the Matérn-5/2 kernel without amplitude at scaled distance r, and −k'(r)/r.
func matern(r float64) (k, slope float64) {
	s := math.Sqrt(5) * r
	e := math.Exp(-s)
	return (1 + s + s*s/3) * e, 5.0 / 3 * (1 + s) * e
}

// gap is the distance in one input, at most 1.
func gap(a, b float64) float64 { return min(math.Abs(a-b), 1) }

// distance is the scaled distance of two points.
func distance(a, b, inverse []float64) float64 {
	sum := 0.0
	for i, s := range inverse {
		d := gap(a[i], b[i]) * s
		sum += d * d
	}
	return math.Sqrt(sum)
}

// A Process is a Gaussian process with a Matérn-5/2 kernel and one length scale for each input
// (Rasmussen and Williams 2006, chapters 2 and 4), conditioned on points with one or more sets of
// values, to which points can be added.
type Process struct {
	theta theta
	inv   []float64
	x     [][]float64
	noise []float64
	// exact says which values are known but for the noise.
	exact []bool
	// rows are those of the Cholesky factor of K + noise.
	rows [][]float64
	// y are the sets of values, and v is L⁻¹·y of each.
	y, v [][]float64
}

// newProcess is one without points, with memory for size of them.
func newProcess(t theta, size int) *Process {
	return &Process{theta: t, inv: t.inverseScales(), x: make([][]float64, 0, size), rows: make([][]float64, 0, size),
		y: make([][]float64, 1), v: make([][]float64, 1)}
}

// copies is a copy with sets times the same values.
func (p *Process) copies(sets int) *Process {
	out := &Process{theta: p.theta, inv: p.inv, x: slices.Clone(p.x), noise: slices.Clone(p.noise), exact: slices.Clone(p.exact), rows: slices.Clone(p.rows)}
	for range sets {
		out.y, out.v = append(out.y, slices.Clone(p.y[0])), append(out.v, slices.Clone(p.v[0]))
	}
	return out
}

// solve sets w to L⁻¹·k.
func (p *Process) solve(w, k []float64) {
	for i, row := range p.rows {
		w[i] = (k[i] - floats.Dot(row[:i], w[:i])) / row[i]
	}
}

// kernels sets k to the covariances of x with the process's points.
func (p *Process) kernels(k, x []float64) {
	v := p.theta.variance()
	for i, xi := range p.x {
		m, _ := matern(distance(x, xi, p.inv))
		k[i] = v * m
	}
}

// Add conditions on one more point with a value for each set, or one for all, known with a standard
// deviation of its own beside the noise.
func (p *Process) Add(x []float64, deviation float64, values ...float64) {
	n := len(p.rows)
	row, k := make([]float64, n+1), make([]float64, n)
	p.kernels(k, x)
	p.solve(row, k)
	noise := p.theta.noise() + deviation*deviation
	row[n] = math.Sqrt(max(p.theta.variance()+noise-floats.Dot(row[:n], row[:n]), 1e-9))
	for s := range p.v {
		y := values[min(s, len(values)-1)]
		p.y[s] = append(p.y[s], y)
		p.v[s] = append(p.v[s], (y-floats.Dot(row[:n], p.v[s]))/row[n])
	}
	p.x, p.noise, p.rows, p.exact = append(p.x, x), append(p.noise, noise), append(p.rows, row), append(p.exact, deviation == 0)
}

// Incumbents are the largest posterior means, one for each set, at the points whose value is known
// but for the noise: what is known to be reached.
func (p *Process) Incumbents() []float64 {
	out := make([]float64, len(p.v))
	for s := range out {
		means := p.meansAtPoints(s)
		out[s] = math.Inf(-1)
		for i, mean := range means {
			if p.exact[i] {
				out[s] = max(out[s], mean)
			}
		}
		if math.IsInf(out[s], -1) {
			out[s] = slices.Max(means)
		}
	}
	return out
}

// meansAtPoints are the posterior means at the process's points: with K·α = y − noise·α.
func (p *Process) meansAtPoints(set int) []float64 {
	a := slices.Clone(p.v[set])
	for i := len(a) - 1; i >= 0; i-- {
		a[i] /= p.rows[i][i]
		floats.AddScaled(a[:i], -a[i], p.rows[i][:i])
	}
	for i := range a {
		a[i] = p.y[set][i] - p.noise[i]*a[i]
	}
	return a
}

// A Predictor evaluates a process at many points without taking memory for each. Points that are
// added later are not seen.
type Predictor struct {
	p           *Process
	k, w, means []float64
}

// Predictor returns one.
func (p *Process) Predictor() *Predictor {
	return &Predictor{p: p, k: make([]float64, len(p.x)), w: make([]float64, len(p.x)), means: make([]float64, len(p.v))}
}

// At returns the posterior means at x, one for each set and good until the next call, and the
// standard deviation of the function without noise.
func (q *Predictor) At(x []float64) (means []float64, deviation float64) {
	q.p.kernels(q.k, x)
	q.p.solve(q.w, q.k)
	for s, v := range q.p.v {
		q.means[s] = floats.Dot(q.w, v)
	}
	return q.means, math.Sqrt(max(q.p.theta.variance()-floats.Dot(q.w, q.w), 1e-12))
}

// Priors of the hyper-parameters' logarithms: normal, with these means and standard deviations, as
// those of package suggest.
const (
	scaleMean, scaleDeviation = -0.7, 0.9
	ampMean, ampDeviation     = 0, 0.7
	noiseMean, noiseDeviation = -4, 2
)

// prior is the negative logarithm of the priors' density, up to a constant, and adds its gradient.
func prior(t theta, grad []float64) float64 {
	sum := 0.0
	for i, v := range t {
		mean, sd := scaleMean, scaleDeviation
		switch i {
		case len(t) - 2:
			mean, sd = ampMean, ampDeviation
		case len(t) - 1:
			mean, sd = noiseMean, noiseDeviation
		}
		z := (v - mean) / sd
		sum += 0.5 * z * z
		grad[i] += z / sd
	}
	return sum
}

// A fitting has the memory for the loss of hyper-parameters.
type fitting struct {
	// gaps has the squared distances of the pairs (i, j < i), for each input.
	gaps     [][]float64
	y, noise []float64
	// l and inv are lower triangles: the Cholesky factor of the covariance, and its inverse.
	l, inv [][]float64
	// k and slope have the kernel of each pair, as matern returns it.
	k, slope []float64
	// alpha is the inverse covariance times y, once factor and solveBack have run.
	alpha []float64
}

// newFitting takes the memory for points x with values y.
func newFitting(x [][]float64, y, noise []float64) *fitting {
	n := len(x)
	f := &fitting{y: y, noise: noise, alpha: make([]float64, n), k: make([]float64, n*(n-1)/2), slope: make([]float64, n*(n-1)/2)}
	for i := range x {
		f.l, f.inv = append(f.l, make([]float64, i+1)), append(f.inv, make([]float64, i+1))
		for j := range i {
			squares := make([]float64, len(x[i]))
			for p := range squares {
				d := gap(x[i][p], x[j][p])
				squares[p] = d * d
			}
			f.gaps = append(f.gaps, squares)
		}
	}
	return f
}

// loss is the negative log marginal likelihood (Rasmussen and Williams, equation 5.8) plus the
// priors' terms, up to a constant; grad is overwritten with its gradient (equation 5.9).
func (f *fitting) loss(t theta, grad []float64) float64 {
	clear(grad)
	scales := t.inverseScales()
	for i := range scales {
		scales[i] *= scales[i]
	}
	logDet, ok := f.factor(t, scales)
	if !ok {
		return math.Inf(1)
	}
	// alpha is L⁻¹·y here, so that its square is yᵀ·K⁻¹·y.
	loss := 0.5*floats.Dot(f.alpha, f.alpha) + 0.5*logDet
	f.solveBack()
	f.invert()
	f.addGradient(t, grad)
	for p := range scales {
		grad[p] *= scales[p]
	}
	return loss + prior(t, grad)
}

// factor sets l to the lower Cholesky factor of the covariance K of the points, alpha to L⁻¹·y, and
// k and slope to what the gradient needs of the kernel. It returns the logarithm of K's
// determinant. ok is false if K is not positive definite in the numbers' precision. scales are the
// squares of the inverse length scales.
func (f *fitting) factor(t theta, scales []float64) (logDet float64, ok bool) {
	v, noise := t.variance(), t.noise()
	at := 0
	for i := range f.y {
		row := f.l[i]
		for j := range i {
			f.k[at], f.slope[at] = matern(math.Sqrt(floats.Dot(f.gaps[at], scales)))
			row[j] = (v*f.k[at] - floats.Dot(row[:j], f.l[j][:j])) / f.l[j][j]
			at++
		}
		pivot := v + noise + f.noise[i] - floats.Dot(row[:i], row[:i])
		if !(pivot > 0) {
			return 0, false
		}
		row[i] = math.Sqrt(pivot)
		logDet += 2 * math.Log(row[i])
		f.alpha[i] = (f.y[i] - floats.Dot(row[:i], f.alpha[:i])) / row[i]
	}
	return logDet, true
}

// solveBack turns alpha from L⁻¹·y into K⁻¹·y.
func (f *fitting) solveBack() {
	for i := len(f.y) - 1; i >= 0; i-- {
		f.alpha[i] /= f.l[i][i]
		floats.AddScaled(f.alpha[:i], -f.alpha[i], f.l[i][:i])
	}
}

// invert sets inv to the lower triangle of K⁻¹, which is L⁻ᵀ·L⁻¹. Both factors take turns in inv,
// so that nothing is allocated.
func (f *fitting) invert() {
	for i := range f.y {
		row := f.inv[i]
		clear(row)
		for k := range i {
			floats.AddScaled(row[:k+1], -f.l[i][k], f.inv[k])
		}
		floats.Scale(1/f.l[i][i], row[:i])
		row[i] = 1 / f.l[i][i]
	}
	for i := range f.y {
		// Row i of the product needs only rows k ≥ i, which are still those of L⁻¹.
		own := f.inv[i][i]
		floats.Scale(own, f.inv[i])
		for k := i + 1; k < len(f.y); k++ {
			floats.AddScaled(f.inv[i], f.inv[k][i], f.inv[k][:i+1])
		}
	}
}

// addGradient adds ½·tr((K⁻¹ − α·αᵀ)·∂K/∂θ) to grad for each hyper-parameter θ, the length scales'
// without the factor that is the same for all pairs of points. The matrices are symmetric, so each
// pair off the diagonal counts twice.
func (f *fitting) addGradient(t theta, grad []float64) {
	d, v := len(t)-2, t.variance()
	at := 0
	for i := range f.y {
		ai := f.alpha[i]
		for j := range i {
			w := f.inv[i][j] - ai*f.alpha[j]
			grad[d] += w * 2 * v * f.k[at]
			floats.AddScaled(grad[:d], w*v*f.slope[at], f.gaps[at])
			at++
		}
		w := 0.5 * (f.inv[i][i] - ai*ai)
		grad[d] += w * 2 * v
		grad[d+1] += w * 2 * math.Exp(2*t[d+1])
	}
}

// fitTheta finds the hyper-parameters of least loss from a few fixed starts. noise are the points'
// own variances.
func fitTheta(x [][]float64, y, noise []float64, inputs int) theta {
	start := func(scale, noise float64) theta {
		t := make(theta, inputs+2)
		for i := range inputs {
			t[i] = scale
		}
		t[inputs+1] = noise
		return t
	}
	best := start(scaleMean, noiseMean)
	if len(x) < 2 {
		return best
	}
	f, top := newFitting(x, y, noise), math.Inf(1)
	for _, from := range []theta{start(scaleMean, noiseMean), start(scaleMean, -1), start(-1.6, noiseMean)} {
		if at, loss := bfgs.Minimise(func(v, g []float64) float64 { return f.loss(v, g) }, from, 20); loss < top {
			best, top = at, loss
		}
	}
	return best
}

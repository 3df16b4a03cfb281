package schedule

import "math"

// A curve is the start of a learning curve: scores (larger is better) at increasing steps.
type curve struct {
	step, score []float64
}

// An outlook is what a score may be at a later step: a mixture of normals.
type outlook struct {
	weight, mean, sd []float64
}

// above is the probability that the score is above x.
func (f *outlook) above(x float64) float64 {
	p := 0.0
	for i, w := range f.weight {
		p += w * 0.5 * math.Erfc((x-f.mean[i])/f.sd[i]/math.Sqrt2)
	}
	return p
}

// expected is the mean.
func (f *outlook) expected() float64 {
	sum := 0.0
	for i, w := range f.weight {
		sum += w * f.mean[i]
	}
	return sum
}

// shapes are how curves may approach their end: by e^(−rate·t), as most loss and accuracy curves do
// for a while, and by (1+t)^(−power), for those with a long tail. Time is counted in steps; curves
// much longer than some hundred steps are scaled down first.
var (
	expRates   = []float64{1.2, 0.8, 0.55, 0.4, 0.28, 0.2, 0.14, 0.1, 0.07, 0.05, 0.03, 0.015}
	powerRates = []float64{0.3, 0.5, 0.8, 1.2, 2}
)

// extrapolate says what the score may be at the step horizon, by averaging models y = a + b·φ(t) +
// noise over the shapes φ and over noise levels, each weighted by its likelihood (a and b have wide
// normal priors, and are integrated out).
//
// It follows Domhan, Springenberg and Hutter (2015), Speeding Up Automatic Hyperparameter
// Optimization by Extrapolation of Learning Curves, with models that need no sampling.
func extrapolate(c curve, horizon float64) outlook {
	n := len(c.step)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, y := range c.score {
		lo, hi = min(lo, y), max(hi, y)
	}
	spread := max(hi-lo, 1e-6*max(math.Abs(hi), math.Abs(lo)), 1e-12)
	last := c.score[n-1]
	// Reports that are far apart, or very many, are their own unit.
	if unit := c.step[0]; unit > 1 || c.step[n-1] > 500 {
		unit = max(unit, c.step[n-1]/500)
		scaled := curve{score: c.score}
		for _, t := range c.step {
			scaled.step = append(scaled.step, t/unit)
		}
		c, horizon = scaled, horizon/unit
	}
	var f outlook
	var logs []float64
	top := math.Inf(-1)
	add := func(phi func(t float64) float64) {
		fit := newFit(c, phi, horizon, last)
		for _, noise := range []float64{0.01, 0.05, 0.2} {
			mean, variance, evidence := fit.forecast(20*spread, noise*spread)
			f.mean = append(f.mean, mean)
			f.sd = append(f.sd, math.Sqrt(variance))
			logs = append(logs, evidence)
			top = max(top, evidence)
		}
	}
	for _, r := range expRates {
		add(func(t float64) float64 { return math.Exp(-r * t) })
	}
	for _, p := range powerRates {
		add(func(t float64) float64 { return math.Pow(1+t, -p) })
	}
	sum := 0.0
	for _, l := range logs {
		w := math.Exp(l - top)
		f.weight = append(f.weight, w)
		sum += w
	}
	for i := range f.weight {
		f.weight[i] /= sum
	}
	return f
}

// A fit has the sums that regression of y on (1, φ(t)) needs.
type fit struct{ s0, s1, s2, t0, t1, yy, last, ph float64 }

// newFit adds up the points of a curve, with values counted from last and phi at the horizon.
func newFit(c curve, phi func(float64) float64, horizon, last float64) fit {
	f := fit{last: last, ph: phi(horizon)}
	for i, t := range c.step {
		p, y := phi(t), c.score[i]-last
		f.s0, f.s1, f.s2 = f.s0+1, f.s1+p, f.s2+p*p
		f.t0, f.t1, f.yy = f.t0+y, f.t1+p*y, f.yy+y*y
	}
	return f
}

// forecast is Bayesian linear regression in closed form (Bishop 2006, equations 3.50 to 3.58 and
// 3.86): the mean and variance of y at the horizon, and the log evidence. The prior of both weights
// is normal around (last, 0) with the standard deviation prior.
func (f fit) forecast(prior, noise float64) (mean, variance, evidence float64) {
	alpha, beta := 1/(prior*prior), 1/(noise*noise)
	a00, a01, a11 := alpha+beta*f.s0, beta*f.s1, alpha+beta*f.s2
	det := a00*a11 - a01*a01
	m0, m1 := beta*(a11*f.t0-a01*f.t1)/det, beta*(a00*f.t1-a01*f.t0)/det
	mean = f.last + m0 + m1*f.ph
	variance = noise*noise + (a11-2*a01*f.ph+a00*f.ph*f.ph)/det
	misfit := beta*(f.yy-2*(m0*f.t0+m1*f.t1)+m0*m0*f.s0+2*m0*m1*f.s1+m1*m1*f.s2) + alpha*(m0*m0+m1*m1)
	evidence = math.Log(alpha) + 0.5*f.s0*math.Log(beta) - 0.5*misfit - 0.5*math.Log(det)
	return mean, max(variance, 1e-300), evidence
}

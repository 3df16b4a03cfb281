package adapt

import "math"

// Floors of a group's averages, as in AdaScale's reference implementation: the estimates are
// unbiased and so may be negative.
const (
	minSqr = 0
	minVar = 1e-6
)

// Noise is what is known of the gradient at the initial batch size M0: Sqr = ‖G‖², the squared norm
// of the true gradient, and Var = tr(Cov)/M0, the variance of a gradient over M0 examples. Both are
// estimates without bias, so either may be negative; the methods take at least 0 for Sqr and at
// least 1e-6 for Var.
type Noise struct{ Sqr, Var float64 }

// floored are the values that gain and noise scale are computed from: finite, and neither below its
// floor.
func (n Noise) floored() (sqr, variance float64) {
	// Sums of a few of large do not overflow.
	const large = math.MaxFloat64 / 8
	if n.Sqr > minSqr {
		sqr = min(n.Sqr, large)
	}
	variance = minVar
	if n.Var > minVar {
		variance = min(n.Var, large)
	}
	return sqr, variance
}

// Gain is AdaScale's gain ratio (arXiv 2007.05105, equation 3): one step with a batch of scale·M0
// makes as much progress as so many steps with M0.
//
//	r(S) = (Var + Sqr) / (Var/S + Sqr)
//
// It lies in [1, S] for S ≥ 1, and in [S, 1] below. A scale that is not positive has the gain 0.
func (n Noise) Gain(scale float64) float64 {
	if !(scale > 0) {
		return 0
	}
	sqr, variance := n.floored()
	r := (variance + sqr) / (variance/scale + sqr)
	// Rounding may leave the interval.
	return min(max(r, min(scale, 1)), max(scale, 1))
}

// Efficiency is the progress of an example in a batch of scale·M0, with 1 for M0: Gain(S)/S, which
// is (φ + M0)/(φ + S·M0) with the noise scale φ (arXiv 2008.12260, equation 7). A scale that is not
// positive has the efficiency 0.
func (n Noise) Efficiency(scale float64) float64 {
	if !(scale > 0) || math.IsInf(scale, 1) {
		return 0
	}
	return n.Gain(scale) / scale
}

// LargestScale is the largest scale whose efficiency is at least this, which lies above 0 and not
// above 1: φ/M0·(1/e − 1) + 1/e. It is +Inf where nothing but noise was seen.
func (n Noise) LargestScale(efficiency float64) float64 {
	sqr, variance := n.floored()
	if sqr == 0 {
		return math.Inf(1)
	}
	return float64(variance/sqr*(1/efficiency-1)) + 1/efficiency
}

// Scale is the gradient noise scale φ = M0·Var/Sqr in examples (arXiv 1812.06162, equation 2.9):
// the batch size at which the noise is as large as the gradient. It is +Inf where nothing but noise
// was seen.
func (n Noise) Scale(initialBatch int) float64 {
	sqr, variance := n.floored()
	if sqr == 0 {
		return math.Inf(1)
	}
	return float64(initialBatch) * variance / sqr
}

// Total is the noise of all parameter groups together: norms and variances add up, each group's not
// below its floor.
func Total(groups ...Noise) (total Noise) {
	for _, g := range groups {
		sqr, variance := g.floored()
		total.Sqr += sqr
		total.Var += variance
	}
	return total
}

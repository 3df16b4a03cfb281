package forecast

import "math"

// A Curve is what a trial has shown.
type Curve struct {
	// X are the parameters as inputs: numbers in [0, 1], and choices as whole numbers, which
	// are all as far from each other.
	X []float64
	// Steps are increasing, with a score each, larger is better. Scores that are not finite are
	// left out.
	Steps  []int
	Scores []float64
	// Ended says that the trial trained to its end, with the score Final: -Inf if it diverged.
	Ended bool
	Final float64
}

// Last is the newest step, 0 before the first.
func (c *Curve) Last() int {
	if len(c.Steps) == 0 {
		return 0
	}
	return c.Steps[len(c.Steps)-1]
}

// A Normal is a prediction.
type Normal struct{ Mean, Deviation float64 }

// Above is the probability of more than x.
func (n Normal) Above(x float64) float64 {
	return 0.5 * math.Erfc((x-n.Mean)/(n.Deviation*math.Sqrt2))
}

// times is the normalised product of two normal densities, of which the other one may have no
// width.
func (n Normal) times(o Normal) Normal {
	n.Deviation, o.Deviation = max(n.Deviation, 1e-9), max(o.Deviation, 1e-9)
	a, b := 1/(n.Deviation*n.Deviation), 1/(o.Deviation*o.Deviation)
	return Normal{(a*n.Mean + b*o.Mean) / (a + b), math.Sqrt(1 / (a + b))}
}

// spread is the mean and the standard deviation, at least a little above 0.
func spread(values []float64) (mean, deviation float64) {
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		deviation += (x - mean) * (x - mean) / float64(len(values))
	}
	if deviation = math.Sqrt(deviation); !(deviation > 1e-12*math.Abs(mean)+1e-300) {
		deviation = 1
	}
	return mean, deviation
}

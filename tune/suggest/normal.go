package suggest

import "math"

const (
	sqrt2 = math.Sqrt2
	// logSqrt2Pi is log √(2π).
	logSqrt2Pi = 0.91893853320467274178
)

// normalCDF is Φ(x), the standard normal distribution function.
func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/sqrt2) }

// normalPDF is φ(x), the standard normal density.
func normalPDF(x float64) float64 { return math.Exp(-0.5*x*x - logSqrt2Pi) }

// normalQuantile is Φ⁻¹(p); ±Inf at p = 0 and 1.
func normalQuantile(p float64) float64 { return -sqrt2 * math.Erfcinv(2*p) }

// normalMass is Φ(b)−Φ(a) for a ≤ b, computed in the tail where the two are small numbers, so that
// cells far above the mean keep their digits.
func normalMass(a, b float64) float64 {
	if a > 0 {
		a, b = -b, -a
	}
	if a < -8.5 && b > 8.5 {
		// The value is 1 to the last bit.
		return 1
	}
	return normalCDF(b) - normalCDF(a)
}

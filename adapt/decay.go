package adapt

import "math"

// All workers compute noise, gain, factors of the learning rate and progress for themselves, and
// must get the same bits, also where they run on different architectures. So the files with these
// functions write float64(x*y) where a product is added: Go may otherwise fuse the two operations,
// and does on arm64. Of package math they use what IEEE 754 defines to the bit: Sqrt, but not Pow,
// Exp or Log.

// decay is smoothing^scale, for a smoothing in [0, 1) and a scale above 0. The whole part of the
// scale is done by squaring, the fraction by one square root for each of its binary digits.
func decay(smoothing, scale float64) float64 {
	whole, rest := math.Modf(scale)
	power := 1.0
	for base := smoothing; whole > 0 && power > 0; base *= base {
		half := math.Floor(whole / 2)
		if half != whole/2 {
			power *= base
		}
		whole = half
	}
	// one is the largest number below 1: its root is itself.
	const one = 1 - 1.0/(1<<53)
	for root := math.Sqrt(smoothing); rest > 0 && root < one; root = math.Sqrt(root) {
		if rest *= 2; rest >= 1 {
			power *= root
			rest--
		}
	}
	return power
}

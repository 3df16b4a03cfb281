package f32

import "math"

// An Update holds the numbers of an optimizer's update that are the same for all elements. Its
// methods are the rules; each reads those of the numbers that its formula names. All arrays of a
// call have the length of value; grad is not changed.
//
// With w an element of value, d of grad, λ Decay, η Rate, μ Momentum and ε Epsilon, the gradient
// that a rule sees is
//
//	g = min(max(Scale·d, −Clip), Clip)·Shrink
//
// Rules that square the gradient (Adam, Adagrad, RMSProp, FTRL, Lamb) take one beyond ±2⁶⁰ for
// ±2⁶⁰: float32 could not hold its square, and what they divide by grows as the gradient does.
// Their sums of squares stop at the largest float32. A gradient that is not finite makes the value
// NaN.
//
// Every product and sum is rounded by itself, with no fused multiply-add: an element's result is
// the same bits on every path and wherever the arrays are cut.
type Update struct {
	Scale, Clip, Shrink float32 // Clip may be +Inf
	Rate                float32
	Decay               float32
	Momentum            float32

	// Factor multiplies a step along the velocity m, and not m.
	Factor float32

	Beta1, Rest1 float32 // β₁ and 1 − β₁

	// Beta2 and Rest2 are β₂ and 1 − β₂, or RMSProp's ρ and 1 − ρ.
	Beta2, Rest2 float32

	Correction float32 // 1/(1 − β₁ᵗ)
	Root       float32 // 1/√(1 − β₂ᵗ)
	Epsilon    float32

	// Keep is 1 − ηλ where decay is apart from the gradient, else 1.
	Keep float32

	Inverse float32 // 1/η, for FTRL
	Beta    float32
	L1      float32
}

// squarable is the largest gradient that is squared as it is: 256 such squares fit a float32's
// range.
const squarable = 1 << 60

// Ascend sets w ← w + ηg.
func (u *Update) Ascend(value, grad []float32) {
	same2("Ascend", len(value), len(value), len(grad))
	n := u.ascendWide(kernels.tile.path, value, grad)
	u.ascendPortable(value[n:], grad[n:])
}

// SGD sets w ← w − η(g + λw).
func (u *Update) SGD(value, grad []float32) {
	same2("SGD", len(value), len(value), len(grad))
	n := u.sgdWide(kernels.tile.path, value, grad)
	u.sgdPortable(value[n:], grad[n:])
}

// MomentumSGD sets m ← μm − η(g + λw), w ← w + Factor·m.
func (u *Update) MomentumSGD(value, grad, m []float32) {
	same2("MomentumSGD", len(value), len(grad), len(m))
	n := u.momentumWide(kernels.tile.path, value, grad, m)
	u.momentumPortable(value[n:], grad[n:], m[n:])
}

// Nesterov sets m ← μm − η(g + λw), w ← w + Factor·μm − Factor·η(g + λw).
func (u *Update) Nesterov(value, grad, m []float32) {
	same2("Nesterov", len(value), len(grad), len(m))
	n := u.nesterovWide(kernels.tile.path, value, grad, m)
	u.nesterovPortable(value[n:], grad[n:], m[n:])
}

// Adam sets, with h = g + λw, m ← β₁m + (1−β₁)h, v ← β₂v + (1−β₂)h², w ← Keep·w − ηm/(√v·Root + ε).
// Rate holds the correction of m.
func (u *Update) Adam(value, grad, mean, variance []float32) {
	same("Adam", len(value), len(grad), len(mean), len(variance))
	n := u.adamWide(kernels.tile.path, value, grad, mean, variance)
	u.adamPortable(value[n:], grad[n:], mean[n:], variance[n:])
}

// Adagrad sets, with h = g + λw, s ← s + h², w ← w − ηh/(√s + ε).
func (u *Update) Adagrad(value, grad, sum []float32) {
	same2("Adagrad", len(value), len(grad), len(sum))
	n := u.adagradWide(kernels.tile.path, value, grad, sum)
	u.adagradPortable(value[n:], grad[n:], sum[n:])
}

// RMSProp sets, with h = g + λw, s ← ρs + (1−ρ)h², x = ηh/(√s + ε), w ← w − x. With mean it is
// √max(s − a², 0) under the bar, a ← ρa + (1−ρ)h; with m it is m ← μm − x, w ← w + Factor·m. Both
// may be nil.
func (u *Update) RMSProp(value, grad, square, mean, m []float32) {
	same2("RMSProp", len(value), len(grad), len(square))
	if mean != nil {
		same2("RMSProp", len(value), len(value), len(mean))
	}
	if m != nil {
		same2("RMSProp", len(value), len(value), len(m))
	}
	n := u.rmspropWide(kernels.tile.path, value, grad, square, mean, m)
	if mean != nil {
		mean = mean[n:]
	}
	if m != nil {
		m = m[n:]
	}
	u.rmspropPortable(value[n:], grad[n:], square[n:], mean, m)
}

// FTRL sets s ← z + g − (√(n+g²) − √n)·Inverse·w and then n ← n + g², z ← s, w ← (min(max(s, −L1),
// L1) − s) / ((Beta + √n)·Inverse + λ): exactly 0 where |s| ≤ L1.
func (u *Update) FTRL(value, grad, z, n []float32) {
	same("FTRL", len(value), len(grad), len(z), len(n))
	done := u.ftrlWide(kernels.tile.path, value, grad, z, n)
	u.ftrlPortable(value[done:], grad[done:], z[done:], n[done:])
}

// Lamb sets m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², w ← w − ηr with r = Correction·m/(√v·Root + ε) +
// λw.
func (u *Update) Lamb(value, grad, mean, variance []float32) {
	same("Lamb", len(value), len(grad), len(mean), len(variance))
	n := u.lambWide(kernels.tile.path, value, grad, mean, variance)
	u.lambPortable(value[n:], grad[n:], mean[n:], variance[n:])
}

// Sums of squares go to 16 sums by index mod 16, which are added up in halves, so that they too are
// the same on every path.
const numSums = 16

// LambSquares is Σr² for the r that Lamb would take. It changes nothing.
func (u *Update) LambSquares(value, grad, mean, variance []float32) float64 {
	same("LambSquares", len(value), len(grad), len(mean), len(variance))
	var sums [numSums]float64
	n := u.lambSquaresWide(kernels.tile.path, &sums, value, grad, mean, variance)
	u.lambSquaresPortable(&sums, value[n:], grad[n:], mean[n:], variance[n:])
	return total(&sums)
}

// Squares is Σx² over x = min(max(Scale·d, −Clip), Clip), in float64.
func (u *Update) Squares(grad []float32) float64 {
	var sums [numSums]float64
	n := u.squaresWide(kernels.tile.path, &sums, grad)
	u.squaresPortable(&sums, grad[n:])
	return total(&sums)
}

// Squares is Σx², in float64.
func Squares(x []float32) float64 {
	u := Update{Scale: 1, Clip: float32(math.Inf(1))}
	return u.Squares(x)
}

func total(sums *[numSums]float64) float64 {
	for half := numSums / 2; half > 0; half /= 2 {
		for i := range half {
			sums[i] += sums[i+half]
		}
	}
	return sums[0]
}

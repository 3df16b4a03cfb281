package f32

import "math"

var negativeInfinity = float32(math.Inf(-1))

// expPart numbers are summed in float32, in several lanes; parts are added in float64.
const expPart = 2048

// ExpSum sets dst = exp(x−shift) and returns the sum of dst, in one pass: a part of a softmax, with
// the largest x as shift. It adds like Sum. An x of −∞ gives 0 where shift is finite.
func ExpSum(dst, x []float32, shift float32) float32 {
	same2("ExpSum", len(dst), len(dst), len(x))
	sum, n := expSumWide(kernels.tile.path, dst, x, shift)
	total := float64(sum)
	for i, v := range x[n:] {
		e := math.Exp(float64(v - shift))
		dst[n+i] = float32(e)
		total += e
	}
	return float32(total)
}

// SumExp is Σ exp(x−shift). Many values are summed by parts.
func SumExp(x []float32, shift float32) float64 {
	total := 0.0
	for len(x) > 0 {
		part := x[:min(expPart, len(x))]
		sum, n := sumExpWide(kernels.tile.path, part, shift)
		total += float64(sum)
		for _, v := range part[n:] {
			total += math.Exp(float64(v - shift))
		}
		x = x[len(part):]
	}
	return total
}

// ScaledExp sets dst = scale·exp(x−shift) + offset.
func ScaledExp(dst, x []float32, shift, scale, offset float32) {
	same2("ScaledExp", len(dst), len(dst), len(x))
	n := scaledExpWide(kernels.tile.path, dst, x, shift, scale, offset)
	for i, v := range x[n:] {
		dst[n+i] = scale*float32(math.Exp(float64(v-shift))) + offset
	}
}

// MaxSumExp is the largest x and Σ exp(x−top), of at least one value. The sum is NaN if one is, if
// one is +∞, and if all are −∞.
func MaxSumExp(x []float32) (top float32, sum float64) {
	top = Max(x)
	return top, SumExp(x, top)
}

// LogSumExp is log Σ exp(x) of at least one value, without overflow. It is NaN where MaxSumExp is.
func LogSumExp(x []float32) float64 {
	top, sum := MaxSumExp(x)
	return float64(top) + math.Log(sum)
}

// Softmax sets dst = exp(x) / Σ exp(x), without overflow. Where LogSumExp(x) is NaN all are.
func Softmax(dst, x []float32) {
	same2("Softmax", len(dst), len(dst), len(x))
	if len(x) == 0 {
		return
	}
	top, total := Max(x), 0.0
	for at := 0; at < len(x); at += expPart {
		end := min(at+expPart, len(x))
		total += float64(ExpSum(dst[at:end], x[at:end], top))
	}
	kernels.scale(dst, float32(1/total), dst)
}

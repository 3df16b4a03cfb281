package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// depthwiseCase makes pixels, channels and taps, with the arrays that they reach.
func depthwiseCase(r *rand.Rand, channels, pixels int) DepthwiseArgs {
	a := DepthwiseArgs{Channels: channels, Pixels: pixels, OutStep: channels * (1 + r.IntN(2)), InStep: channels * (1 + r.IntN(2))}
	taps := 1 + r.IntN(9)
	for t := range taps {
		a.Taps = append(a.Taps, [2]int{channels * r.IntN(5), channels * t})
	}
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	a.Out, a.In, a.W = fill(pixels*a.OutStep), fill(pixels*a.InStep+5*channels), fill(taps*channels)
	return a
}

func TestDepthwiseIsPortables(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	close := func(what string, got, want []float32) {
		t.Helper()
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-5*(1+math.Abs(float64(want[i])))) {
				t.Fatalf("%s[%d] is %g, want %g", what, i, got[i], want[i])
			}
		}
	}
	onPaths(t, func(t *testing.T) {
		for _, channels := range []int{1, 4, 7, 8, 16, 24, 32, 40, 67} {
			for pixels := 1; pixels < 11; pixels++ {
				a := depthwiseCase(r, channels, pixels)
				for _, a.Add = range []bool{false, true} {
					want, got := a, a
					want.Out, got.Out = append([]float32(nil), a.Out...), append([]float32(nil), a.Out...)
					depthwisePortable(&want, 0)
					Depthwise(&got)
					close("out", got.Out, want.Out)
				}
				want, got := a, a
				want.W, got.W = append([]float32(nil), a.W...), append([]float32(nil), a.W...)
				depthwiseWeightPortable(&want, 0)
				DepthwiseWeight(&got)
				close("w", got.W, want.W)
			}
		}
	})
}

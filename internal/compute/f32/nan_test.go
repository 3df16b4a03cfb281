package f32

import (
	"math"
	"testing"
)

// through is what the gradient of a ReLU with result y makes of dy.
func through(dy, y float32) float32 {
	switch {
	case y != y || dy != dy:
		return float32(math.NaN())
	case y > 0:
		return dy
	}
	return 0
}

// A NaN in a gradient, or in the result of a ReLU, comes out of the ReLU's gradient on all paths
// and in all fused forms, so that whoever looks at gradients sees it. Infinities behind a ReLU that
// lets nothing through stay away.
func TestAGradientThroughReLUKeepsNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{nan, -1, 0, 2, inf, float32(math.Copysign(0, -1))}
	alike := func(t *testing.T, what string, i int, got, want float32) {
		t.Helper()
		if got != want && (got == got || want == want) {
			t.Errorf("%s of element %d is %g, want %g", what, i, got, want)
		}
	}
	onPaths(t, func(t *testing.T) {
		// c is the number of channels: rows of parts of a vector, of one, of some, and of both.
		for _, c := range []int{5, 16, 48, 67} {
			for _, dyv := range special {
				for _, yv := range special {
					if yv == inf {
						// Inf times a coefficient is not what is asked here.
						continue
					}
					n := 3 * c
					dy, x, y, dx := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
					for i := range dy {
						dy[i], x[i], y[i] = 0.5, 0.25, 1
					}
					for i := c; i < 2*c; i++ { // the middle row
						dy[i], y[i] = dyv, yv
					}
					h := func(v []float32) []uint16 {
						out := make([]uint16, len(v))
						ToBFloat16(out, v)
						return out
					}
					stored := make([]uint16, n)
					ReLUGrad(dx, dy, y)
					ReLUGradBFloat16(stored, h(dy), h(y))
					for i := range dx {
						alike(t, "ReLUGrad", i, dx[i], through(dy[i], y[i]))
						alike(t, "ReLUGrad of bfloat16", i, BFloat16Value(stored[i]), through(dy[i], y[i]))
					}
					p, zero := make([]float32, c), make([]float32, c)
					for k := range p {
						p[k] = 2
					}
					NormGrad(dx, dy, x, y, p, zero, zero)
					NormGradBFloat16(stored, h(dy), h(x), h(y), p, zero, zero)
					for i := range dx {
						alike(t, "NormGrad", i, dx[i], 2*through(dy[i], y[i]))
						alike(t, "NormGrad of bfloat16", i, BFloat16Value(stored[i]), 2*through(dy[i], y[i]))
					}
					for _, half := range []bool{false, true} {
						sum, product := make([]float64, c), make([]float64, c)
						if half {
							ChannelGradSumsBFloat16(sum, product, h(dy), h(x), h(y), zero)
						} else {
							ChannelGradSums(sum, product, dy, x, y, zero)
						}
						for k := range sum {
							want := 1 + through(dyv, yv)
							alike(t, "ChannelGradSums", k, float32(sum[k]), want)
							alike(t, "ChannelGradSums with x", k, float32(product[k]), want/4)
						}
					}
				}
			}
		}
	})
}

// An infinite number of x is not hidden by a ReLU that lets nothing through: 0·∞ is NaN in all
// channels, whichever loop sums them.
func TestAnInfiniteInputShowsInGradientSums(t *testing.T) {
	const infinite = 0xff80 // −∞ in bfloat16
	onPaths(t, func(t *testing.T) {
		for _, c := range []int{5, 16, 48, 67} { // as in TestAGradientThroughReLUKeepsNaN
			n := 3 * c
			dy, x, y, center := make([]uint16, n), make([]uint16, n), make([]uint16, n), make([]float32, c)
			for i := range dy {
				dy[i], x[i], y[i] = 0x3f80, 0x3f80, 0x3f80 // 1
			}
			for i := c; i < 2*c; i++ { // the middle row
				x[i], y[i] = infinite, 0
			}
			wide := func(h []uint16) []float32 {
				f := make([]float32, n)
				FromBFloat16(f, h)
				return f
			}
			for _, half := range []bool{false, true} {
				sum, product := make([]float64, c), make([]float64, c)
				if half {
					ChannelGradSumsBFloat16(sum, product, dy, x, y, center)
				} else {
					ChannelGradSums(sum, product, wide(dy), wide(x), wide(y), center)
				}
				for k := range product {
					if product[k] == product[k] || sum[k] != 2 {
						t.Errorf("bfloat16 %v, channel %d of %d: got sums %v and %v, want 2 and NaN", half, k, c, sum[k], product[k])
					}
				}
			}
		}
	})
}

// Forward, a NaN comes out of ReLU, of what it is fused with, of max pooling and of casts.
func TestForwardKernelsKeepNaN(t *testing.T) {
	nan := float32(math.NaN())

	// Rounding it like a number would make it infinite.
	payload := math.Float32frombits(0x7f800001)

	// largest would become zero by rounding.
	largest := math.Float32frombits(0xffffffff)
	onPaths(t, func(t *testing.T) {
		for _, n := range []int{1, 16, 37, 64} {
			for _, v := range []float32{nan, payload, largest} {
				x, y, one, zero, chosen := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]uint8, n)
				for i := range x {
					x[i], one[i], y[i] = v, 1, 3
				}
				hx, hy := make([]uint16, n), make([]uint16, n)
				check := func(what string, run func()) {
					t.Helper()
					run()
					for i := range y {
						if y[i] == y[i] {
							t.Errorf("%s of a NaN is %g at %d of %d", what, y[i], i, n)
						}
						y[i] = 3
					}
				}
				wide := func() { FromBFloat16(y, hy) }
				ToBFloat16(hx, x)
				check("ReLU", func() { ReLU(y, x) })
				check("ScaleShift", func() { ScaleShift(y, x, one, zero, true) })
				check("ScaleShiftAdd", func() { ScaleShiftAdd(y, zero, x, one, zero, true) })
				check("MaxWhich", func() { MaxWhich(y, chosen, x, 1) })
				check("MaxWhich after a NaN", func() { copy(y, x); MaxWhich(y, chosen, one, 2) })
				check("a cast to bfloat16", func() { FromBFloat16(y, hx) })
				check("a cast to float16", func() { ToFloat16(hy, x); FromFloat16(y, hy) })
				check("ReLU of bfloat16", func() { ReLUBFloat16(hy, hx); wide() })
				check("ScaleShift of bfloat16", func() { ScaleShiftBFloat16(hy, hx, nil, one, zero, true); wide() })
				check("ScaleShiftAdd of bfloat16", func() { ScaleShiftBFloat16(hy, make([]uint16, n), hx, one, zero, true); wide() })
				check("MaxWhich of bfloat16", func() { ToBFloat16(hy, one); MaxWhichBFloat16(hy, chosen, hx, 1); wide() })
			}
		}
	})
}

package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// softmaxes calls f for matrices of some sizes on every path.
func softmaxes(t *testing.T, f func(t *testing.T, r *rand.Rand, rows, cols int)) {
	onPaths(t, func(t *testing.T) {
		for _, cols := range []int{1, 8, 16, 32, 33} {
			for _, rows := range []int{0, 1, 2, 3, 7, 96} {
				f(t, rand.New(rand.NewPCG(uint64(rows), uint64(cols))), rows, cols)
			}
		}
	})
}

func TestColumnsAreThoseOfTheFormulas(t *testing.T) {
	softmaxes(t, func(t *testing.T, r *rand.Rand, rows, cols int) {
		what := fmt.Sprintf("%d rows of %d", rows, cols)
		x, all := guarded(r, rows*cols)
		dx, allGrads := guarded(r, rows*cols)
		most, sum, shift, delta := normal(r, cols), normal(r, cols), normal(r, cols), normal(r, cols)
		for i := range x {
			x[i] *= 12
			if r.IntN(9) == 0 {
				x[i] = float32(math.Inf(-1))
			}
		}
		grads, sums := append([]float32(nil), dx...), append([]float32(nil), sum...)
		want := func(i int) float64 {
			e := 1.5*float64(x[i]) - float64(shift[i%cols])
			if e < -126 {
				return 0
			}
			return math.Exp2(e)
		}
		p := append([]float32(nil), x...)
		ExpColumns(p, sum, shift, 1.5)
		for i := range p {
			if !near(float64(p[i])/max(want(i), 1), want(i)/max(want(i), 1), 2e-5) {
				t.Fatalf("ExpColumns of %s: of %g at %d it is %g, want %g", what, x[i], i, p[i], want(i))
			}
			sums[i%cols] += p[i]
		}
		ScaleColumns(dx, delta)
		for i := range dx {
			if got := grads[i] * delta[i%cols]; dx[i] != got {
				t.Fatalf("ScaleColumns of %s: at %d it is %g, want %g", what, i, dx[i], got)
			}
		}
		MaxColumns(most, x, 1.5)
		for i := range x {
			if most[i%cols] < 1.5*x[i] {
				t.Fatalf("MaxColumns of %s: of column %d it is %g, and there is %g", what, i%cols, most[i%cols], 1.5*x[i])
			}
		}
		for i := range sum {
			if !near(float64(sum[i]), float64(sums[i]), 1e-4) && !math.IsInf(float64(sums[i]), 0) {
				t.Fatalf("ExpColumns of %s: the sum of column %d is %g, want %g", what, i, sum[i], sums[i])
			}
		}
		copy(dx, grads)
		q := append([]float32(nil), x...)
		ExpColumnsGrad(q, dx, shift, delta, 1.5)
		for i := range q {
			if q[i] != p[i] {
				t.Fatalf("ExpColumnsGrad of %s: p at %d is %g, ExpColumns' %g", what, i, q[i], p[i])
			}
			if got := p[i] * (grads[i] - delta[i%cols]); dx[i] != got {
				t.Fatalf("ExpColumnsGrad of %s: dx at %d is %g, want %g", what, i, dx[i], got)
			}
		}
		intact(t, "ExpColumns", all, rows*cols)
		intact(t, "ExpColumnsGrad", allGrads, rows*cols)
	})
}

// The power is exact to the last bit or two over its whole range, 1 at 0, 0 where it would be
// subnormal, and a NaN of a NaN.
func TestPowersOfTwo(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		cols := Tiles(kernels.tile.path).Cols
		zero, sum := make([]float32, cols), make([]float32, cols)
		worst := 0.0
		for lo := -130.0; lo < 120; lo += 0.37 {
			x := make([]float32, 8*cols)
			for i := range x {
				x[i] = float32(lo + float64(i)*0.00146)
			}
			y := append([]float32(nil), x...)
			ExpColumns(y, sum, zero, 1)
			for i, v := range y {
				switch want := math.Exp2(float64(x[i])); {
				case x[i] < -126:
					if v != 0 {
						t.Fatalf("2^%g is %g, want 0", x[i], v)
					}
				default:
					worst = max(worst, math.Abs(float64(v)/want-1))
				}
			}
		}
		if worst > 2e-7 {
			t.Errorf("off by %.2g of the result, want 2e-7", worst)
		}
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		for _, c := range []struct{ x, want float32 }{{0, 1}, {-126, 0x1p-126}, {-inf, 0}, {nan, nan}, {-1, 0.5}, {1, 2}} {
			x := make([]float32, cols)
			x[cols-1] = c.x
			ExpColumns(x, sum, zero, 1)
			if got := x[cols-1]; got != c.want && !(c.want != c.want && got != got) {
				t.Errorf("2^%g is %g, want %g", c.x, got, c.want)
			}
		}
	})
}

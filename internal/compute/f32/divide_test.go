package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A quotient has the same bits on every path, also where it is subnormal or infinite.
func TestQuotientsHaveTheSameBitsOnEveryPath(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range Available() {
		divide := kernelsFor(p).divide
		for n := range 150 {
			x, got := make([]float32, n), make([]float32, n+1)
			for i := range x {
				x[i] = math.Float32frombits(random.Uint32())
			}
			for _, by := range []float32{1, 2, 3, 64, 192, 0.5, -7, 0, 0x1p-149, 0x1p127} {
				divide(got[:n], by, x)
				for i := range x {
					if want := x[i] / by; math.Float32bits(got[i]) != math.Float32bits(want) && want == want {
						t.Fatalf("%v: %g / %g: got %g, want %g", p, x[i], by, got[i], want)
					}
				}
				copy(got, x)
				if divide(got[:n], by, got[:n]); got[n] != 0 {
					t.Fatalf("%v: %d values: one more was written", p, n)
				}
			}
		}
	}
}

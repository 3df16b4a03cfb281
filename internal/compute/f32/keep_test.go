package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestKeepIsThePlainLoop(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range lengths {
			key, first, step := r.Uint64(), r.Uint64()>>20, uint64(r.IntN(5000))
			for _, threshold := range []uint64{0, 1 << 30, 1<<31 + 12345, 1<<32 - 1} {
				dst, all := guarded(r, n)
				want := make([]float32, n)
				Keep(dst, key, first, step, threshold, 1.25)
				keepPortable(want, key+first, step, threshold, 1.25)
				for i := range want {
					if dst[i] != want[i] {
						t.Fatalf("%d values, threshold %d: at %d it is %g, want %g", n, threshold, i, dst[i], want[i])
					}
				}
				intact(t, "Keep", all, n)
			}
		}
	})
}

func TestDropIsThePlainLoop(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range lengths {
			key, first := r.Uint64(), r.Uint64()>>20
			for _, threshold := range []uint64{0, 1 << 30, 1<<32 - 1} {
				x, dst := normal(r, n), make([]float32, n)
				for i, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0} {
					for j := i; j < n; j += 7 {
						x[j] = v
					}
				}
				want := make([]float32, n)
				dropPortable(want, x, key+first, threshold, 1.25)
				Drop(dst, x, key, first, threshold, 1.25)
				for i, w := range want {
					if dst[i] != w && (w == w || dst[i] == dst[i]) {
						t.Fatalf("%d values, threshold %d: of %g at %d it is %g, want %g", n, threshold, x[i], i, dst[i], w)
					}
				}
			}
		}
	})
}

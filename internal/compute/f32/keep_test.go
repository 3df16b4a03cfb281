package f32

import (
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

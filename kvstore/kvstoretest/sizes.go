package kvstoretest

import (
	"math/rand/v2"

	"github.com/paragon-train/paragon/optim"
)

// Sizes of the arrays: small, and above the size at which a key is cut over all servers.
const smallSize = 2 * 3

func (w *Worker) bigSize() int { return w.edge * w.edge }

func (w *Worker) oddSize() int { return (w.edge + 11) * (w.edge + 11) }

// uniform returns n numbers of [lo, hi).
//
//go:norace
func uniform(r *rand.Rand, n int, lo, hi float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = lo + (hi-lo)*r.Float32()
	}
	return x
}

// doubling is w ← w + 2·Σg, the rule of most cases.
var doubling = optim.Config{Name: "test", LearningRate: 2}

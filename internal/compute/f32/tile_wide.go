//go:build amd64 || arm64

package f32

import "time"

// narrowCols is the number of columns of the tiles whose assembly has no masks.
const narrowCols = 16

// gatherNarrow computes a whole tile beside the output and copies the columns that there are.
func (t *Tile) gatherNarrow(a *GatherArgs, n, ncols int) {
	const cols = narrowCols
	var tile [6 * cols]float32
	b := *a
	b.Out = tile[:]
	for i := range n {
		b.OutRow[i] = i * cols
		if a.Add != 0 {
			copy(tile[i*cols:i*cols+ncols], a.Out[a.OutRow[i]:])
		}
	}
	t.gatherWhole(&b, n)
	for i := range n {
		copy(a.Out[a.OutRow[i]:a.OutRow[i]+ncols], tile[i*cols:])
	}
}

var noShift [16]float32

// bestRate is the best rate seen in d of a loop with some operations in a round.
func bestRate(loop func(n int), operations float64, d time.Duration) float64 {
	const n = 20000
	best := 0.0
	for start := time.Now(); time.Since(start) < d; {
		t := time.Now()
		loop(n)
		best = max(best, operations*n/time.Since(t).Seconds())
	}
	return best
}

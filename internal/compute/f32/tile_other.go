//go:build !amd64 && !arm64

package f32

import "time"

func (t *Tile) gather(a *GatherArgs, n, ncols int) {
	if t.pairs {
		gatherPairsPortable(a, n, ncols)
		return
	}
	gatherPortable(a, n, ncols)
}

func (t *Tile) outer(a *OuterArgs, rows int) {
	if t.pairs {
		outerPairsPortable(a, rows)
		return
	}
	outerPortable(a, rows)
}

func (t *Tile) transpose(a *TransposeArgs, n, m int) { transposePortable(a, 0, 0, n, m) }

func (t *Tile) transposeShift(a *TransposeArgs, n, m int, shift []float32, floor float32) {
	transposeShiftPortable(a, 0, 0, n, m, shift, floor)
}

func (t *Tile) copyRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	copyRowsPortable(dst, dstStride, src, srcStride, rows, n, width)
}

func (t *Tile) fetch([]float32, int, int, int) {}

// MeasurePeak runs independent multiply-adds on one thread for about d and returns the best rate
// seen, in operations a second: the ceiling of a core on this path. It is 0 on the portable path,
// which has no such loop.
func MeasurePeak(Path, time.Duration) float64 { return 0 }

// MeasurePairPeak is MeasurePeak for products of pairs of bfloat16; 0 where HasBFloat16 is false.
func MeasurePairPeak(Path, time.Duration) float64 { return 0 }

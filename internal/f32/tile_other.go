//go:build !amd64

package f32

import "time"

func (t *Tile) gather(a *GatherArgs, n, ncols int) { gatherPortable(a, n, ncols) }

func (t *Tile) outer(a *OuterArgs, rows int) { outerPortable(a, rows) }

func (t *Tile) transpose(a *TransposeArgs, n, m int) { transposePortable(a, n, m) }

func (t *Tile) copyRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	copyRowsPortable(dst, dstStride, src, srcStride, rows, n, width)
}

// MeasurePeak runs independent multiply-adds on one thread for about d and returns the best rate seen, in operations a second:
// the ceiling of a core on this path. It is 0 on the portable path, which has no such loop.
func MeasurePeak(Path, time.Duration) float64 { return 0 }

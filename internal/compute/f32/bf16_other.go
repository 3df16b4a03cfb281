//go:build !amd64 && !arm64

package f32

// HasBFloat16 reports whether products of pairs of bfloat16 are in assembly on a path: nowhere but
// on amd64 and arm64.
func HasBFloat16(Path) bool { return false }

var pairTile = portablePairTile

func (t *Tile) packPairs(dst, x []float32) { packPairsPortable(dst, x) }

func (t *Tile) packPairRows(dst []float32, dstStride int, x []float32, rows, n int) {
	packPairRowsPortable(dst, dstStride, x, rows, n)
}

func pairRows[E element](_ *Tile, dst []float32, dstStride int, low, high []E, srcStride, rows, n, width int) {
	pairRowsPortable(dst, dstStride, low, high, srcStride, rows, n, width)
}

func storesBFloat16(Path) bool { return false }

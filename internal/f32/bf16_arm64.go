package f32

// HasBFloat16 reports whether products of pairs of bfloat16 are in assembly on a path: NEON on a CPU with FEAT_BF16 (Armv8.6).
func HasBFloat16(p Path) bool { return p == NEON && hasBFMMLA }

var pairTile = Tile{Rows: 6, Cols: narrowCols, OuterRows: []int{6, 4, 2}, path: NEON, pairs: true}

func (t *Tile) packPairs(dst, x []float32) {
	n := 0
	if t.path == NEON {
		if n = len(x) / 2 &^ 1; n > 0 {
			toBFloat16BF16(&HalvesOf(dst)[0], &x[0], 2*n)
		}
	}
	packPairsPortable(dst[n:], x[2*n:])
}

func (t *Tile) packPairRows(dst []float32, dstStride int, x []float32, rows, n int) {
	for i := range rows {
		t.packPairs(dst[i*dstStride:i*dstStride+n], x[2*i*n:2*(i+1)*n])
	}
}

// pairRows leaves to the portable loop rows that are not whole vectors.
func (t *Tile) pairRows(dst []float32, dstStride int, low, high []float32, srcStride, rows, n, width int) {
	switch {
	case t.path != NEON || n == 0 || n%4 != 0 || width%4 != 0:
		pairRowsPortable(dst, dstStride, low, high, srcStride, rows, n, width)
	case high == nil:
		pairRowsLowBF16(&dst[0], 4*dstStride, &low[0], 4*srcStride, rows, n, width-n)
	default:
		pairRowsBF16(&dst[0], 4*dstStride, &low[0], &high[0], 4*srcStride, rows, n, width-n)
	}
}

func storesBFloat16(p Path) bool { return p == NEON }

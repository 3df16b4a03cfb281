package f32

// HasBFloat16 reports whether products of pairs of bfloat16 are in assembly on a path: NEON on a
// CPU with FEAT_BF16 (Armv8.6).
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

// pairRows leaves to the portable loop the columns beside whole vectors.
func pairRows[E element](t *Tile, dst []float32, dstStride int, low, high []E, srcStride, rows, n, width int) {
	done, zeros := 0, 0
	if t.path == NEON {
		done, zeros = vectorColumns(n, width)
	}
	var rest []E
	if done > 0 {
		pairVectors(dst, dstStride, low, high, srcStride, rows, done, zeros)
	}
	if high != nil {
		rest = high[done:]
	}
	if done+zeros < width {
		pairRowsPortable(dst[done:], dstStride, low[done:], rest, srcStride, rows, n-done, width-done)
	}
}

// pairVectors is pairRows of whole vectors, with some zeros behind them.
func pairVectors[E element](dst []float32, dstStride int, low, high []E, srcStride, rows, n, zeros int) {
	if isHalf[E]() {
		if low, high := cast[uint16](low), cast[uint16](high); high == nil {
			pairRowsLowHalfNEON(&dst[0], 4*dstStride, &low[0], 2*srcStride, rows, n, zeros)
		} else {
			pairRowsHalfNEON(&dst[0], 4*dstStride, &low[0], &high[0], 2*srcStride, rows, n, zeros)
		}
		return
	}
	if low, high := cast[float32](low), cast[float32](high); high == nil {
		pairRowsLowBF16(&dst[0], 4*dstStride, &low[0], 4*srcStride, rows, n, zeros)
	} else {
		pairRowsBF16(&dst[0], 4*dstStride, &low[0], &high[0], 4*srcStride, rows, n, zeros)
	}
}

// vectorColumns is how many of n columns the assembly does, and how many zeros up to width it puts
// behind them: none unless both are whole vectors.
func vectorColumns(n, width int) (done, zeros int) {
	if n%4 == 0 && width%4 == 0 && n > 0 {
		return n, width - n
	}
	return n &^ 3, 0
}

func storesBFloat16(p Path) bool { return p == NEON }

package f32

import (
	"time"
	"unsafe"
)

func (t *Tile) gather(a *GatherArgs, n, ncols int) {
	switch {
	case t.pairs && t.path == AVX512:
		gatherPairs(a, n, ncols)
	case t.pairs:
		gatherPairsPortable(a, n, ncols)
	case t.path == AVX512:
		a.Mask = 1<<ncols - 1
		p := (*byte)(unsafe.Pointer(a))
		switch {
		case n > 8:
			a.fill(n, 12)
			gather12AVX512(p)
		case n > 4:
			a.fill(n, 8)
			gather8AVX512(p)
		default:
			a.fill(n, 4)
			gather4AVX512(p)
		}
	case t.path == AVX2:
		if ncols < t.Cols {
			t.gatherNarrow(a, n, ncols)
			return
		}
		t.gatherWhole(a, n)
	default:
		gatherPortable(a, n, ncols)
	}
}

// gatherWhole is gather of all columns with AVX2.
func (*Tile) gatherWhole(a *GatherArgs, n int) {
	p := (*byte)(unsafe.Pointer(a))
	switch {
	case n > 4:
		a.fill(n, 6)
		gather6AVX2(p)
	case n > 2:
		a.fill(n, 4)
		gather4AVX2(p)
	default:
		a.fill(n, 2)
		gather2AVX2(p)
	}
}

func (t *Tile) outer(a *OuterArgs, rows int) {
	p := (*byte)(unsafe.Pointer(a))
	switch {
	case t.pairs && t.path == AVX512:
		outerPairs(a, rows)
	case t.pairs:
		outerPairsPortable(a, rows)
	case t.path == AVX512:
		switch rows {
		case 12:
			outer12AVX512(p)
		case 8:
			outer8AVX512(p)
		case 4:
			outer4AVX512(p)
		}
	case t.path == AVX2:
		switch rows {
		case 6:
			outer6AVX2(p)
		case 4:
			outer4AVX2(p)
		case 2:
			outer2AVX2(p)
		}
	default:
		outerPortable(a, rows)
	}
}

func (t *Tile) transpose(a *TransposeArgs, n, m int) {
	switch t.path {
	case AVX512:
		a.complete(n, m)
		transposeAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		a.complete(n, m)
		for i := 0; i < n; i += 8 {
			for j := 0; j < m; j += 8 {
				transpose8AVX2((*byte)(unsafe.Pointer(a)), i, j, min(8, n-i), min(8, m-j))
			}
		}
	default:
		transposePortable(a, 0, 0, n, m)
	}
}

func (t *Tile) transposeShift(a *TransposeArgs, n, m int, shift []float32, floor float32) {
	if t.path == Portable {
		transposeShiftPortable(a, 0, 0, n, m, shift, floor)
		return
	}
	a.complete(n, m)
	if shift == nil {
		shift = noShift[:]
	}
	if t.path == AVX512 {
		transposeShiftAVX512((*byte)(unsafe.Pointer(a)), &shift[0], floor)
		return
	}
	for i := 0; i < n; i += 8 {
		for j := 0; j < m; j += 8 {
			transposeShift8AVX2((*byte)(unsafe.Pointer(a)), &shift[0], floor, i, j, min(8, n-i), min(8, m-j))
		}
	}
}

// complete prepares a for a kernel that reads 16 rows: those that are not there repeat the first.
func (a *TransposeArgs) complete(n, m int) {
	for i := n; i < 16; i++ {
		a.SrcRow[i] = a.SrcRow[0]
	}
	a.SrcMask, a.DstMask, a.M = 1<<m-1, 1<<n-1, m
}

func (t *Tile) copyRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	switch {
	case t.path == AVX512 && width <= 16:
		copyRows1AVX512(&dst[0], 4*dstStride, &src[0], 4*srcStride, rows, 1<<n-1, 1<<width-1)
	case t.path == AVX512 && width <= 32:
		copyRows2AVX512(&dst[0], 4*dstStride, &src[0], 4*srcStride, rows, 1<<n-1, 1<<width-1)
	case t.path == AVX2 && n > 0 && width <= 16:
		copyRowsAVX2(&dst[0], 4*dstStride, &src[0], 4*srcStride, rows, n, width)
	default:
		copyRowsPortable(dst, dstStride, src, srcStride, rows, n, width)
	}
}

func (t *Tile) fetch(x []float32, stride, rows, n int) {
	if t.path != Portable {
		fetch(&x[0], 4*stride, rows, n)
	}
}

// MeasurePeak runs independent multiply-adds on one thread for about d and returns the best rate
// seen, in operations a second: the ceiling of a core on this path. It is 0 on the portable path,
// which has no such loop.
func MeasurePeak(p Path, d time.Duration) float64 {
	switch p {
	case AVX512, AMX:
		return bestRate(peakAVX512, 2*12*16, d)
	case AVX2:
		return bestRate(peakAVX2, 2*12*8, d)
	}
	return 0
}

// MeasurePairPeak is MeasurePeak for products of pairs of bfloat16, each two multiplications and
// two additions; 0 where HasBFloat16 is false.
func MeasurePairPeak(p Path, d time.Duration) float64 {
	if !HasBFloat16(p) {
		return 0
	}
	return bestRate(peakBF16, 4*12*16, d)
}

package f32

import (
	"time"
	"unsafe"
)

func (t *Tile) gather(a *GatherArgs, n, ncols int) {
	switch {
	case t.path == NEON && ncols < t.Cols:
		t.gatherNarrow(a, n, ncols)
	case t.path == NEON:
		t.gatherWhole(a, n)
	case t.pairs:
		gatherPairsPortable(a, n, ncols)
	default:
		gatherPortable(a, n, ncols)
	}
}

// gatherWhole is gather of all columns with NEON.
func (t *Tile) gatherWhole(a *GatherArgs, n int) {
	p := (*byte)(unsafe.Pointer(a))
	rows := (n + 1) &^ 1
	a.fill(n, rows)
	switch {
	case rows == 6 && t.pairs:
		gather6BF16(p)
	case rows == 6:
		gather6NEON(p)
	case rows == 4 && t.pairs:
		gather4BF16(p)
	case rows == 4:
		gather4NEON(p)
	case t.pairs:
		gather2BF16(p)
	default:
		gather2NEON(p)
	}
}

func (t *Tile) outer(a *OuterArgs, rows int) {
	p := (*byte)(unsafe.Pointer(a))
	switch {
	case t.path != NEON && t.pairs:
		outerPairsPortable(a, rows)
	case t.path != NEON:
		outerPortable(a, rows)
	case rows == 6 && t.pairs:
		outer6BF16(p)
	case rows == 6:
		outer6NEON(p)
	case rows == 4 && t.pairs:
		outer4BF16(p)
	case rows == 4:
		outer4NEON(p)
	case rows == 2 && t.pairs:
		outer2BF16(p)
	case rows == 2:
		outer2NEON(p)
	}
}

// transpose leaves to the portable loop what is not in blocks of 4×4.
func (t *Tile) transpose(a *TransposeArgs, n, m int) {
	rows, cols := n&^3, m&^3
	if t.path != NEON || rows == 0 || cols == 0 {
		transposePortable(a, 0, 0, n, m)
		return
	}
	a.DstMask, a.SrcMask = uint64(rows), uint64(cols)
	transposeNEON((*byte)(unsafe.Pointer(a)))
	transposePortable(a, rows, 0, n, cols)
	transposePortable(a, 0, cols, n, m)
}

func (t *Tile) transposeShift(a *TransposeArgs, n, m int, shift []float32, floor float32) {
	rows, cols := n&^3, m&^3
	if t.path != NEON || rows == 0 || cols == 0 {
		transposeShiftPortable(a, 0, 0, n, m, shift, floor)
		return
	}
	if shift == nil {
		shift = noShift[:]
	}
	a.DstMask, a.SrcMask = uint64(rows), uint64(cols)
	transposeShiftNEON((*byte)(unsafe.Pointer(a)), &shift[0], floor)
	transposeShiftPortable(a, rows, 0, n, cols, shift, floor)
	transposeShiftPortable(a, 0, cols, n, m, shift, floor)
}

func (t *Tile) copyRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	if t.path != NEON || n%4 != 0 || width%4 != 0 || n == 0 {
		copyRowsPortable(dst, dstStride, src, srcStride, rows, n, width)
		return
	}
	copyRowsNEON(&dst[0], 4*dstStride, &src[0], 4*srcStride, rows, n, width-n)
}

func (t *Tile) fetch(x []float32, stride, rows, n int) {
	if t.path == NEON {
		fetch(&x[0], 4*stride, rows, n)
	}
}

// MeasurePeak runs independent multiply-adds on one thread for about d and returns the best rate
// seen, in operations a second: the ceiling of a core on this path. It is 0 on the portable path,
// which has no such loop.
func MeasurePeak(p Path, d time.Duration) float64 {
	if p != NEON {
		return 0
	}
	return bestRate(peakNEON, 2*24*4, d)
}

// MeasurePairPeak is MeasurePeak for products of pairs of bfloat16, each two multiplications and
// two additions; 0 where HasBFloat16 is false.
func MeasurePairPeak(p Path, d time.Duration) float64 {
	if !HasBFloat16(p) {
		return 0
	}
	return bestRate(peakBF16, 2*24*16, d)
}

package f32

import "unsafe"

// What rounds has two forms: with BFCVTN, where the CPU has FEAT_BF16, and without.

func sumColumnsHalf(p Path, sum, sumSq []float32, x []uint16, c int) {
	n, rows := wide(p, len(sum)), (len(x)+c-1)/c
	if n > 0 {
		channelSumsHalfNEON(&sum[0], &sumSq[0], &x[0], n, rows, 2*c)
	}
	if n < len(sum) {
		channelSumsPortable(sum[n:], sumSq[n:], x[n:], c)
	}
}

func sumColumnsAroundHalf(p Path, sum, sumSq []float32, x []uint16, center []float32, c int) {
	n, rows := wide(p, len(sum)), (len(x)+c-1)/c
	if n > 0 {
		channelSumsAroundHalfNEON(&sum[0], &sumSq[0], &x[0], &center[0], n, rows, 2*c)
	}
	if n < len(sum) {
		channelSumsAroundPortable(sum[n:], sumSq[n:], x[n:], center[n:], c)
	}
}

func gradSumColumnsHalf(p Path, sumDy, sumDyX []float32, dy, x, y []uint16, center []float32, c int) {
	n, rows := wide(p, len(sumDy)), (len(x)+c-1)/c
	switch {
	case n == 0:
	case y == nil:
		channelGradSumsHalfNEON(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &center[0], n, rows, 2*c)
	default:
		channelGradSumsMaskedHalfNEON(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &y[0], &center[0], n, rows, 2*c)
	}
	if n < len(sumDy) {
		if y != nil {
			y = y[n:]
		}
		channelGradSumsPortable(sumDy[n:], sumDyX[n:], dy[n:], x[n:], y, center[n:], c)
	}
}

func scaleRowsHalf(y, x, res []uint16, scale, shift []float32, relu bool) {
	n, c := len(y), len(scale)

	// The calls are by name, as in scaleRows.
	switch {
	case res == nil && relu && hasBFMMLA:
		scaleShiftReLUHalfBF16(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil && relu:
		scaleShiftReLUHalfNEON(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil && hasBFMMLA:
		scaleShiftHalfBF16(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil:
		scaleShiftHalfNEON(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case relu && hasBFMMLA:
		scaleShiftAddReLUHalfBF16(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	case relu:
		scaleShiftAddReLUHalfNEON(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	case hasBFMMLA:
		scaleShiftAddHalfBF16(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	default:
		scaleShiftAddHalfNEON(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	}
}

func normGradRowsHalf(dx, dy, x, y []uint16, p, q, r []float32) {
	n, c := len(dx), len(p)
	switch {
	case y == nil && hasBFMMLA:
		normGradHalfBF16(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], n, c)
	case y == nil:
		normGradHalfNEON(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], n, c)
	case hasBFMMLA:
		normGradMaskedHalfBF16(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], n, c)
	default:
		normGradMaskedHalfNEON(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], n, c)
	}
}

func addHalf(p Path, dst, a, b []uint16) {
	n := wide(p, len(dst))
	switch {
	case n == 0:
	case hasBFMMLA:
		addHalfBF16(&dst[0], &a[0], &b[0], n)
	default:
		addHalfNEON(&dst[0], &a[0], &b[0], n)
	}
	addHalfPortable(dst[n:], a[n:], b[n:])
}

func addToHalf(p Path, dst []float32, x []uint16) {
	n := wide(p, len(dst))
	if n > 0 {
		addToHalfNEON(&dst[0], &x[0], n)
	}
	addToHalfPortable(dst[n:], x[n:])
}

func reluHalf(p Path, dst, x []uint16) {
	n := wide(p, len(dst))
	if n > 0 {
		reluHalfNEON(&dst[0], &x[0], n)
	}
	reluHalfPortable(dst[n:], x[n:])
}

func reluGradHalf(p Path, dx, dy, y []uint16) {
	n := wide(p, len(dx))
	if n > 0 {
		reluGradHalfNEON(&dx[0], &dy[0], &y[0], n)
	}
	reluGradHalfPortable(dx[n:], dy[n:], y[n:])
}

func maxWhichHalf(p Path, out []uint16, chosen []uint8, x []uint16, which uint8) {
	n := wide(p, len(out))
	if n > 0 {
		maxWhichHalfNEON(&out[0], &chosen[0], &x[0], which, n)
	}
	maxWhichHalfPortable(out[n:], chosen[n:], x[n:], which)
}

func (t *Tile) narrowRows(dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	switch {
	case t.path != NEON || ncols < t.Cols || rows == 0:
		narrowRowsPortable(t.Cols, dst, at, src, rows, ncols, add)
	case add && hasBFMMLA:
		narrowRowsAddHalfBF16(&dst[0], &at[0], &src[0], rows)
	case add:
		narrowRowsAddHalfNEON(&dst[0], &at[0], &src[0], rows)
	case hasBFMMLA:
		narrowRowsHalfBF16(&dst[0], &at[0], &src[0], rows)
	default:
		narrowRowsHalfNEON(&dst[0], &at[0], &src[0], rows)
	}
}

// WinogradInputBFloat16 is WinogradInput of pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradInputBFloat16(a *WinogradArgs) {
	if t.path == NEON {
		winogradInputHalfNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradInputHalfPortable(a, winogradB)
}

// WinogradOutputBFloat16 is WinogradOutput to pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradOutputBFloat16(a *WinogradArgs) {
	switch {
	case t.path == NEON && hasBFMMLA:
		winogradOutputHalfBF16((*byte)(unsafe.Pointer(a)))
	case t.path == NEON:
		winogradOutputHalfNEON((*byte)(unsafe.Pointer(a)))
	default:
		winogradOutputHalfPortable(a, winogradA)
	}
}

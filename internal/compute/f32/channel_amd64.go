package f32

// vectorLanes is the values of a vector of a path; 0: it has none.
func vectorLanes(p Path) int {
	switch p {
	case AVX512:
		return 16
	case AVX2:
		return 8
	}
	return 0
}

func sumColumns(p Path, sum, sumSq, x []float32, c int) {
	n, rows := 0, (len(x)+c-1)/c
	switch p {
	case AVX512:
		if n = len(sum) &^ 15; n > 0 {
			channelSumsAVX512(&sum[0], &sumSq[0], &x[0], n, rows, 4*c)
		}
	case AVX2:
		if n = len(sum) &^ 7; n > 0 {
			channelSumsAVX2(&sum[0], &sumSq[0], &x[0], n, rows, 4*c)
		}
	}
	if n < len(sum) {
		channelSumsPortable(sum[n:], sumSq[n:], x[n:], c)
	}
}

func sumColumnsAround(p Path, sum, sumSq, x, center []float32, c int) {
	n, rows := 0, (len(x)+c-1)/c
	switch p {
	case AVX512:
		if n = len(sum) &^ 15; n > 0 {
			channelSumsAroundAVX512(&sum[0], &sumSq[0], &x[0], &center[0], n, rows, 4*c)
		}
	case AVX2:
		if n = len(sum) &^ 7; n > 0 {
			channelSumsAroundAVX2(&sum[0], &sumSq[0], &x[0], &center[0], n, rows, 4*c)
		}
	}
	if n < len(sum) {
		channelSumsAroundPortable(sum[n:], sumSq[n:], x[n:], center[n:], c)
	}
}

func gradSumColumns(p Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
	n, rows := 0, (len(x)+c-1)/c
	switch p {
	case AVX512:
		if n = len(sumDy) &^ 15; n == 0 {
			break
		}
		if y == nil {
			channelGradSumsAVX512(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &center[0], n, rows, 4*c)
		} else {
			channelGradSumsMaskedAVX512(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &y[0], &center[0], n, rows, 4*c)
		}
	case AVX2:
		if n = len(sumDy) &^ 7; n == 0 {
			break
		}
		if y == nil {
			channelGradSumsAVX2(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &center[0], n, rows, 4*c)
		} else {
			channelGradSumsMaskedAVX2(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &y[0], &center[0], n, rows, 4*c)
		}
	}
	if n < len(sumDy) {
		if y != nil {
			y = y[n:]
		}
		channelGradSumsPortable(sumDy[n:], sumDyX[n:], dy[n:], x[n:], y, center[n:], c)
	}
}

func scaleRows(p Path, y, x, res, scale, shift []float32, relu bool) {
	n, c := len(y), len(scale)

	// The calls are by name: through a variable the arrays that callers have on the stack would be
	// allocated.
	switch {
	case p == AVX512 && res == nil && relu:
		scaleShiftReLUAVX512(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case p == AVX512 && res == nil:
		scaleShiftAVX512(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case p == AVX512 && relu:
		scaleShiftAddReLUAVX512(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	case p == AVX512:
		scaleShiftAddAVX512(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	case res == nil && relu:
		scaleShiftReLUAVX2(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil:
		scaleShiftAVX2(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case relu:
		scaleShiftAddReLUAVX2(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	default:
		scaleShiftAddAVX2(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	}
}

func normGradRows(path Path, dx, dy, x, y, p, q, r []float32) {
	n, c := len(dx), len(p)

	// The calls are by name, as in scaleRows.
	switch {
	case path == AVX512 && y == nil:
		normGradAVX512(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], n, c)
	case path == AVX512:
		normGradMaskedAVX512(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], n, c)
	case y == nil:
		normGradAVX2(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], n, c)
	default:
		normGradMaskedAVX2(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], n, c)
	}
}

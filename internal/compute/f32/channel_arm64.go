package f32

// vectorLanes is the values of a vector of a path; 0: it has none.
func vectorLanes(p Path) int {
	if p == NEON {
		return 4
	}
	return 0
}

// wide is n cut to whole vectors of the path: 0 if it has none.
func wide(p Path, n int) int {
	if p == NEON {
		return n &^ 3
	}
	return 0
}

func sumColumns(p Path, sum, sumSq, x []float32, c int) {
	n, rows := wide(p, len(sum)), (len(x)+c-1)/c
	if n > 0 {
		channelSumsNEON(&sum[0], &sumSq[0], &x[0], n, rows, 4*c)
	}
	if n < len(sum) {
		channelSumsPortable(sum[n:], sumSq[n:], x[n:], c)
	}
}

func sumColumnsAround(p Path, sum, sumSq, x, center []float32, c int) {
	n, rows := wide(p, len(sum)), (len(x)+c-1)/c
	if n > 0 {
		channelSumsAroundNEON(&sum[0], &sumSq[0], &x[0], &center[0], n, rows, 4*c)
	}
	if n < len(sum) {
		channelSumsAroundPortable(sum[n:], sumSq[n:], x[n:], center[n:], c)
	}
}

func gradSumColumns(p Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
	n, rows := wide(p, len(sumDy)), (len(x)+c-1)/c
	switch {
	case n == 0:
	case y == nil:
		channelGradSumsNEON(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &center[0], n, rows, 4*c)
	default:
		channelGradSumsMaskedNEON(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &y[0], &center[0], n, rows, 4*c)
	}
	if n < len(sumDy) {
		if y != nil {
			y = y[n:]
		}
		channelGradSumsPortable(sumDy[n:], sumDyX[n:], dy[n:], x[n:], y, center[n:], c)
	}
}

func scaleRows(_ Path, y, x, res, scale, shift []float32, relu bool) {
	n, c := len(y), len(scale)

	// The calls are by name: through a variable the arrays that callers have on the stack would be
	// allocated.
	switch {
	case res == nil && relu:
		scaleShiftReLUNEON(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil:
		scaleShiftNEON(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case relu:
		scaleShiftAddReLUNEON(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	default:
		scaleShiftAddNEON(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	}
}

func normGradRows(_ Path, dx, dy, x, y, p, q, r []float32) {
	if y == nil {
		normGradNEON(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], len(dx), len(p))
	} else {
		normGradMaskedNEON(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], len(dx), len(p))
	}
}

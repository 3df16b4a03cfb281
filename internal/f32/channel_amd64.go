package f32

// These choose by path here and not through kernelSet, so that the caller's partial sums may live on its stack.

func channelSums(p Path, sum, sumSq, x []float32, c int) {
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

func channelSumsAround(p Path, sum, sumSq, x, center []float32, c int) {
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

func channelGradSums(p Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
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

// whole reports whether rows of c channels are whole vectors of path p, as scaleShift and normGrad need.
func whole(p Path, c int) bool { return p == AVX512 && c%16 == 0 || p == AVX2 && c%8 == 0 }

func scaleShift(p Path, y, x, res, scale, shift []float32, relu bool) {
	c := len(scale)
	if !whole(p, c) || len(y) == 0 {
		scaleShiftPortable(y, x, res, scale, shift, relu)
		return
	}
	plain, add := scaleShiftAVX512, scaleShiftAddAVX512
	switch {
	case p == AVX512 && relu:
		plain, add = scaleShiftReLUAVX512, scaleShiftAddReLUAVX512
	case p == AVX2 && relu:
		plain, add = scaleShiftReLUAVX2, scaleShiftAddReLUAVX2
	case p == AVX2:
		plain, add = scaleShiftAVX2, scaleShiftAddAVX2
	}
	if res == nil {
		plain(&y[0], &x[0], &scale[0], &shift[0], len(y), c)
	} else {
		add(&y[0], &x[0], &res[0], &scale[0], &shift[0], len(y), c)
	}
}

func normGrad(path Path, dx, dy, x, y, p, q, r []float32) {
	c := len(p)
	if !whole(path, c) || len(dx) == 0 {
		normGradPortable(dx, dy, x, y, p, q, r)
		return
	}
	plain, masked := normGradAVX512, normGradMaskedAVX512
	if path == AVX2 {
		plain, masked = normGradAVX2, normGradMaskedAVX2
	}
	if y == nil {
		plain(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], len(dx), c)
	} else {
		masked(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], len(dx), c)
	}
}

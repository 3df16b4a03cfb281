package f32

// These choose by path here and not through kernelSet, so that the caller's partial sums may live on its stack.

// wideChannels bounds what a few channels are widened to.
const wideChannels = 256

// wideRow is the number of values after which rows of c channels and vectors of path p begin together: with few channels, rows of that many
// values are summed or scaled in vectors as if each had so many channels. 0: c is whole, or they are too many.
func wideRow(p Path, c int) int {
	lanes := 16
	switch {
	case p == AVX2:
		lanes = 8
	case p != AVX512:
		return 0
	}
	n := c
	for n%lanes != 0 && n <= wideChannels {
		n += n
	}
	if n == c || n > wideChannels {
		return 0
	}
	return n
}

// repeat sets dst to x again and again.
func repeat(dst, x []float32) {
	for i := 0; i < len(dst); i += len(x) {
		copy(dst[i:], x)
	}
}

// fold adds the parts of a widened sum.
func fold(sum, wide []float32) {
	for i := 0; i < len(wide); i += len(sum) {
		for j := range sum {
			sum[j] += wide[i+j]
		}
	}
}

func channelSums(p Path, sum, sumSq, x []float32, c int) {
	if w := wideRow(p, c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b [wideChannels]float32
		n := len(x) / w * w
		sumColumns(p, a[:w], b[:w], x[:n], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumns(p, sum, sumSq, x, c)
	}
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

func channelSumsAround(p Path, sum, sumSq, x, center []float32, c int) {
	if w := wideRow(p, c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		sumColumnsAround(p, a[:w], b[:w], x[:n], around[:w], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumnsAround(p, sum, sumSq, x, center, c)
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

func channelGradSums(p Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
	if w := wideRow(p, c); w > 0 && len(sumDy) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		var part []float32
		if y != nil {
			part, y = y[:n], y[n:]
		}
		gradSumColumns(p, a[:w], b[:w], dy[:n], x[:n], part, around[:w], w)
		fold(sumDy, a[:w])
		fold(sumDyX, b[:w])
		dy, x = dy[n:], x[n:]
	}
	if len(x) > 0 {
		gradSumColumns(p, sumDy, sumDyX, dy, x, y, center, c)
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

// whole reports whether rows of c channels are whole vectors of path p, as scaleRows and normGradRows need.
func whole(p Path, c int) bool { return p == AVX512 && c%16 == 0 || p == AVX2 && c%8 == 0 }

func scaleShift(p Path, y, x, res, scale, shift []float32, relu bool) {
	c := len(scale)
	w := wideRow(p, c)
	switch {
	case len(y) == 0:
	case whole(p, c):
		scaleRows(p, y, x, res, scale, shift, relu)
	case w == 0:
		scaleShiftPortable(y, x, res, scale, shift, relu)
	default:
		var wideScale, wideShift [wideChannels]float32
		repeat(wideScale[:w], scale)
		repeat(wideShift[:w], shift)
		n := len(y) / w * w
		var part, rest []float32
		if res != nil {
			part, rest = res[:n], res[n:]
		}
		if n > 0 {
			scaleRows(p, y[:n], x[:n], part, wideScale[:w], wideShift[:w], relu)
		}
		if n < len(y) { // the last rows in vectors, too, so that all numbers are rounded alike
			var in, out, add [wideChannels]float32
			copy(in[:], x[n:])
			if res != nil {
				copy(add[:], rest)
				part = add[:w]
			}
			scaleRows(p, out[:w], in[:w], part, wideScale[:w], wideShift[:w], relu)
			copy(y[n:], out[:])
		}
	}
}

func scaleRows(p Path, y, x, res, scale, shift []float32, relu bool) {
	n, c := len(y), len(scale)
	switch { // calls by name: through a variable the arrays that callers have on the stack would be allocated
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

func normGrad(path Path, dx, dy, x, y, p, q, r []float32) {
	c := len(p)
	w := wideRow(path, c)
	switch {
	case len(dx) == 0:
	case whole(path, c):
		normGradRows(path, dx, dy, x, y, p, q, r)
	case w == 0:
		normGradPortable(dx, dy, x, y, p, q, r)
	default:
		var wp, wq, wr [wideChannels]float32
		repeat(wp[:w], p)
		repeat(wq[:w], q)
		repeat(wr[:w], r)
		n := len(dx) / w * w
		var part, rest []float32
		if y != nil {
			part, rest = y[:n], y[n:]
		}
		if n > 0 {
			normGradRows(path, dx[:n], dy[:n], x[:n], part, wp[:w], wq[:w], wr[:w])
		}
		if n < len(dx) { // as in scaleShift
			var out, grad, in, mask [wideChannels]float32
			copy(grad[:], dy[n:])
			copy(in[:], x[n:])
			if y != nil {
				copy(mask[:], rest)
				part = mask[:w]
			}
			normGradRows(path, out[:w], grad[:w], in[:w], part, wp[:w], wq[:w], wr[:w])
			copy(dx[n:], out[:])
		}
	}
}

func normGradRows(path Path, dx, dy, x, y, p, q, r []float32) {
	n, c := len(dx), len(p)
	switch { // as in scaleRows
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

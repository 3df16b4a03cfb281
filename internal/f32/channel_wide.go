//go:build amd64 || arm64

package f32

// These choose by path here and not through kernelSet, so that the caller's partial sums may live on its stack.

// wideChannels bounds what a few channels are widened to.
const wideChannels = 256

// wideRow is the number of values after which rows of c channels and vectors of so many lanes begin together: with few channels, rows of that many
// values are summed or scaled in vectors as if each had so many channels. 0: c is whole, they are too many, or the path has no vectors.
func wideRow(lanes, c int) int {
	if lanes == 0 {
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

// whole reports whether rows of c channels are whole vectors of so many lanes, as scaleRows and normGradRows need.
func whole(lanes, c int) bool { return lanes > 0 && c%lanes == 0 }

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
	if w := wideRow(vectorLanes(p), c); w > 0 && len(sum) == c && len(x) >= w {
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

func channelSumsAround(p Path, sum, sumSq, x, center []float32, c int) {
	if w := wideRow(vectorLanes(p), c); w > 0 && len(sum) == c && len(x) >= w {
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

func channelGradSums(p Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
	if w := wideRow(vectorLanes(p), c); w > 0 && len(sumDy) == c && len(x) >= w {
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

func scaleShift(p Path, y, x, res, scale, shift []float32, relu bool) {
	c := len(scale)
	w := wideRow(vectorLanes(p), c)
	switch {
	case len(y) == 0:
	case whole(vectorLanes(p), c):
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

func normGrad(path Path, dx, dy, x, y, p, q, r []float32) {
	c := len(p)
	w := wideRow(vectorLanes(path), c)
	switch {
	case len(dx) == 0:
	case whole(vectorLanes(path), c):
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

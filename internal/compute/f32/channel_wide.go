//go:build amd64 || arm64

package f32

// These choose by path here and not through kernelSet, so that the caller's partial sums may live
// on its stack. Names with Half are of bfloat16.

// wideChannels bounds what a few channels are widened to.
const wideChannels = 256

// wideRow is the number of values after which rows of c channels and vectors of so many lanes begin
// together: with few channels, rows of that many values are summed or scaled in vectors as if each
// had so many channels. 0: c is whole, they are too many, or the path has no vectors.
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

// lanesOf is the elements that the path's loops over them take at once; 0: it has no such loops.
func lanesOf[E element](p Path) int {
	if isHalf[E]() && !storesBFloat16(p) {
		return 0
	}
	return vectorLanes(p)
}

// whole reports whether rows of c channels are whole vectors of so many lanes, as scaleRows and
// normGradRows need.
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

func channelSums[E element](p Path, sum, sumSq []float32, x []E, c int) {
	if w := wideRow(lanesOf[E](p), c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b [wideChannels]float32
		n := len(x) / w * w
		sumColumnsOf(p, a[:w], b[:w], x[:n], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumnsOf(p, sum, sumSq, x, c)
	}
}

func channelSumsAround[E element](p Path, sum, sumSq []float32, x []E, center []float32, c int) {
	if w := wideRow(lanesOf[E](p), c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		sumColumnsAroundOf(p, a[:w], b[:w], x[:n], around[:w], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumnsAroundOf(p, sum, sumSq, x, center, c)
	}
}

func channelGradSums[E element](p Path, sumDy, sumDyX []float32, dy, x, y []E, center []float32, c int) {
	if w := wideRow(lanesOf[E](p), c); w > 0 && len(sumDy) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		var part []E
		if y != nil {
			part, y = y[:n], y[n:]
		}
		gradSumColumnsOf(p, a[:w], b[:w], dy[:n], x[:n], part, around[:w], w)
		fold(sumDy, a[:w])
		fold(sumDyX, b[:w])
		dy, x = dy[n:], x[n:]
	}
	if len(x) > 0 {
		gradSumColumnsOf(p, sumDy, sumDyX, dy, x, y, center, c)
	}
}

func scaleShift[E element](p Path, y, x, res []E, scale, shift []float32, relu bool) {
	c := len(scale)
	w := wideRow(lanesOf[E](p), c)
	switch {
	case len(y) == 0:
	case whole(lanesOf[E](p), c):
		scaleRowsOf(p, y, x, res, scale, shift, relu)
	case w == 0:
		scaleShiftPortable(y, x, res, scale, shift, relu)
	default:
		var wideScale, wideShift [wideChannels]float32
		repeat(wideScale[:w], scale)
		repeat(wideShift[:w], shift)
		n := len(y) / w * w
		var part, rest []E
		if res != nil {
			part, rest = res[:n], res[n:]
		}
		if n > 0 {
			scaleRowsOf(p, y[:n], x[:n], part, wideScale[:w], wideShift[:w], relu)
		}

		// The last rows are done in vectors, too, so that all numbers are rounded alike.
		if n < len(y) {
			var in, out, add [wideChannels]E
			copy(in[:], x[n:])
			if res != nil {
				copy(add[:], rest)
				part = add[:w]
			}
			scaleRowsOf(p, out[:w], in[:w], part, wideScale[:w], wideShift[:w], relu)
			copy(y[n:], out[:])
		}
	}
}

func normGrad[E element](path Path, dx, dy, x, y []E, p, q, r []float32) {
	c := len(p)
	w := wideRow(lanesOf[E](path), c)
	switch {
	case len(dx) == 0:
	case whole(lanesOf[E](path), c):
		normGradRowsOf(path, dx, dy, x, y, p, q, r)
	case w == 0:
		normGradPortable(dx, dy, x, y, p, q, r)
	default:
		var wp, wq, wr [wideChannels]float32
		repeat(wp[:w], p)
		repeat(wq[:w], q)
		repeat(wr[:w], r)
		n := len(dx) / w * w
		var part, rest []E
		if y != nil {
			part, rest = y[:n], y[n:]
		}
		if n > 0 {
			normGradRowsOf(path, dx[:n], dy[:n], x[:n], part, wp[:w], wq[:w], wr[:w])
		}

		// The last rows are done in vectors, too, as in scaleShift.
		if n < len(dx) {
			var out, grad, in, mask [wideChannels]E
			copy(grad[:], dy[n:])
			copy(in[:], x[n:])
			if y != nil {
				copy(mask[:], rest)
				part = mask[:w]
			}
			normGradRowsOf(path, out[:w], grad[:w], in[:w], part, wp[:w], wq[:w], wr[:w])
			copy(dx[n:], out[:])
		}
	}
}

// The functions below choose the assembly by the elements' type.

func sumColumnsOf[E element](p Path, sum, sumSq []float32, x []E, c int) {
	if isHalf[E]() {
		sumColumnsHalf(p, sum, sumSq, cast[uint16](x), c)
	} else {
		sumColumns(p, sum, sumSq, cast[float32](x), c)
	}
}

func sumColumnsAroundOf[E element](p Path, sum, sumSq []float32, x []E, center []float32, c int) {
	if isHalf[E]() {
		sumColumnsAroundHalf(p, sum, sumSq, cast[uint16](x), center, c)
	} else {
		sumColumnsAround(p, sum, sumSq, cast[float32](x), center, c)
	}
}

func gradSumColumnsOf[E element](p Path, sumDy, sumDyX []float32, dy, x, y []E, center []float32, c int) {
	if isHalf[E]() {
		gradSumColumnsHalf(p, sumDy, sumDyX, cast[uint16](dy), cast[uint16](x), cast[uint16](y), center, c)
	} else {
		gradSumColumns(p, sumDy, sumDyX, cast[float32](dy), cast[float32](x), cast[float32](y), center, c)
	}
}

func scaleRowsOf[E element](p Path, y, x, res []E, scale, shift []float32, relu bool) {
	if isHalf[E]() {
		scaleRowsHalf(cast[uint16](y), cast[uint16](x), cast[uint16](res), scale, shift, relu)
	} else {
		scaleRows(p, cast[float32](y), cast[float32](x), cast[float32](res), scale, shift, relu)
	}
}

func normGradRowsOf[E element](path Path, dx, dy, x, y []E, p, q, r []float32) {
	if isHalf[E]() {
		normGradRowsHalf(cast[uint16](dx), cast[uint16](dy), cast[uint16](x), cast[uint16](y), p, q, r)
	} else {
		normGradRows(path, cast[float32](dx), cast[float32](dy), cast[float32](x), cast[float32](y), p, q, r)
	}
}

//go:build amd64 || arm64

package f32

// These choose by path as those of channel_wide.go do.

// halfLanes is vectorLanes of the loops over bfloat16.
func halfLanes(p Path) int {
	if !storesBFloat16(p) {
		return 0
	}
	return vectorLanes(p)
}

func channelSumsHalf(p Path, sum, sumSq []float32, x []uint16, c int) {
	if w := wideRow(halfLanes(p), c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b [wideChannels]float32
		n := len(x) / w * w
		sumColumnsHalf(p, a[:w], b[:w], x[:n], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumnsHalf(p, sum, sumSq, x, c)
	}
}

func channelSumsAroundHalf(p Path, sum, sumSq []float32, x []uint16, center []float32, c int) {
	if w := wideRow(halfLanes(p), c); w > 0 && len(sum) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		sumColumnsAroundHalf(p, a[:w], b[:w], x[:n], around[:w], w)
		fold(sum, a[:w])
		fold(sumSq, b[:w])
		x = x[n:]
	}
	if len(x) > 0 {
		sumColumnsAroundHalf(p, sum, sumSq, x, center, c)
	}
}

func channelGradSumsHalf(p Path, sumDy, sumDyX []float32, dy, x, y []uint16, center []float32, c int) {
	if w := wideRow(halfLanes(p), c); w > 0 && len(sumDy) == c && len(x) >= w {
		var a, b, around [wideChannels]float32
		repeat(around[:w], center)
		n := len(x) / w * w
		var part []uint16
		if y != nil {
			part, y = y[:n], y[n:]
		}
		gradSumColumnsHalf(p, a[:w], b[:w], dy[:n], x[:n], part, around[:w], w)
		fold(sumDy, a[:w])
		fold(sumDyX, b[:w])
		dy, x = dy[n:], x[n:]
	}
	if len(x) > 0 {
		gradSumColumnsHalf(p, sumDy, sumDyX, dy, x, y, center, c)
	}
}

func scaleShiftHalf(p Path, y, x, res []uint16, scale, shift []float32, relu bool) {
	c := len(scale)
	w := wideRow(halfLanes(p), c)
	switch {
	case len(y) == 0:
	case whole(halfLanes(p), c):
		scaleRowsHalf(y, x, res, scale, shift, relu)
	case w == 0:
		scaleShiftHalfPortable(y, x, res, scale, shift, relu)
	default:
		var wideScale, wideShift [wideChannels]float32
		repeat(wideScale[:w], scale)
		repeat(wideShift[:w], shift)
		n := len(y) / w * w
		var part, rest []uint16
		if res != nil {
			part, rest = res[:n], res[n:]
		}
		if n > 0 {
			scaleRowsHalf(y[:n], x[:n], part, wideScale[:w], wideShift[:w], relu)
		}
		if n < len(y) { // as in scaleShift
			var in, out, add [wideChannels]uint16
			copy(in[:], x[n:])
			if res != nil {
				copy(add[:], rest)
				part = add[:w]
			}
			scaleRowsHalf(out[:w], in[:w], part, wideScale[:w], wideShift[:w], relu)
			copy(y[n:], out[:])
		}
	}
}

func normGradHalf(path Path, dx, dy, x, y []uint16, p, q, r []float32) {
	c := len(p)
	w := wideRow(halfLanes(path), c)
	switch {
	case len(dx) == 0:
	case whole(halfLanes(path), c):
		normGradRowsHalf(dx, dy, x, y, p, q, r)
	case w == 0:
		normGradHalfPortable(dx, dy, x, y, p, q, r)
	default:
		var wp, wq, wr [wideChannels]float32
		repeat(wp[:w], p)
		repeat(wq[:w], q)
		repeat(wr[:w], r)
		n := len(dx) / w * w
		var part, rest []uint16
		if y != nil {
			part, rest = y[:n], y[n:]
		}
		if n > 0 {
			normGradRowsHalf(dx[:n], dy[:n], x[:n], part, wp[:w], wq[:w], wr[:w])
		}
		if n < len(dx) { // as in scaleShift
			var out, grad, in, mask [wideChannels]uint16
			copy(grad[:], dy[n:])
			copy(in[:], x[n:])
			if y != nil {
				copy(mask[:], rest)
				part = mask[:w]
			}
			normGradRowsHalf(out[:w], grad[:w], in[:w], part, wp[:w], wq[:w], wr[:w])
			copy(dx[n:], out[:])
		}
	}
}

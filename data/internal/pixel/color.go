package pixel

// Convert makes red, green and blue of a row of luminance and chroma, by JFIF in libjpeg's
// integers.
func Convert(dst, ys, cbs, crs []uint8) {
	n := 0
	if fast && len(ys) >= 8 {
		n = len(ys) &^ 7
		_, _, _ = dst[3*n-1], cbs[n-1], crs[n-1]
		convertAVX2(&dst[0], &ys[0], &cbs[0], &crs[0], n)
	}
	convert(dst[3*n:], ys[n:], cbs[n:], crs[n:])
}

// The shares of chroma in red, green and blue, by JFIF, as libjpeg rounds them.
var redOf, blueOf, greenOfCb, greenOfCr = func() (red, blue, cb, cr [256]int32) {
	const half = 1 << 15
	for i := range red {
		x := int32(i) - 128
		red[i] = (91881*x + half) >> 16   // 1.402
		blue[i] = (116130*x + half) >> 16 // 1.772
		cb[i] = -22554*x + half           // 0.34414
		cr[i] = -46802 * x                // 0.71414
	}
	return
}()

func convert(dst, ys, cbs, crs []uint8) {
	cbs, crs = cbs[:len(ys)], crs[:len(ys)]
	for x, v := range ys {
		cb, cr := cbs[x], crs[x]
		y := int32(v)
		r := y + redOf[cr]
		g := y + (greenOfCb[cb]+greenOfCr[cr])>>16
		b := y + blueOf[cb]
		if uint32(r) > 255 {
			r = ^(r >> 31)
		}
		if uint32(g) > 255 {
			g = ^(g >> 31)
		}
		if uint32(b) > 255 {
			b = ^(b >> 31)
		}
		p := dst[x*3:][:3]
		p[0], p[1], p[2] = uint8(r), uint8(g), uint8(b)
	}
}

// Smooth makes two samples of each of n: the ones of pixels to the left and to the right of its
// middle, in the row of pixels that is nearer to in than to near. Each is 9/16 the nearest sample,
// 3/16 each of the two next to it and 1/16 the one across, as in libjpeg. in and near have n+2
// samples: one more on each side.
func Smooth(dst, in, near []uint8) {
	n := len(in) - 2
	done := 0
	if fast && n >= 16 {
		done = n &^ 15
		_, _ = dst[2*done-1], near[done+1]
		smoothAVX2(&dst[0], &in[0], &near[0], done)
	}
	smooth(dst[2*done:], in[done:], near[done:])
}

func smooth(dst, in, near []uint8) {
	if len(in) <= 2 {
		return
	}
	near = near[:len(in)]
	sum := func(x int) int32 { return int32(in[x])*3 + int32(near[x]) }
	before, this := sum(0), sum(1)
	for x := 1; x < len(in)-1; x++ {
		after := sum(x + 1)
		pair := dst[(x-1)*2:][:2]
		pair[0], pair[1] = uint8((3*this+before+8)>>4), uint8((3*this+after+7)>>4)
		before, this = this, after
	}
}

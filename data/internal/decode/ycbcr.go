package decode

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

func convertRow(dst, ys, cbs, crs []uint8) {
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

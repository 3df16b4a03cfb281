package decode

import (
	"image"
	"sync"

	"github.com/paragon-train/paragon/data/transform"
)

// A chroma is the memory that one image needs for its smoothed rows.
type chroma struct {
	sums   []int32 // a row of samples, mixed with its neighbour
	cb, cr []uint8 // rows as wide as the image
}

var chromas = sync.Pool{New: func() any { return new(chroma) }}

// fromYCbCr converts an image as libjpeg does.
func fromYCbCr(dst *transform.Image, m *image.YCbCr) {
	k := chromas.Get().(*chroma)
	defer chromas.Put(k)
	w, h := dst.Width, dst.Height
	if need := w + 16; cap(k.cb) < need {
		k.cb, k.cr, k.sums = make([]uint8, need), make([]uint8, need), make([]int32, need)
	}
	across, down := ratio(m.SubsampleRatio)
	cw, ch := (w+across-1)/across, (h+down-1)/down
	for y := range h {
		cb := k.row(k.cb[:cap(k.cb)], m.Cb, m.CStride, cw, ch, across, down, w, y)
		cr := k.row(k.cr[:cap(k.cr)], m.Cr, m.CStride, cw, ch, across, down, w, y)
		convertRow(dst.Pix[y*w*3:][:w*3], m.Y[y*m.YStride:][:w], cb[:w], cr[:w])
	}
}

// ratio is how many pixels a sample of chroma serves.
func ratio(r image.YCbCrSubsampleRatio) (across, down int) {
	switch r {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 1, 1
}

// row returns the chroma of row y of an image w wide; a plane has cw×ch samples. Where libjpeg smooths it does, too: two to one in either
// direction or in both, where a row has more than two samples.
func (k *chroma) row(out, plane []uint8, stride, cw, ch, across, down, w, y int) []uint8 {
	in := plane[y/down*stride:][:cw]
	// near is the row on the other side of pixel row y.
	near := in
	if down == 2 {
		other := y/2 - 1 + y%2*2
		near = plane[min(max(other, 0), ch-1)*stride:][:cw]
	}
	switch {
	case across == 1 && down == 1:
		return in
	case across == 1 && down == 2:
		bias := int32(1 + y%2)
		for x, v := range in {
			out[x] = uint8((int32(v)*3 + int32(near[x]) + bias) >> 2)
		}
	case across == 2 && down == 1 && cw > 2:
		last := cw - 1
		out[0] = in[0]
		out[1] = uint8((int32(in[0])*3 + int32(in[1]) + 2) >> 2)
		for x := 1; x < last; x++ {
			v := int32(in[x]) * 3
			out[2*x] = uint8((v + int32(in[x-1]) + 1) >> 2)
			out[2*x+1] = uint8((v + int32(in[x+1]) + 2) >> 2)
		}
		out[2*last] = uint8((int32(in[last])*3 + int32(in[last-1]) + 1) >> 2)
		out[2*last+1] = in[last]
	case across == 2 && down == 2 && cw > 2:
		sums := k.sums[:cw]
		for x, v := range in {
			sums[x] = int32(v)*3 + int32(near[x])
		}
		last := cw - 1
		out[0] = uint8((sums[0]*4 + 8) >> 4)
		out[1] = uint8((sums[0]*3 + sums[1] + 7) >> 4)
		before, this := sums[0], sums[1]
		for x := 1; x < last; x++ {
			after := sums[x+1]
			p := out[2*x:][:2]
			p[0] = uint8((this*3 + before + 8) >> 4)
			p[1] = uint8((this*3 + after + 7) >> 4)
			before, this = this, after
		}
		out[2*last] = uint8((sums[last]*3 + sums[last-1] + 8) >> 4)
		out[2*last+1] = uint8((sums[last]*4 + 7) >> 4)
	default:
		for x := range w {
			out[x] = in[x/across]
		}
	}
	return out
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

// fromLimited converts a WebP image as libwebp does: luminance is 16 to 235, and each chroma is 9/16 the nearest sample, 3/16 each of
// its two neighbours and 1/16 the one across.
func fromLimited(dst *transform.Image, m *image.YCbCr) {
	w, h := dst.Width, dst.Height
	across, down := ratio(m.SubsampleRatio)
	cw, ch := (w+across-1)/across, (h+down-1)/down
	at := func(plane []uint8, x, y int) int32 {
		cx, cy := x/across, y/down
		nx, ny := cx, cy
		if across == 2 {
			nx = min(max(cx-1+x%2*2, 0), cw-1)
		}
		if down == 2 {
			ny = min(max(cy-1+y%2*2, 0), ch-1)
		}
		near, far := plane[cy*m.CStride:], plane[ny*m.CStride:]
		return (int32(near[cx])*9 + int32(near[nx])*3 + int32(far[cx])*3 + int32(far[nx]) + 8) >> 4
	}
	for y := range h {
		for x := range w {
			v := int32(m.Y[y*m.YStride+x]) * 19077 >> 8
			cb, cr := at(m.Cb, x, y), at(m.Cr, x, y)
			p := dst.Pix[(y*w+x)*3:][:3]
			p[0] = limitedClip(v + cr*26149>>8 - 14234)
			p[1] = limitedClip(v - cb*6419>>8 - cr*13320>>8 + 8708)
			p[2] = limitedClip(v + cb*33050>>8 - 17685)
		}
	}
}

func limitedClip(v int32) uint8 { return uint8(min(255, max(0, v>>6))) }

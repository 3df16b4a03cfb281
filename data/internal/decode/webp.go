package decode

import (
	"image"

	"github.com/paragon-train/paragon/data/transform"
)

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

// fromLimited converts a WebP image as libwebp does: luminance is 16 to 235, and each chroma is
// 9/16 the nearest sample, 3/16 each of its two neighbours and 1/16 the one across.
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

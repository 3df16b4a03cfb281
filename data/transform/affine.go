package transform

import "math"

// A matrix says from where the pixel (x, y) comes: (m0·x + m1·y + m2, m3·x + m4·y + m5).
type matrix [6]float64

// shear takes each row from further right by across for every row above it, or each column from
// further down.
func shear(across, down float64) matrix { return matrix{1, across, 0, down, 1, 0} }

// rotation turns the image around its middle, against the clock, by degrees.
func rotation(degrees float64, width, height int) matrix {
	// Pillow rounds to 15 digits, so that a right angle has a cosine of 0.
	round := func(v float64) float64 { return math.RoundToEven(v*1e15) / 1e15 }
	a := -degrees * math.Pi / 180
	sin, cos := round(math.Sin(a)), round(math.Cos(a))
	cx, cy := float64(width)/2, float64(height)/2
	m := matrix{cos, sin, 0, -sin, cos, 0}
	m[2] = float64(m[0]*-cx) + float64(m[1]*-cy) + cx
	m[5] = float64(m[3]*-cx) + float64(m[4]*-cy) + cy
	return m
}

// translate moves the image to the right and down; what comes in is black.
func (img *Image) translate(right, down int) {
	c, w, h := img.Channels, img.Width, img.Height
	old := img.copied()
	defer old.giveBack()
	clear(img.Pix)
	from, to := max(0, right), min(w, w+right)
	if from >= to {
		return
	}
	for y := max(0, down); y < min(h, h+down); y++ {
		copy(img.Pix[(y*w+from)*c:(y*w+to)*c], old.between[((y-down)*w+from-right)*c:])
	}
}

// affine moves each pixel by m, to the nearest place; what comes in is black. Places have 16
// fraction bits, as in Pillow, which serves images of up to 32,768 pixels on a side.
func (img *Image) affine(m matrix) {
	c, w, h := img.Channels, img.Width, img.Height
	old := img.copied()
	defer old.giveBack()
	clear(img.Pix)
	fixed := func(v float64) int64 { return int64(math.Floor(float64(v*65536) + 0.5)) }
	ax, ay := fixed(m[0]), fixed(m[3])
	bx, by := fixed(m[1]), fixed(m[4])
	startX := fixed(m[2] + float64(m[0]*0.5) + float64(m[1]*0.5))
	startY := fixed(m[5] + float64(m[3]*0.5) + float64(m[4]*0.5))
	for y := range h {
		sx, sy := startX+int64(y)*bx, startY+int64(y)*by
		row := img.Pix[y*w*c:][:w*c]
		for x := range w {
			if px, py := int(sx>>16), int(sy>>16); uint(px) < uint(w) && uint(py) < uint(h) {
				from, to := old.between[(py*w+px)*c:][:c], row[x*c:][:c]
				copy(to, from)
			}
			sx, sy = sx+ax, sy+ay
		}
	}
}

// copied returns a resampler that keeps the pixels of img until it is given back.
func (img *Image) copied() *resampler {
	r := resamplers.Get().(*resampler)
	r.between = append(r.between[:0], img.Pix...)
	return r
}

func (r *resampler) giveBack() { resamplers.Put(r) }

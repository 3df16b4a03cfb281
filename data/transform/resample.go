package transform

import "sync"

// A resampler changes the size of images. It keeps the weights of the size before and the memory that it needs; each belongs to one
// goroutine at a time.
type resampler struct {
	across, down weights
	between      []uint8 // after the pass across: as wide as the new image, as high as the old box
}

// resamplers lends a resampler to each call of Apply.
var resamplers = sync.Pool{New: func() any { return new(resampler) }}

// A box is a part of an image, in pixels.
type box struct{ left, top, width, height int }

func (img *Image) all() box { return box{0, 0, img.Width, img.Height} }

// resample makes img the part of it in b, resized to width×height. As in Pillow the pass across comes first, and rounds to 8 bits;
// pixels outside of b do not count. A pass that changes nothing is left out.
func (img *Image) resample(b box, width, height int, filter Filter) {
	if b.width == width && b.height == height {
		img.crop(b)
		return
	}
	r := resamplers.Get().(*resampler)
	defer resamplers.Put(r)
	c := img.Channels
	source, stride := img.Pix[(b.top*img.Width+b.left)*c:], img.Width*c
	if b.width != width {
		r.across.fill(b.width, width, filter)
		r.between = grown(r.between, b.height*width*c)
		for y := range b.height {
			acrossRow(r.between[y*width*c:][:width*c], source[y*stride:][:b.width*c], &r.across, c)
		}
		if b.height == height {
			img.resize(width, height)
			copy(img.Pix, r.between)
			return
		}
		source, stride = r.between, width*c
	} else {
		// The pass down writes into img.Pix, so it reads from elsewhere.
		r.between = grown(r.between, b.height*width*c)
		for y := range b.height {
			copy(r.between[y*width*c:][:width*c], source[y*stride:])
		}
		source, stride = r.between, width*c
	}
	r.down.fill(b.height, height, filter)
	img.resize(width, height)
	for y := range height {
		first, count := int(r.down.first[y]), int(r.down.count[y])
		downRow(img.Pix[y*stride:][:stride], source[first*stride:][:count*stride], r.down.values[y*r.down.each:][:count])
	}
}

// half is what rounds a sum of weighted pixels.
const half = 1 << (fraction - 1)

// clip rounds a sum of weighted pixels to 8 bits.
func clip(sum int32) uint8 { return uint8(min(255, max(0, sum>>fraction))) }

// acrossRow makes one row of another width.
func acrossRow(dst, src []uint8, w *weights, channels int) {
	if channels == 1 {
		for x := range dst {
			first := int(w.first[x])
			values := w.values[x*w.each:][:w.count[x]]
			pixels := src[first:][:len(values)]
			sum := int32(half)
			for i, v := range values {
				sum += v * int32(pixels[i])
			}
			dst[x] = clip(sum)
		}
		return
	}
	for x := range w.out {
		first := int(w.first[x])
		values := w.values[x*w.each:][:w.count[x]]
		pixels := src[first*3:][:len(values)*3]
		r, g, b := int32(half), int32(half), int32(half)
		for i, v := range values {
			p := pixels[i*3:][:3]
			r += v * int32(p[0])
			g += v * int32(p[1])
			b += v * int32(p[2])
		}
		p := dst[x*3:][:3]
		p[0], p[1], p[2] = clip(r), clip(g), clip(b)
	}
}

// downRow makes one row of len(values) rows, which follow each other in src.
func downRow(dst, src []uint8, values []int32) {
	const wide = 16
	n := len(dst)
	for from := 0; from < n; from += wide {
		var sums [wide]int32
		for i := range sums {
			sums[i] = half
		}
		some := min(wide, n-from)
		for i, v := range values {
			row := src[i*n+from:][:some]
			if len(row) == wide {
				row := (*[wide]uint8)(row)
				for j := range sums {
					sums[j] += v * int32(row[j])
				}
				continue
			}
			for j, p := range row {
				sums[j] += v * int32(p)
			}
		}
		for j, s := range sums[:some] {
			dst[from+j] = clip(s)
		}
	}
}

// crop makes img its part in b. Rows move towards the beginning of its memory, so each is read before it is written over.
func (img *Image) crop(b box) {
	if b == img.all() {
		return
	}
	c := img.Channels
	n := b.width * c
	for y := range b.height {
		copy(img.Pix[y*n:][:n], img.Pix[((b.top+y)*img.Width+b.left)*c:])
	}
	img.resize(b.width, b.height)
}

// surround makes img width×height pixels, all 0 but img at (left, top), which may stand out on no side.
func (img *Image) surround(left, top, width, height int) {
	old := *img
	c := img.Channels
	img.Width, img.Height, img.Pix = width, height, make([]uint8, width*height*c)
	for y := range old.Height {
		copy(img.Pix[((top+y)*width+left)*c:], old.Pix[y*old.Width*c:][:old.Width*c])
	}
}

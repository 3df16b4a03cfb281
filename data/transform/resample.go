package transform

import (
	"sync"

	"github.com/paragon-train/paragon/data/internal/pixel"
)

// A resampler changes the size of images. It keeps the weights of the size before and the memory
// that it needs; each belongs to one goroutine at a time.
type resampler struct {
	across, down weights
	// between is the image after the pass across: as wide as the new one, as high as the old
	// box.
	between []uint8
}

// resamplers lends a resampler to each call of Apply.
var resamplers = sync.Pool{New: func() any { return new(resampler) }}

// A box is a part of an image, in pixels.
type box struct{ left, top, width, height int }

func (img *Image) all() box { return box{0, 0, img.Width, img.Height} }

// resample makes img the part of it in b, resized to width×height. As in Pillow the pass across
// comes first, and rounds to 8 bits; pixels outside of b do not count. A pass that changes nothing
// is left out.
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
		if c == 3 {
			pixel.Across(r.between, width*3, source, stride, b.height, &r.across.Weights)
		} else {
			for y := range b.height {
				pixel.AcrossGrey(r.between[y*width:][:width], source[y*stride:], &r.across.Weights)
			}
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
		first, count := int(r.down.First[y]), int(r.down.Count[y])
		pixel.Down(img.Pix[y*stride:][:stride], source[first*stride:], stride, r.down.Values[y*r.down.Each:][:count])
	}
}

// crop makes img its part in b. Rows move towards the beginning of its memory, so each is read
// before it is written over.
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

// surround makes img width×height pixels, all 0 but img at (left, top), which may stand out on no
// side.
func (img *Image) surround(left, top, width, height int) {
	old := *img
	c := img.Channels
	img.Width, img.Height, img.Pix = width, height, make([]uint8, width*height*c)
	for y := range old.Height {
		copy(img.Pix[((top+y)*width+left)*c:], old.Pix[y*old.Width*c:][:old.Width*c])
	}
}

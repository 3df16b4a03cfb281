package data

import (
	"fmt"
	"math/rand/v2"
)

// An Augment says what a Loader does to the pixels of an image on the way to
// float32. The zero value scales them to [0, 1] and does nothing else.
type Augment struct {
	// Pad adds so many black pixels on every side and takes a window of the
	// image's own size at a random place. Zero is none; 4 is usual for CIFAR.
	Pad int
	// Flip mirrors left and right, half of the time.
	Flip bool
	// Mean and Std, one number for each channel, make a pixel p in [0, 1] into
	// (p − mean)/std. Empty is 0 and 1.
	Mean, Std []float32
}

func (a Augment) validate(shape Shape) error {
	if a.Pad < 0 || a.Pad > max(shape.Height, shape.Width) {
		return fmt.Errorf("data: loader: Augment.Pad: got %d, want 0 to %d", a.Pad, max(shape.Height, shape.Width))
	}
	if n := len(a.Mean); n != 0 && n != shape.Channels {
		return fmt.Errorf("data: loader: Augment.Mean: got %d numbers, want one for each of %d channels", n, shape.Channels)
	}
	if n := len(a.Std); n != 0 && n != shape.Channels {
		return fmt.Errorf("data: loader: Augment.Std: got %d numbers, want one for each of %d channels", n, shape.Channels)
	}
	for i, s := range a.Std {
		if !(s > 0) {
			return fmt.Errorf("data: loader: Augment.Std[%d]: got %v, want above 0", i, s)
		}
	}
	return nil
}

// values returns what each byte of each channel becomes.
func (a Augment) values(channels int) [][256]float32 {
	table := make([][256]float32, channels)
	for c := range table {
		mean, std := float32(0), float32(1)
		if len(a.Mean) > 0 {
			mean = a.Mean[c]
		}
		if len(a.Std) > 0 {
			std = a.Std[c]
		}
		for p := range table[c] {
			table[c][p] = (float32(p)/255 - mean) / std
		}
	}
	return table
}

// An augmenter augments images one after the other. It belongs to one
// goroutine.
type augmenter struct {
	Augment
	shape  Shape
	table  [][256]float32
	source rand.PCG
}

// A Draw is what was drawn for one image: it shows the pixel DX columns to the right and DY rows
// below, black outside of the image, and is then mirrored left to right if Flip.
type Draw struct {
	DX, DY int
	Flip   bool
}

// draw depends on seed, epoch and index alone.
func (a *augmenter) draw(seed uint64, epoch, index int) Draw {
	if a.Pad == 0 && !a.Flip {
		return Draw{}
	}
	a.source.Seed(seed, mix(uint64(epoch), uint64(index)))
	width := uint64(2*a.Pad + 1)
	dx := int(a.source.Uint64()>>32*width>>32) - a.Pad
	dy := int(a.source.Uint64()>>32*width>>32) - a.Pad
	return Draw{dx, dy, a.Flip && a.source.Uint64()>>63 == 1}
}

// image writes the augmented image to dst.
func (a *augmenter) image(dst []float32, pixels []uint8, draw Draw) {
	dx, dy, flip := draw.DX, draw.DY, draw.Flip
	h, w := a.shape.Height, a.shape.Width

	// from and to are the columns that show the image, before the flip.
	from, to := max(0, -dx), min(w, w-dx)
	for c := range a.shape.Channels {
		table := &a.table[c]
		for y := range h {
			out := dst[(c*h+y)*w : (c*h+y+1)*w]
			sy := y + dy
			if sy < 0 || sy >= h {
				for x := range out {
					out[x] = table[0]
				}
				continue
			}
			in := pixels[(c*h+sy)*w : (c*h+sy+1)*w]
			for x := range from {
				out[x] = table[0]
			}
			for x := from; x < to; x++ {
				out[x] = table[in[x+dx]]
			}
			for x := max(from, to); x < w; x++ {
				out[x] = table[0]
			}
			if flip {
				for i, j := 0, w-1; i < j; i, j = i+1, j-1 {
					out[i], out[j] = out[j], out[i]
				}
			}
		}
	}
}

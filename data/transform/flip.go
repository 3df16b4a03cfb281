package transform

import (
	"fmt"
	"math/rand/v2"
)

// Flip mirrors left and right, half of the time.
func Flip() Transform { return flip{0.5} }

// FlipWith mirrors left and right with probability p.
func FlipWith(p float64) Transform {
	mustBeProbability("Flip", p)
	return flip{p}
}

func mustBeProbability(of string, p float64) {
	if !(p >= 0 && p <= 1) {
		panic(fmt.Sprintf("transform: %s: got probability %v, want 0 to 1", of, p))
	}
}

type flip struct{ p float64 }

func (f flip) String() string { return fmt.Sprintf("Flip(%v)", f.p) }

func (f flip) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("Flip", draw); err != nil {
		return nil, err
	}
	if happens(draw, f.p) {
		img.mirror()
	}
	return img, nil
}

// mirror swaps left and right.
func (img *Image) mirror() {
	n := img.Width * img.Channels
	for y := range img.Height {
		row := img.Pix[y*n:][:n]
		if img.Channels == 1 {
			for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
				row[i], row[j] = row[j], row[i]
			}
			continue
		}
		for i, j := 0, n-3; i < j; i, j = i+3, j-3 {
			a, b := (*[3]uint8)(row[i:]), (*[3]uint8)(row[j:])
			*a, *b = *b, *a
		}
	}
}

package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A RandomErasingConfig says what is erased.
type RandomErasingConfig struct {
	// P is the probability that something is erased.
	P float64
	// Scale is the smallest and the largest share of the image's area. Zero is 0.02 and 0.33.
	Scale [2]float64
	// Ratio is the smallest and the largest proportion of height to width. Zero is 0.3 and 3.3.
	Ratio [2]float64
	// Fill is what is left, red, green and blue; a grey image takes its luminance. Nil is the
	// mean color of ImageNet, 124 116 104: torchvision erases to 0 after the mean has been
	// subtracted.
	Fill *[3]uint8
}

func (c RandomErasingConfig) withDefaults() RandomErasingConfig {
	if c.Scale == [2]float64{} {
		c.Scale = [2]float64{0.02, 0.33}
	}
	if c.Ratio == [2]float64{} {
		c.Ratio = [2]float64{0.3, 3.3}
	}
	if c.Fill == nil {
		c.Fill = &[3]uint8{124, 116, 104}
	}
	return c
}

// Validate names the field that is wrong.
func (c RandomErasingConfig) Validate() error {
	c = c.withDefaults()
	if !(c.P >= 0 && c.P <= 1) {
		return fmt.Errorf("transform: RandomErasingConfig.P: got %v, want 0 to 1", c.P)
	}
	if !(c.Scale[0] > 0 && c.Scale[0] <= c.Scale[1] && c.Scale[1] <= 1) {
		return fmt.Errorf("transform: RandomErasingConfig.Scale: got %v, want 0 < from ≤ to ≤ 1", c.Scale)
	}
	return validateRatio("RandomErasingConfig.Ratio", c.Ratio)
}

// New returns the transform.
func (c RandomErasingConfig) New() (Transform, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return randomErasing{c.withDefaults()}, nil
}

// RandomErasing paints over a part of random size, proportion and place, with probability p: 2 to
// 33 % of the area.
func RandomErasing(p float64) Transform { return must(RandomErasingConfig{P: p}.New()) }

type randomErasing struct{ c RandomErasingConfig }

func (e randomErasing) String() string {
	return fmt.Sprintf("RandomErasing(%v, scale %v, ratio %v, fill %v)", e.c.P, e.c.Scale, e.c.Ratio, *e.c.Fill)
}

func (e randomErasing) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("RandomErasing", draw); err != nil {
		return nil, err
	}
	if !happens(draw, e.c.P) {
		return img, nil
	}
	b, ok := e.choose(img.Width, img.Height, draw)
	if !ok {
		return img, nil
	}
	fill := *e.c.Fill
	if img.Channels == 1 {
		fill[0] = grey(fill[0], fill[1], fill[2])
	}
	for y := b.top; y < b.top+b.height; y++ {
		row := img.Pix[(y*img.Width+b.left)*img.Channels:][:b.width*img.Channels]
		for i := range row {
			row[i] = fill[i%img.Channels]
		}
	}
	return img, nil
}

// choose draws the part; after ten that do not fit there is none.
func (e randomErasing) choose(width, height int, draw *rand.Rand) (box, bool) {
	area := float64(width) * float64(height)
	from, to := math.Log(e.c.Ratio[0]), math.Log(e.c.Ratio[1])
	for range 10 {
		target := area * uniform(draw, e.c.Scale[0], e.c.Scale[1])
		ratio := math.Exp(uniform(draw, from, to))
		h := int(math.RoundToEven(math.Sqrt(target * ratio)))
		w := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if w < width && h < height {
			top := below(draw, height-h+1)
			left := below(draw, width-w+1)
			return box{left, top, w, h}, true
		}
	}
	return box{}, false
}

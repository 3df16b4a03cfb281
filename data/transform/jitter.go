package transform

import (
	"fmt"
	"math/rand/v2"
)

// A ColorJitterConfig says how far colours are changed. In each, 0 changes nothing.
type ColorJitterConfig struct {
	// Brightness, Contrast and Saturation are drawn from 1−x, or 0 if that is below it, to 1+x,
	// and multiply.
	Brightness, Contrast, Saturation float64
	// Hue is drawn from −x to x, in turns of the circle of colours; at most 0.5.
	Hue float64
}

// Validate names the field that is wrong.
func (c ColorJitterConfig) Validate() error {
	for _, f := range []struct {
		name        string
		value, most float64
	}{{"Brightness", c.Brightness, 1e6}, {"Contrast", c.Contrast, 1e6}, {"Saturation", c.Saturation, 1e6}, {"Hue", c.Hue, 0.5}} {
		if !(f.value >= 0 && f.value <= f.most) {
			return fmt.Errorf("transform: ColorJitterConfig.%s: got %v, want 0 to %v", f.name, f.value, f.most)
		}
	}
	return nil
}

// New returns the transform.
func (c ColorJitterConfig) New() (Transform, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return colorJitter{c}, nil
}

// ColorJitter changes brightness, contrast, saturation and hue by random amounts, in random order.
func ColorJitter(brightness, contrast, saturation, hue float64) Transform {
	return must(ColorJitterConfig{brightness, contrast, saturation, hue}.New())
}

type colorJitter struct{ c ColorJitterConfig }

func (j colorJitter) String() string {
	return fmt.Sprintf("ColorJitter(%v, %v, %v, %v)", j.c.Brightness, j.c.Contrast, j.c.Saturation, j.c.Hue)
}

func (j colorJitter) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("ColorJitter", draw); err != nil {
		return nil, err
	}
	order := [4]int{0, 1, 2, 3}
	for i := 3; i > 0; i-- {
		k := below(draw, i+1)
		order[i], order[k] = order[k], order[i]
	}
	// Each is drawn, even if it changes nothing, so that the draws of one do not depend on the
	// others.
	factor := func(x float64) float64 { return uniform(draw, max(0, 1-x), 1+x) }
	brightness, contrast, saturation := factor(j.c.Brightness), factor(j.c.Contrast), factor(j.c.Saturation)
	hue := uniform(draw, -j.c.Hue, j.c.Hue)
	for _, which := range order {
		switch {
		case which == 0 && j.c.Brightness > 0:
			img.brightness(brightness)
		case which == 1 && j.c.Contrast > 0:
			img.contrast(contrast)
		case which == 2 && j.c.Saturation > 0:
			img.color(saturation)
		case which == 3 && j.c.Hue > 0:
			img.hue(hue)
		}
	}
	return img, nil
}

// Grayscale makes every pixel grey, and keeps three channels if there were three. Where one channel
// is wanted, let the images be decoded with one.
func Grayscale() Transform { return grayscale{} }

type grayscale struct{}

func (grayscale) String() string { return "Grayscale()" }

func (grayscale) Apply(img *Image, _ *rand.Rand) (*Image, error) {
	if err := img.check("Grayscale"); err != nil {
		return nil, err
	}
	img.desaturate()
	return img, nil
}

package transform

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"
)

// A RandomResizedCropConfig says which part of an image is taken, and to what size it is resized.
type RandomResizedCropConfig struct {
	// Width and Height are the size of what is returned.
	Width, Height int
	// Scale is the smallest and the largest share of the image's area that is taken. Zero is
	// 0.08 and 1.
	Scale [2]float64
	// Ratio is the smallest and the largest proportion of width to height. Zero is 3/4 and 4/3.
	Ratio [2]float64
	// Filter weighs the pixels; zero is Bilinear.
	Filter Filter
}

func (c RandomResizedCropConfig) withDefaults() RandomResizedCropConfig {
	if c.Scale == [2]float64{} {
		c.Scale = [2]float64{0.08, 1}
	}
	if c.Ratio == [2]float64{} {
		c.Ratio = [2]float64{3. / 4, 4. / 3}
	}
	return c
}

// Validate names the field that is wrong.
func (c RandomResizedCropConfig) Validate() error {
	c = c.withDefaults()
	if err := validateSide("RandomResizedCropConfig.Width", c.Width); err != nil {
		return err
	}
	if err := validateSide("RandomResizedCropConfig.Height", c.Height); err != nil {
		return err
	}
	if !(c.Scale[0] > 0 && c.Scale[0] <= c.Scale[1] && c.Scale[1] <= 1) {
		return fmt.Errorf("transform: RandomResizedCropConfig.Scale: got %v, want 0 < from ≤ to ≤ 1", c.Scale)
	}
	if err := validateRatio("RandomResizedCropConfig.Ratio", c.Ratio); err != nil {
		return err
	}
	return c.Filter.validate("RandomResizedCropConfig")
}

func validateRatio(of string, ratio [2]float64) error {
	if !(ratio[0] > 0 && ratio[0] <= ratio[1] && ratio[1] <= 1e6) {
		return fmt.Errorf("transform: %s: got %v, want 0 < from ≤ to ≤ 1e6", of, ratio)
	}
	return nil
}

// New returns the transform.
func (c RandomResizedCropConfig) New() (Sizer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return randomResizedCrop{c.withDefaults()}, nil
}

// RandomResizedCrop takes a part of random size, proportion and place, and resizes it to a square:
// 8 to 100 % of the area, with sides of 3:4 to 4:3.
func RandomResizedCrop(size int) Sizer {
	if err := validateSide("RandomResizedCrop", size); err != nil {
		panic(err.Error())
	}
	return must(RandomResizedCropConfig{Width: size, Height: size}.New())
}

type randomResizedCrop struct{ c RandomResizedCropConfig }

func (r randomResizedCrop) Size() (int, int) { return r.c.Width, r.c.Height }

func (r randomResizedCrop) String() string {
	return fmt.Sprintf("RandomResizedCrop(%d, %d, scale %v, ratio %v, %v)", r.c.Width, r.c.Height, r.c.Scale, r.c.Ratio, r.c.Filter)
}

func (r randomResizedCrop) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("RandomResizedCrop", draw); err != nil {
		return nil, err
	}
	img.resample(r.choose(img.Width, img.Height, draw), r.c.Width, r.c.Height, r.c.Filter)
	return img, nil
}

// Part implements Cropper.
func (r randomResizedCrop) Part(width, height int, draw *rand.Rand) (image.Rectangle, error) {
	if draw == nil {
		return image.Rectangle{}, noDraw("RandomResizedCrop")
	}
	if width < 1 || height < 1 {
		return image.Rectangle{}, fmt.Errorf("transform: RandomResizedCrop: got an image of %d×%d pixels, want at least 1×1", width, height)
	}
	b := r.choose(width, height, draw)
	return image.Rect(b.left, b.top, b.left+b.width, b.top+b.height), nil
}

// ApplyToPart implements Cropper.
func (r randomResizedCrop) ApplyToPart(img *Image) (*Image, error) {
	if err := img.check("RandomResizedCrop"); err != nil {
		return nil, err
	}
	img.resample(img.all(), r.c.Width, r.c.Height, r.c.Filter)
	return img, nil
}

// choose draws the part. After ten parts that do not fit it takes the largest one in the middle
// whose proportion is allowed.
func (r randomResizedCrop) choose(width, height int, draw *rand.Rand) box {
	area := float64(width) * float64(height)
	from, to := math.Log(r.c.Ratio[0]), math.Log(r.c.Ratio[1])
	for range 10 {
		target := area * uniform(draw, r.c.Scale[0], r.c.Scale[1])
		ratio := math.Exp(uniform(draw, from, to))
		w := int(math.RoundToEven(math.Sqrt(target * ratio)))
		h := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if 0 < w && w <= width && 0 < h && h <= height {
			top := below(draw, height-h+1)
			left := below(draw, width-w+1)
			return box{left, top, w, h}
		}
	}
	w, h := width, height
	switch ratio := float64(width) / float64(height); {
	case ratio < r.c.Ratio[0]:
		h = int(math.RoundToEven(float64(w) / r.c.Ratio[0]))
	case ratio > r.c.Ratio[1]:
		w = int(math.RoundToEven(float64(h) * r.c.Ratio[1]))
	}
	w, h = min(max(w, 1), width), min(max(h, 1), height)
	return box{(width - w) / 2, (height - h) / 2, w, h}
}

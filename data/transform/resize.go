package transform

import (
	"fmt"
	"math/rand/v2"
)

// maxSide is the longest side that a transform makes.
const maxSide = 1 << 15

func validateSide(of string, n int) error {
	if n < 1 || n > maxSide {
		return fmt.Errorf("transform: %s: got %d pixels, want 1 to %d", of, n, maxSide)
	}
	return nil
}

// A ResizeConfig says to what size an image is resized.
type ResizeConfig struct {
	// Shorter is the length of the shorter side; the longer one keeps the proportion, cut to
	// whole pixels. It or Width and Height is set.
	Shorter int
	// Width and Height are the new size, whatever the proportion was.
	Width, Height int
	// Filter weighs the pixels; zero is Bilinear.
	Filter Filter
}

// Validate names the field that is wrong.
func (c ResizeConfig) Validate() error {
	if c.Shorter != 0 {
		if c.Width != 0 || c.Height != 0 {
			return fmt.Errorf("transform: ResizeConfig: got Shorter %d and %d×%d, want one of them", c.Shorter, c.Width, c.Height)
		}
		if err := validateSide("ResizeConfig.Shorter", c.Shorter); err != nil {
			return err
		}
		return c.Filter.validate("ResizeConfig")
	}
	if err := validateSide("ResizeConfig.Width", c.Width); err != nil {
		return err
	}
	if err := validateSide("ResizeConfig.Height", c.Height); err != nil {
		return err
	}
	return c.Filter.validate("ResizeConfig")
}

// New returns the transform.
func (c ResizeConfig) New() (Sizer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return resize{c}, nil
}

// Resize makes the shorter side so many pixels long, and keeps the proportion.
func Resize(size int) Sizer {
	if size < 1 {
		panic(validateSide("Resize", size).Error())
	}
	return must(ResizeConfig{Shorter: size}.New())
}

// ResizeTo makes every image of this size, whatever its proportion.
func ResizeTo(width, height int) Sizer {
	return must(ResizeConfig{Width: width, Height: height}.New())
}

type resize struct{ c ResizeConfig }

func (r resize) Size() (int, int) { return r.c.Width, r.c.Height }

func (r resize) String() string {
	if r.c.Shorter != 0 {
		return fmt.Sprintf("Resize(%d, %v)", r.c.Shorter, r.c.Filter)
	}
	return fmt.Sprintf("ResizeTo(%d, %d, %v)", r.c.Width, r.c.Height, r.c.Filter)
}

func (r resize) Apply(img *Image, _ *rand.Rand) (*Image, error) {
	if err := img.check("Resize"); err != nil {
		return nil, err
	}
	width, height := r.c.Width, r.c.Height
	if s := r.c.Shorter; s != 0 {
		if img.Width <= img.Height {
			width, height = s, s*img.Height/img.Width
		} else {
			width, height = s*img.Width/img.Height, s
		}
		if max(width, height) > maxSide {
			return nil, fmt.Errorf("transform: Resize: an image of %d×%d pixels would have %d×%d, want at most %d on a side",
				img.Width, img.Height, width, height, maxSide)
		}
	}
	img.resample(img.all(), width, height, r.c.Filter)
	return img, nil
}

package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// CenterCrop cuts a square out of the middle. A side that is shorter is made longer with black on
// both ends.
func CenterCrop(size int) Sizer { return CenterCropTo(size, size) }

// CenterCropTo is CenterCrop for a rectangle.
func CenterCropTo(width, height int) Sizer {
	for _, n := range []int{width, height} {
		if err := validateSide("CenterCrop", n); err != nil {
			panic(err.Error())
		}
	}
	return centerCrop{width, height}
}

type centerCrop struct{ width, height int }

func (c centerCrop) Size() (int, int) { return c.width, c.height }

func (c centerCrop) String() string { return fmt.Sprintf("CenterCrop(%d, %d)", c.width, c.height) }

func (c centerCrop) Apply(img *Image, _ *rand.Rand) (*Image, error) {
	if err := img.check("CenterCrop"); err != nil {
		return nil, err
	}
	if width, height := max(c.width, img.Width), max(c.height, img.Height); width > img.Width || height > img.Height {
		img.surround((width-img.Width)/2, (height-img.Height)/2, width, height)
	}
	// An odd number of pixels is halved to the even side.
	left := int(math.RoundToEven(float64(img.Width-c.width) / 2))
	top := int(math.RoundToEven(float64(img.Height-c.height) / 2))
	img.crop(box{left, top, c.width, c.height})
	return img, nil
}

// RandomCrop cuts a square out of a random place, after it has added pad black pixels on every
// side. An image that is too small for it is an error.
func RandomCrop(size, pad int) Sizer {
	if err := validateSide("RandomCrop", size); err != nil {
		panic(err.Error())
	}
	if pad < 0 || pad > maxSide {
		panic(fmt.Sprintf("transform: RandomCrop: got pad %d, want 0 to %d", pad, maxSide))
	}
	return randomCrop{size, pad}
}

type randomCrop struct{ size, pad int }

func (c randomCrop) Size() (int, int) { return c.size, c.size }

func (c randomCrop) String() string { return fmt.Sprintf("RandomCrop(%d, pad %d)", c.size, c.pad) }

func (c randomCrop) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("RandomCrop", draw); err != nil {
		return nil, err
	}
	width, height := img.Width+2*c.pad, img.Height+2*c.pad
	if width < c.size || height < c.size {
		return nil, fmt.Errorf("transform: RandomCrop: got an image of %d×%d pixels with %d more on every side, want at least %d×%d",
			img.Width, img.Height, c.pad, c.size, c.size)
	}
	top := below(draw, height-c.size+1)
	left := below(draw, width-c.size+1)
	if c.pad > 0 {
		img.surround(c.pad, c.pad, width, height)
	}
	img.crop(box{left, top, c.size, c.size})
	return img, nil
}

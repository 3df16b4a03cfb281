// Package transform changes images as they are read: resizes, crops, flips, and changes of colour
// drawn at random.
//
// A Transform takes an image and the random numbers of its example, and gives an image. What it
// draws depends on these numbers alone, which a loader derives from (seed, epoch, index); so an
// example looks the same whoever reads it and when.
//
//	train := []transform.Transform{transform.RandomResizedCrop(224), transform.Flip(), transform.TrivialAugment()}
//	test := []transform.Transform{transform.Resize(256), transform.CenterCrop(224)}
//
// The names and what they draw are those of torchvision. What is done to the pixels is what
// torchvision does to a PIL image: it is Pillow's arithmetic, value for value, for resizing with
// every [Filter] and for every change of colour or place.
//
// A function such as [RandomResizedCrop] takes what is mostly set and panics on a number that makes
// no sense, since the number stands in the program. Where a transform has more options, or its
// numbers come from flags or files, a struct such as [RandomResizedCropConfig] has them all: its
// Validate names the field that is wrong, and its New returns an error.
//
// No transform changes how many channels an image has. Each prints itself with its options: a
// checkpoint can name how the images of a run were read.
package transform

import (
	"fmt"
	"image"
	"math/rand/v2"
)

// An Image has 8-bit pixels, row by row, with the channels of a pixel next to each other: grey (1)
// or red, green and blue (3).
type Image struct {
	Width, Height, Channels int
	// Pix has Width·Height·Channels bytes.
	Pix []uint8
}

// A Transform changes an image.
//
// Apply returns the changed image, which may be img itself or share its memory: those of this
// package write into img, so that an image that is read again and again into the same memory costs
// no garbage. It never keeps img. It may be called from several goroutines at once, for different
// images. A draw of nil stands for no chance: a transform that draws then gives an error, since an
// evaluation should have none. An image that it cannot change, such as one of no pixels, is an
// error.
type Transform interface {
	Apply(img *Image, draw *rand.Rand) (*Image, error)
}

// A Sizer is a Transform that fixes the size of what it returns.
type Sizer interface {
	Transform
	// Size is the width and height of every image that Apply returns; 0, 0: they vary.
	Size() (width, height int)
}

// A Cropper is a Transform that first takes a part of an image, and knows which by its size and the
// draws. What decodes the image may leave out the rest: Apply is the same as Part, then a cut, then
// ApplyToPart.
type Cropper interface {
	Transform
	// Part draws the part of an image of this size.
	Part(width, height int, draw *rand.Rand) (image.Rectangle, error)
	// ApplyToPart does the rest to an image that is the part.
	ApplyToPart(img *Image) (*Image, error)
}

// check says whether img can be changed. It names the transform in its error.
func (img *Image) check(name string) error {
	switch {
	case img == nil:
		return fmt.Errorf("transform: %s: got no image", name)
	case img.Width < 1 || img.Height < 1:
		return fmt.Errorf("transform: %s: got an image of %d×%d pixels, want at least 1×1", name, img.Width, img.Height)
	case img.Channels != 1 && img.Channels != 3:
		return fmt.Errorf("transform: %s: got an image of %d channels, want 1 or 3", name, img.Channels)
	case len(img.Pix) != img.Width*img.Height*img.Channels:
		return fmt.Errorf("transform: %s: got %d bytes for an image of %d×%d pixels in %d channels, want %d",
			name, len(img.Pix), img.Width, img.Height, img.Channels, img.Width*img.Height*img.Channels)
	}
	return nil
}

// checkDraw is check for a transform that draws.
func (img *Image) checkDraw(name string, draw *rand.Rand) error {
	if draw == nil {
		return noDraw(name)
	}
	return img.check(name)
}

func noDraw(name string) error {
	return fmt.Errorf("transform: %s draws, but was given no random numbers; leave it out of an evaluation", name)
}

// resize gives img another size, with room for its pixels. Their values are whatever is there.
func (img *Image) resize(width, height int) {
	img.Width, img.Height = width, height
	n := width * height * img.Channels
	if cap(img.Pix) < n {
		img.Pix = make([]uint8, n)
	}
	img.Pix = img.Pix[:n]
}

// must returns t; a wrong number that stands in the program is a fault of the program.
func must[T Transform](t T, err error) T {
	if err != nil {
		panic(err.Error())
	}
	return t
}

// Package transform changes images as they are read: resizes, crops, flips, and changes of colour drawn at random.
//
// A Transform takes an image and the random numbers of its example, and gives an image. What it draws depends on these numbers
// alone, which a loader derives from (seed, epoch, index); so an example looks the same whoever reads it and when.
//
//	train := []transform.Transform{transform.RandomResizedCrop(224), transform.TrivialAugment()}
//	test := []transform.Transform{transform.Resize(256), transform.CenterCrop(224)}
//
// The names and what they draw are those of torchvision; the resampling is Pillow's, value for value.
package transform

import "math/rand/v2"

// An Image has 8-bit pixels, row by row, with the channels of a pixel next to each other: grey (1) or red, green and blue (3).
type Image struct {
	Width, Height, Channels int
	// Pix has Width·Height·Channels bytes.
	Pix []uint8
}

// A Transform changes an image.
//
// Apply returns the changed image, which may be img itself or share its memory. It never keeps img. It may be called from several
// goroutines at once. A draw of nil stands for no chance: a transform that draws then gives an error, since an evaluation
// should have none. An image that it cannot change, such as one of no pixels, is an error.
type Transform interface {
	Apply(img *Image, draw *rand.Rand) (*Image, error)
}

// A Sizer is a Transform that fixes the size of what it returns.
type Sizer interface {
	Transform
	// Size is the width and height of every image that Apply returns; 0, 0: they vary.
	Size() (width, height int)
}

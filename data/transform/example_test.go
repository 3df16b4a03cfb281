package transform_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/paragon-train/paragon/data/transform"
)

// What torchvision's recipe for ImageNet does to an image of a camera, in a training and in a test.
func Example() {
	train := []transform.Transform{transform.RandomResizedCrop(224), transform.Flip()}
	test := []transform.Transform{transform.Resize(256), transform.CenterCrop(224)}
	for _, transforms := range [][]transform.Transform{train, test} {
		img := &transform.Image{Width: 500, Height: 375, Channels: 3, Pix: make([]uint8, 500*375*3)}

		// The source is drawn from the seed, the epoch and the index of the example.
		draw := rand.New(rand.NewPCG(1, 2))
		for _, t := range transforms {
			var err error
			if img, err = t.Apply(img, draw); err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("%v: %d×%d\n", t, img.Width, img.Height)
		}
	}
	// Output:
	// RandomResizedCrop(224, 224, scale [0.08 1], ratio [0.75 1.3333333333333333], bilinear): 224×224
	// Flip(0.5): 224×224
	// Resize(256, bilinear): 341×256
	// CenterCrop(224, 224): 224×224
}

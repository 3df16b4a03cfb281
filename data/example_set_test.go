package data_test

import (
	"bytes"
	"fmt"

	"github.com/paragon-train/paragon/data"
)

// Images of the shape of CIFAR-10 for machines without data. The same seed draws the same images.
func ExampleSynthetic() {
	a, b := data.Synthetic(4, 1), data.Synthetic(4, 1)
	fmt.Println(a.Len(), "images of", a.Shape())
	fmt.Println("equal:", a.Label(3) == b.Label(3) && bytes.Equal(a.Pixels(3), b.Pixels(3)))
	// Output:
	// 4 images of 3×32×32
	// equal: true
}

package data_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/sampler"
)

// Two batches of 64 and a padded one, read in the order of a sampler.
func ExampleLoader() {
	set := data.Synthetic(150, 1)
	s, err := sampler.Split(set.Len(), 1, 0, sampler.Seed(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := data.NewLoader(set, s.Epoch(0), data.LoaderConfig{
		BatchSize: 64,
		Augment:   data.Augment{Pad: 4, Flip: true, Mean: data.CIFAR10Mean, Std: data.CIFAR10Std},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	for {
		b, err := l.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(b.N, "examples in", len(b.Images), "values")
	}
	// Output:
	// 64 examples in 196608 values
	// 64 examples in 196608 values
	// 22 examples in 196608 values
}

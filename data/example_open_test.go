package data_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
)

// Images of a folder with one of each class, or of another format or place: testdata/photos might
// as well be s3://bucket/photos, train.rec or shards-{000..099}.tar.
func ExampleOpenImages() {
	images, err := data.OpenImages(context.Background(), "testdata/photos", data.OpenOptions{
		Transforms: []transform.Transform{transform.RandomResizedCrop(32), transform.Flip(), transform.TrivialAugment()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer images.Close()
	fmt.Println(images.Len(), "images of", images.Shape(), "in", images.Classes())

	// Training gives them to a feed: worker.ImageFeedConfig{Dataset: images, Augment: data.Augment{Mean: data.ImageNetMean, Std: data.ImageNetStd}, ...}.
	// Output: 4 images of 3×32×32 in [cross disc]
}

package checkpointtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/checkpointtest"
)

// A bucket that fails while a file is written keeps what it had.
func ExampleBucket() {
	ctx := context.Background()
	b, uri := checkpointtest.New()
	w := []checkpoint.Tensor{checkpoint.Float32s("w", []int{1}, []float32{1})}
	fmt.Println(checkpoint.SaveURI(ctx, uri+"/model.safetensors", nil, w))
	b.Fault = func(_ context.Context, op, name string) error {
		if op == "commit" {
			return errors.New("the disk is full")
		}
		return nil
	}
	fmt.Println(checkpoint.SaveURI(ctx, uri+"/other.safetensors", nil, w))
	fmt.Println(b.Names())
	// Output:
	// <nil>
	// checkpoint: save: write run/other.safetensors: the disk is full
	// [run/model.safetensors]
}

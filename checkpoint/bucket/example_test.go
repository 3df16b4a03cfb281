package bucket_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	_ "github.com/paragon-train/paragon/checkpoint/bucket" // s3://, gs://, azblob:// and mem:// are places now
)

// A checkpoint is saved to a bucket and read back. The example uses memory (mem://) where a program
// would name s3://bucket/prefix?region=eu-central-1.
func Example() {
	err := checkpoint.SaveURI(context.Background(), "mem://bucket/model.safetensors", nil,
		[]checkpoint.Tensor{checkpoint.Float32s("w", []int{2}, []float32{1, 2})})
	fmt.Println(err)
	// Output: <nil>
}

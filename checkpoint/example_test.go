package checkpoint_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/checkpoint"
)

// A model that another program has written is read into a program's own arrays. An array that is
// missing in the file would be an error.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "import")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "model.safetensors")
	err = checkpoint.Save(file, nil, []checkpoint.Tensor{
		checkpoint.Float32s("fc.weight", []int{2, 2}, []float32{1, 2, 3, 4}),
		checkpoint.Float32s("extra", []int{1}, []float32{5}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	weight := make([]float32, 4)
	unused, err := checkpoint.Import(context.Background(), file, []checkpoint.Array{{Name: "fc.weight", Shape: []int{2, 2}, Values: weight}})
	fmt.Println(weight, unused, err)
	// Output: [1 2 3 4] [extra] <nil>
}

// A backbone goes into a model with a head of its own: the file calls it "backbone", and the head
// keeps the values that it has.
func ExampleImportPart() {
	dir, err := os.MkdirTemp("", "import")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "model.safetensors")
	err = checkpoint.Save(file, nil, []checkpoint.Tensor{
		checkpoint.Float32s("backbone.conv.weight", []int{2}, []float32{1, 2}),
		checkpoint.Float32s("head.weight", []int{1000}, make([]float32, 1000)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	conv, fc := make([]float32, 2), []float32{0.1, 0.2}
	done, err := checkpoint.ImportPart(context.Background(), file, []checkpoint.Array{
		{Name: "conv.weight", Shape: []int{2}, Values: conv},
		{Name: "fc.weight", Shape: []int{2}, Values: fc},
	}, checkpoint.ImportConfig{Rename: []string{"backbone.*=*"}, Skip: []string{"fc.*"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("loaded", done.Loaded, conv, "kept", done.Skipped, fc, "not used", done.Unused)
	// Output: loaded [conv.weight] [1 2] kept [fc.weight] [0.1 0.2] not used [head.weight]
}

// A place stores files by name: a folder here, a bucket (package bucket) under a URL.
func ExampleOpenPlace() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "place")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	place, err := checkpoint.OpenPlace(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer place.Close()
	err = checkpoint.SaveTo(ctx, place, "step-00000007/store.safetensors", map[string]string{"step": "7"},
		[]checkpoint.Tensor{checkpoint.Float32s("w", []int{1}, []float32{1})})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, err := checkpoint.ListSaved(ctx, place)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range steps { // the manifest is written last: without it the checkpoint does not count
		fmt.Println(s.Steps, s.Files, s.Complete())
	}
	// Output: 7 [step-00000007/store.safetensors] false
}

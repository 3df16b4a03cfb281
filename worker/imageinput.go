package worker

import (
	"fmt"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/nn"
)

// An imageInput is the memory behind a program's inputs "images", "labels" and "targets".
type imageInput struct {
	// batch is the number of images.
	batch  int
	images []float32
	// labels have length 0 where the program has targets alone.
	labels nn.LabelInput
	// targets are nil where it has none. Its rows have width numbers.
	targets []float32
	width   int
}

// targetWidth is how many targets an image has; 0: it has a label.
func targetWidth(dataset data.Dataset, mix data.Mix) int {
	if e, ok := dataset.(data.ExampleReader); ok && e.LabelWidth() > 0 {
		return e.LabelWidth()
	}
	if mix.Mixup != 0 || mix.CutMix != 0 {
		return mix.Classes
	}
	return 0
}

// imageInputs finds the inputs of a program for images with so many targets each.
func imageInputs(program *nn.Program, shape data.Shape, width int) (in imageInput, err error) {
	if in.images, err = program.Input("images"); err != nil {
		return in, err
	}
	in.batch, in.width = len(in.images)/shape.Size(), width
	labels, err := program.Labels("labels")
	switch {
	case err == nil:
		in.batch, in.labels = labels.Len(), labels
	case width == 0:
		return in, err
	}
	if len(in.images) != in.batch*shape.Size() {
		return in, fmt.Errorf("input images has %d values, want %d images of %v", len(in.images), in.batch, shape)
	}
	if width == 0 {
		return in, nil
	}
	if in.targets, err = program.Input("targets"); err != nil {
		return in, fmt.Errorf("%w: images with several labels, or mixed ones, need targets, as for nn.BinaryCrossEntropy or nn.SoftCrossEntropy", err)
	}
	if len(in.targets) != in.batch*width {
		return in, fmt.Errorf("input targets has %d numbers, want %d for each of %d images", len(in.targets), width, in.batch)
	}
	return in, nil
}

// set fills the inputs with some images of a batch, of which the first n count; inBytes: the images
// themselves went elsewhere.
func (in *imageInput) set(batch *data.Batch, first, share, n int, inBytes bool) {
	if !inBytes {
		size := len(in.images) / in.batch
		copy(in.images, batch.Images[first*size:(first+share)*size])
	}
	in.setLabels(batch.Labels[first : first+n])
	if in.targets != nil {
		copy(in.targets, batch.Targets[first*in.width:(first+share)*in.width])
	}
}

// setLabels fills labels in, if the program has them; the others are −1.
func (in *imageInput) setLabels(labels []int32) {
	if in.labels.Len() > 0 {
		in.labels.Set(labels)
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
)

// ImageEvaluator measures loss and accuracy on a data set of images; every worker evaluates all of it. A device that takes images as
// bytes gets them so.
type ImageEvaluator struct {
	// Program is compiled for inference, shares its parameters with the trainer's first program, and has Logits (N, classes)
	// among its outputs.
	Program *nn.Program
	Logits  *gorgonia.Node
	Dataset data.Dataset
	// Augment should only normalise.
	Augment data.Augment
}

// Evaluate runs the model over the whole data set.
func (e *ImageEvaluator) Evaluate(ctx context.Context) (scores Scores, err error) {
	images, labels, err := imageInputs(e.Program, e.Dataset.Shape())
	if err != nil {
		return Scores{}, fmt.Errorf("worker: evaluate: %w", err)
	}
	pixels, err := e.Program.Pixels("images", pixelsConfig(e.Dataset.Shape(), e.Augment))
	if err != nil && !errors.Is(err, nn.ErrNoPixels) {
		return Scores{}, fmt.Errorf("worker: evaluate: %w", err)
	}
	order := func(yield func(int) bool) {
		for i := range e.Dataset.Len() {
			if !yield(i) {
				return
			}
		}
	}
	loader, err := data.NewLoader(e.Dataset, order, data.LoaderConfig{BatchSize: labels.Len(), Augment: e.Augment, Raw: pixels != nil})
	if err != nil {
		return Scores{}, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	e.Program.Hold(true) // nothing trains meanwhile
	defer e.Program.Hold(false)
	var loss metrics.Mean
	var accuracy metrics.Accuracy
	for {
		batch, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Scores{}, err
		}
		if pixels != nil {
			setPixels(pixels, batch.Pixels, batch.Draws)
		} else {
			copy(images, batch.Images)
		}
		labels.Set(batch.Labels[:batch.N])
		if err := e.Program.SetExamples(batch.N); err != nil {
			return Scores{}, fmt.Errorf("worker: evaluate: %w", err)
		}
		if err := e.Program.Forward(ctx); err != nil {
			return Scores{}, err
		}
		logits, err := e.Program.Output(e.Logits)
		if err != nil {
			return Scores{}, err
		}
		loss.Add(e.Program.Loss(), float64(batch.N))
		accuracy.AddLogits(logits, batch.Labels[:batch.N], len(logits)/labels.Len())
	}
	return Scores{Loss: loss.Value(), Accuracy: accuracy.Value(), Examples: int(accuracy.Total)}, nil
}

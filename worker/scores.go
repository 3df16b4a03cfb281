package worker

import (
	"context"
	"math"

	"github.com/paragon-train/paragon/metrics"
)

// An Evaluator measures the model; Fit calls it after each epoch, and within one by EvaluateSteps,
// with all values in place. One that is a DividedEvaluator, as those of this package are, is
// divided among the workers; another one evaluates all on each.
type Evaluator interface {
	Evaluate(ctx context.Context) (Scores, error)
}

// Scores of an evaluation.
type Scores struct {
	// Loss is the mean over the examples.
	Loss float64
	// Accuracy is the share of examples whose highest logit is their label. NaN: there are no
	// labels.
	Accuracy float64
	// Examples is how many count, and Bad how many are damaged and were left out.
	Examples, Bad int
	// Metrics are the other scores, in the order of the evaluator's Metrics.
	Metrics []metrics.Measured
}

// Get is the score of a name: "loss", "accuracy", or that of a metric.
func (s *Scores) Get(name string) (value float64, ok bool) {
	switch name {
	case "loss":
		return s.Loss, true
	case "accuracy":
		return s.Accuracy, true
	}
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return math.NaN(), false
}

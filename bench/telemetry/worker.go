package main

import (
	"context"

	"github.com/paragon-train/paragon/bench/internal/perceptron"
	"github.com/paragon-train/paragon/optim"
)

// work is a worker of the job. The model has eight layers of 256·256 weights, 18 keys and 2.1 MB in all: steps of 10 to 50 ms on one core, and more
// requests for a second of computing than a large network has.
func work() error {
	return perceptron.Train(context.Background(), perceptron.Config{Layers: 8, Width: 256, Classes: 16, Batch: 256, Examples: 65_536,
		Optimizer: optim.Config{Name: "sgd", LearningRate: 1e-4}})
}

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/bench/internal/perceptron"
	"github.com/paragon-train/paragon/optim"
)

// work is a worker of the job. The model has 1024·1024 + 1024·128 weights and a few: 4.7 MB. An epoch is short, since each change in it is one more
// division of all its examples, which every worker that comes derives again.
func work() error {
	pause, err := time.ParseDuration(os.Getenv(stepEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", stepEnv, err)
	}
	return perceptron.Train(context.Background(), perceptron.Config{Layers: 1, Width: 1024, Classes: 128, Batch: 4, Examples: 4_000, Pause: pause,
		Optimizer: optim.Config{Name: "adam", LearningRate: 1e-4}})
}

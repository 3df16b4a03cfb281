// Command customtrainer is a training loop of one's own with nothing of Paragon but kvstore (and
// package optim, which names the optimizer of the servers): linear regression, each worker on its
// own part of the data. Workers may come and go while it runs.
//
//	customtrainer
//	launch -n 4 -s 2 -- customtrainer
//	launch -n 2 -s 1 --elastic-training-enabled -H hosts -- customtrainer
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/version"
)

// There are so many examples of so many numbers; batch is how many a worker takes in a step.
const (
	features = 16
	length   = 4096
	batch    = 32
)

func main() {
	epochs := flag.Int("epochs", 3, "passes over the examples")
	version.AddFlag(flag.CommandLine)
	kvstore.ParseFlags()
	_, err := train(context.Background(), "dist_sync", *epochs)
	switch {
	case errors.Is(err, kvstore.ErrRemoved):
		fmt.Fprintln(os.Stderr, "customtrainer: removed from the job on request; the other workers continue")
	case err != nil:
		fmt.Fprintln(os.Stderr, "customtrainer:", err)
		os.Exit(1)
	}
}

// train returns how far the farthest weight ends from the truth.
func train(ctx context.Context, store string, epochs int) (worst float32, err error) {
	kv, err := kvstore.Create(ctx, store)
	if err != nil {
		return 0, err
	}
	defer func() { err = kvstore.Leave(kv, err) }()

	truth, xs, ys := draw()
	weight, gradient := make([]float32, features), make([]float32, features)
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.1, Reduction: optim.Mean}); err != nil {
		return 0, err
	}

	// The store starts with the zeros of rank 0.
	if err := kv.Init(ctx, "weight", weight); err != nil {
		return 0, err
	}
	examples, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: length, Batch: batch, Epochs: epochs, Seed: 1})
	if err != nil {
		return 0, err
	}

	// A worker that joins a running job starts with what the others have come to.
	if err := kv.Pull(ctx, "weight", weight); err != nil {
		return 0, err
	}
	for epoch := range examples.Epochs() {
		var loss float32
		used := 0
		for batch := range examples.Batches(ctx) {
			clear(gradient)
			for _, n := range batch {
				loss += addGradient(gradient, weight, xs[n], ys[n])
			}

			// Every worker pushes in every step, also one whose part of the data has come to an end.
			if err := examples.Pusher().PushPull(ctx, "weight", [][]float32{gradient}, [][]float32{weight}); err != nil {
				return 0, err
			}
			used += len(batch)
		}
		fmt.Printf("worker %d of %d, epoch %d: loss %.6f over %d examples\n", kv.Rank(), kv.NumWorkers(), epoch, loss/float32(max(used, 1)), used)
		if kv.Rank() == 0 {
			// Launch tune reads this line.
			fmt.Printf("loss=%.6f step=%d\n", loss/float32(max(used, 1)), epoch+1)
		}
	}
	if err := examples.Err(); err != nil {
		return 0, err
	}
	for i := range truth {
		worst = max(worst, weight[i]-truth[i], truth[i]-weight[i])
	}
	fmt.Printf("worker %d of %d: farthest weight from the truth %.4f\n", kv.Rank(), kv.NumWorkers(), worst)
	return worst, nil
}

// addGradient adds the gradient of one example's loss, (x·weight − y)² / 2, and returns the loss.
func addGradient(gradient, weight, x []float32, y float32) (loss float32) {
	diff := -y
	for i := range x {
		diff += x[i] * weight[i]
	}
	for i := range x {
		gradient[i] += diff * x[i]
	}
	return diff * diff / 2
}

// draw makes the examples, y = x·truth with a little noise, the same ones on every worker.
func draw() (truth []float32, xs [][]float32, ys []float32) {
	random := rand.New(rand.NewPCG(1, 2))
	truth, xs, ys = make([]float32, features), make([][]float32, length), make([]float32, length)
	for i := range truth {
		truth[i] = float32(random.NormFloat64())
	}
	for n := range xs {
		xs[n] = make([]float32, features)
		for i := range xs[n] {
			xs[n][i] = float32(random.NormFloat64())
			ys[n] += xs[n][i] * truth[i]
		}
		ys[n] += 0.01 * float32(random.NormFloat64())
	}
	return truth, xs, ys
}

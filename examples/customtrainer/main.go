// Command customtrainer is a training loop of one's own with nothing of Paragon but kvstore: linear regression, each
// worker on its own part of the data, the optimizer on the servers.
//
//	customtrainer
//	launch -n 4 -s 2 -- customtrainer
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

const (
	features = 16
	examples = 4096
	batch    = 32
)

func main() {
	flag.Parse() // there are none but --help
	if _, err := train(context.Background(), "dist_sync"); err != nil {
		fmt.Fprintln(os.Stderr, "customtrainer:", err)
		os.Exit(1)
	}
}

// train returns how far the farthest weight ends from the truth.
func train(ctx context.Context, store string) (worst float32, err error) {
	kv, err := kvstore.Create(ctx, store)
	if err != nil {
		return 0, err
	}
	defer func() { err = kvstore.Leave(kv, err) }()

	// y = x·truth, with a little noise; every worker draws the same set and trains on its own rows.
	random := rand.New(rand.NewPCG(1, 2))
	truth, xs, ys := make([]float32, features), make([][]float32, examples), make([]float32, examples)
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

	weight, gradient := make([]float32, features), make([]float32, features)
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.1, Reduction: optim.Mean}); err != nil {
		return 0, err
	}
	if err := kv.Init(ctx, "weight", weight); err != nil { // rank 0's zeros count
		return 0, err
	}
	kv.SetWeight(batch) // the servers divide by the examples of all workers
	var loss float32
	for step := range 200 {
		clear(gradient)
		loss = 0
		for b := range batch {
			n := ((step*batch+b)*kv.NumWorkers() + kv.Rank()) % examples
			diff := -ys[n]
			for i, x := range xs[n] {
				diff += x * weight[i]
			}
			loss += diff * diff / 2 / batch
			for i, x := range xs[n] {
				gradient[i] += diff * x
			}
		}
		if err := kv.PushPull(ctx, "weight", [][]float32{gradient}, [][]float32{weight}); err != nil {
			return 0, err
		}
		if step%50 == 0 {
			fmt.Printf("worker %d of %d, step %d: loss %.6f\n", kv.Rank(), kv.NumWorkers(), step, loss)
		}
	}
	for i := range truth {
		worst = max(worst, weight[i]-truth[i], truth[i]-weight[i])
	}
	fmt.Printf("worker %d of %d: loss %.6f, farthest weight from the truth %.4f\n", kv.Rank(), kv.NumWorkers(), loss, worst)
	return worst, nil
}

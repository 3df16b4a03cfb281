// Command customtrainer is a training loop of one's own with nothing of Paragon but kvstore: linear regression, each
// worker on its own part of the data, the optimizer on the servers. Workers may come and go while it runs.
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
)

const (
	features = 16
	examples = 4096
	batch    = 32
	steps    = 200
)

func main() {
	flag.Parse() // there are none but --help
	_, err := train(context.Background(), "dist_sync")
	switch {
	case errors.Is(err, kvstore.ErrRemoved):
		fmt.Fprintln(os.Stderr, "customtrainer: removed from the job as asked; the others go on")
	case err != nil:
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
	weighted := kv.Weighted(batch, false) // the servers divide by the examples of all workers
	members, err := join(ctx, kv)
	if err != nil {
		return 0, err
	}
	if err := kv.Pull(ctx, "weight", weight); err != nil {
		return 0, err
	}
	var loss float32
	for step := members.steps; step < steps; step++ {
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
		if err := weighted.PushPull(ctx, "weight", [][]float32{gradient}, [][]float32{weight}); err != nil {
			return 0, err
		}
		if err := members.afterStep(ctx, step); err != nil {
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

// membership is this worker's part in a job whose workers may change.
type membership struct {
	kv    kvstore.Store
	job   kvstore.Elastic // nil: nobody comes or goes
	steps int             // with which this worker begins
	flag  []float32
}

// join returns once this worker counts: at once if it was there from the start.
func join(ctx context.Context, kv kvstore.Store) (*membership, error) {
	m := &membership{kv: kv, flag: make([]float32, 1)}
	if m.job, _ = kv.(kvstore.Elastic); m.job == nil || kv.Type() == "dist_async" {
		m.job = nil // without rounds there is no step that all have in common
		return m, nil
	}
	if err := kv.InitAverage(ctx, "flag", m.flag); err != nil {
		return nil, err
	}
	if err := m.job.Ready(ctx); err != nil {
		return nil, err
	}
	m.steps = int(m.job.Division().Steps)
	return m, nil
}

// afterStep lets workers come and go: all raise a flag with a step, see the same sum, and so make a change after the same step.
func (m *membership) afterStep(ctx context.Context, step int) error {
	if m.job == nil {
		return nil
	}
	if m.flag[0] = 0; m.job.Pending() != 0 {
		m.flag[0] = 1
	}
	flag := [][]float32{m.flag}
	if err := m.kv.PushPull(ctx, "flag", flag, flag); err != nil || m.flag[0] == 0 {
		return err
	}
	change, err := m.job.AwaitPending(ctx)
	if err != nil {
		return err
	}
	if err := m.job.Arrive(ctx, kvstore.Arrival{Change: change, Steps: uint64(step + 1)}); err != nil {
		return err
	}
	fmt.Printf("worker %d of %d now, after step %d\n", m.kv.Rank(), m.kv.NumWorkers(), step)
	return nil
}

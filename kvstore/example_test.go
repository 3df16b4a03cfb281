package kvstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A step's gradients of several keys in one call, as MXNet's pushpull takes lists.
func ExampleStore_pushPullMany() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	weight, bias := []float32{1, 2}, []float32{3}
	for key, value := range map[string][]float32{"weight": weight, "bias": bias} {
		if err := kv.Init(ctx, key, value); err != nil {
			panic(err)
		}
	}
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.5}); err != nil {
		panic(err)
	}
	err = kv.PushPullMany(ctx, []kvstore.Entry{
		{Key: "weight", Grads: [][]float32{{1, 1}}, Outs: [][]float32{weight}},
		{Key: "bias", Grads: [][]float32{{2}, {4}}, Outs: [][]float32{bias}}, // two local devices
	})
	fmt.Println(weight, bias, err)
	err = kv.PushPullMany(ctx, []kvstore.Entry{
		{Key: "weights", Grads: [][]float32{{1, 1}}, Outs: [][]float32{weight}},
		{Key: "bias", Grads: [][]float32{{1, 2}}, Outs: [][]float32{bias}},
	})
	fmt.Println(err)
	// Output:
	// [0.5 1.5] [0] <nil>
	// kvstore: 2 keys failed:
	// kvstore: push-pull key "weights": unknown key: call Init first
	// kvstore: push-pull key "bias": wrong size: gradient 0: got 2 values, want 1
}

// What this worker and all servers do in some rounds, as a Chrome trace for each. In a job one worker asks for the servers' files, such as rank 0.
func ExampleProfiler() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local") // "dist_sync" in a job
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := kv.Init(ctx, "weight", []float32{1, 2}); err != nil {
		panic(err)
	}
	cfg := kvstore.ProfilerConfig{Filename: filepath.Join(dir, "profile.json"), Process: kvstore.ProfileWorker}
	if kv.Rank() == 0 {
		cfg.Process = kvstore.ProfileBoth
	}
	if err := kv.SetProfilerConfig(cfg); err != nil {
		panic(err)
	}
	if err := kv.SetProfilerState(ctx, kvstore.ProfilerRun); err != nil {
		panic(err)
	}
	for range 3 {
		if err := kv.Push(ctx, "weight", []float32{1, 1}); err != nil {
			panic(err)
		}
	}
	if err := kv.SetProfilerState(ctx, kvstore.ProfilerStop); err != nil {
		panic(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		fmt.Println(filepath.Base(f), err)
	}
	// Output:
	// rank0_profile.json <nil>
}

// A training loop whose workers may join, leave and be lost while it runs. Alone it is a job of one worker.
func ExampleElasticSampler() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local") // "dist_sync" in a job of launch --elastic-training-enabled
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	data := []float32{1, 2, 3, 4, 5}
	mean, gradient := []float32{0}, []float32{0}
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.5, Reduction: optim.Mean}); err != nil {
		panic(err)
	}
	if err := kv.Init(ctx, "mean", mean); err != nil {
		panic(err)
	}
	examples, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: len(data), Batch: 2, Epochs: 2, Seed: 1})
	if err != nil {
		panic(err)
	}
	if err := kv.Pull(ctx, "mean", mean); err != nil { // what the others have come to, if this worker joins them
		panic(err)
	}
	for epoch := range examples.Epochs() {
		var used float32
		for batch := range examples.Batches(ctx) {
			gradient[0] = 0
			for _, i := range batch {
				gradient[0] += mean[0] - data[i]
				used += data[i]
			}
			if err := examples.Pusher().PushPull(ctx, "mean", [][]float32{gradient}, [][]float32{mean}); err != nil {
				panic(err)
			}
		}
		fmt.Printf("epoch %d: %g of 15 used, %d steps, mean %.1f\n", epoch, used, examples.Steps(), mean[0])
	}
	fmt.Println(kvstore.Leave(kv, examples.Err()))
	// Output:
	// epoch 0: 15 of 15 used, 3 steps, mean 1.8
	// epoch 1: 15 of 15 used, 6 steps, mean 3.7
	// <nil>
}

package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// What this worker and all servers do in some rounds, as a Chrome trace for each. In a job one
// worker asks for the servers' files, such as rank 0.
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

// A training loop whose workers may join, leave and be lost while it runs. Alone it is a job of one
// worker.
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
	// epoch 1: 15 of 15 used, 6 steps, mean 2.5
	// <nil>
}

// The store sums what workers push. With Reduction "mean" it divides by the weights that counted,
// here by examples: a short batch counts as much for each of its examples as a long one.
func ExampleStore_weighted() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	w := []float32{0}
	must(kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 1, Reduction: optim.Mean}))
	must(kv.Init(ctx, "w", w))
	must(kv.Weighted(4, false).PushPull(ctx, "w", [][]float32{{-8}}, [][]float32{w})) // the sum of four gradients of -2
	fmt.Println(w)
	must(kv.Weighted(1, false).PushPull(ctx, "w", [][]float32{{-2}}, [][]float32{w})) // one of -2
	fmt.Println(w)
	// Output:
	// [2]
	// [4]
}

// A table of embeddings, of which a worker moves only the rows that its batch names. Rows that are
// named twice add up.
func ExampleStore_pushRows() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	must(kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 1}))
	must(kv.InitRows(ctx, "words", 1000, 2, nil)) // rows of two values, all zero
	must(kv.PushRows(ctx, "words", []int64{7, 3, 7}, []float32{1, 1, 2, 2, 3, 3}))
	rows := make([]float32, 3*2)
	must(kv.PullRows(ctx, "words", []int64{3, 7, 8}, rows))
	fmt.Println(rows)
	// Output: [-2 -2 -4 -4 0 0]
}

// An open vocabulary: any 64-bit number names a row, such as a hash of a word. A row is made by the
// first push to it.
func ExampleTable() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	must(kv.InitTable(ctx, "words", kvstore.Table{RowLen: 4}))
	must(kv.PushRows(ctx, "words", []int64{-81985529216486896, 42}, make([]float32, 2*4)))
	usage, err := kv.Usage(ctx)
	must(err)
	var rows uint64
	for _, u := range usage {
		rows += u.Rows
	}
	fmt.Println(rows, "rows")
	// Output: 2 rows
}

// Gradients in two bits a value. What a push leaves out is kept on the worker and added to the next
// one, so nothing is lost.
func ExampleCompression() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "device") // "dist_sync" in a job
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	must(kv.SetCompression(ctx, kvstore.Compression{Type: "2bit", Threshold: 0.5}))
	must(kv.Init(ctx, "w", []float32{0, 0}))
	sum := make([]float32, 2)
	for range 2 {
		must(kv.PushPull(ctx, "w", [][]float32{{0.75, 0.25}}, [][]float32{sum}))
		fmt.Println(sum)
	}
	// Output:
	// [0.5 0]
	// [0.5 0.5]
}

// Values and optimizer state as a safetensors file, which any number of servers loads.
func ExampleStore_save() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "save")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "w.safetensors")
	adam := optim.Config{Name: "adam", LearningRate: 0.1}
	w := []float32{1}
	for range 2 {
		kv, err := kvstore.Create(ctx, "local")
		if err != nil {
			panic(err)
		}
		must(kv.SetOptimizer(ctx, adam))
		must(kv.Init(ctx, "w", []float32{1}))
		if _, err := os.Stat(file); err == nil {
			must(kv.Load(ctx, file))
		}
		must(kv.PushPull(ctx, "w", [][]float32{{1}}, [][]float32{w}))
		must(kv.Save(ctx, file))
		must(kv.Close())
		fmt.Printf("%.2f\n", w[0])
	}
	// Output:
	// 0.90
	// 0.80
}

// Errors say which key it is, what came and what was wanted; errors.Is says of which kind they are.
func ExampleErrSize() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	must(kv.Init(ctx, "w", []float32{1, 2}))
	err = kv.Push(ctx, "w", []float32{1, 2, 3})
	fmt.Println(errors.Is(err, kvstore.ErrSize), err)
	// Output: true kvstore: push key "w": wrong size: gradient 0: got 3 values, want 2
}

// A gradient that is not finite ruins a model for all workers. With a guard the servers refuse it:
// the value stays, and training goes on.
func ExampleWithGuard() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local", kvstore.WithGuard(kvstore.Guard{}), kvstore.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	w := []float32{1}
	must(kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 1}))
	must(kv.Init(ctx, "w", w))
	must(kv.PushPull(ctx, "w", [][]float32{{float32(math.NaN())}}, [][]float32{w}))
	fmt.Println(w)
	must(kv.PushPull(ctx, "w", [][]float32{{0.5}}, [][]float32{w}))
	fmt.Println(w)
	// Output:
	// [1]
	// [0.5]
}

// In an asynchronous store each push is applied at once, and no worker waits for another one.
func ExampleWithStaleness() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	kv, err := kvstore.Create(ctx, "dist_async", kvstore.WithStaleness(4), kvstore.WithLogger(quiet)) // at most four pushes ahead of the slowest
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	weight := []float32{1}
	if err := kv.Init(ctx, "weight", weight); err != nil {
		panic(err)
	}
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.25}); err != nil {
		panic(err)
	}
	for range 2 {
		if err := kv.Push(ctx, "weight", []float32{1}); err != nil {
			panic(err)
		}
	}
	err = kv.Pull(ctx, "weight", weight)
	fmt.Println(weight, kv.Staleness("weight").Missed, err)
	// Output: [0.5] 0 <nil>
}

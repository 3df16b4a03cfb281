package kvstore_test

import (
	"context"
	"fmt"

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

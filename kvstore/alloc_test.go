package kvstore_test

import (
	"context"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/kvstore"
)

// Once its memory is there, a round takes none on the worker: shown where the shards are in the
// same process, and so for them too.
func TestSteadyRoundsTakeNoMemory(t *testing.T) {
	ctx := context.Background()
	for _, c := range []kvstore.Compression{{}, {Type: "2bit"}, {Type: "fp16", Pull: "fp16"}, {Type: "topk", Ratio: 0.1, Pull: "bf16"}} {
		kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithEnv(nothing))
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		must(kv.SetCompression(ctx, c))
		must(kv.Init(ctx, "dense", make([]float32, 1000)))
		must(kv.InitRows(ctx, "rows", 100, 4, nil))
		must(kv.InitTable(ctx, "words", kvstore.Table{RowLen: 4, Initializer: kvstore.Initializer{Name: "normal", Deviation: 1}}))
		grads, outs := [][]float32{make([]float32, 1000), make([]float32, 1000)}, [][]float32{make([]float32, 1000), make([]float32, 1000)}
		rows, some := []int64{7, 3, 99, 3}, make([]float32, 16)
		for what, call := range map[string]func(){
			"push-pull":     func() { must(kv.PushPull(ctx, "dense", grads, outs)) },
			"push and pull": func() { must(kv.Push(ctx, "dense", grads...)); must(kv.Pull(ctx, "dense", outs...)) },
			"words":         func() { must(kv.PushRows(ctx, "words", rows, some)); must(kv.PullRows(ctx, "words", rows, some)) },
			"rows":          func() { must(kv.PushRows(ctx, "rows", rows, some)); must(kv.PullRows(ctx, "rows", rows, some)) },
		} {
			if n := alloctest.PerRun(20, call); n != 0 {
				t.Errorf("compression %q: %s: got %v allocations a round, want none", c.Type, what, n)
			}
		}
	}
}

package kvstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// Gradients of devices that are each within the limit, but not their sum, enter no residual: the
// servers judge the sum as it is.
func TestTheGuardCatchesDevicesWhoseSumIsTooLarge(t *testing.T) {
	ctx := context.Background()
	for _, c := range everyCompression[1:] {
		run := func(a, b float32) (string, uint64) {
			kv, err := kvstore.Create(ctx, "device", kvstore.WithGuard(kvstore.Guard{Factor: 10, Warmup: 2}), kvstore.WithLogger(slog.New(slog.DiscardHandler)))
			must(err)
			defer kv.Close()
			must(kv.SetCompression(ctx, c))
			must(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}))
			must(kv.Init(ctx, "w", make([]float32, 2)))
			out := make([]float32, 2)
			for round := range 8 {
				x, y := []float32{0.4, -0.2}, []float32{0.3, 0.1}
				if round == 4 {
					x[0], y[0] = a, b
				}
				must(kv.PushPull(ctx, "w", [][]float32{x, y}, [][]float32{out}))
			}
			residuals, err := kv.Residuals(ctx)
			must(err)
			return fmt.Sprint(slices.Clone(out), residuals.Values), kv.Caught("w")
		}
		want, _ := run(float32(math.NaN()), 0.3)
		if got, caught := run(5, 5); got != want || caught != 1 { // the usual norm is about 0.7
			t.Errorf("%v: got values and residuals %s, %d caught; want %s, 1", c, got, caught, want)
		}
	}
}

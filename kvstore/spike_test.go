package kvstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

var everyCompression = []kvstore.Compression{{}, {Type: "fp16"}, {Type: "bf16"}, {Type: "2bit"}, {Type: "1bit"}, {Type: "topk", Ratio: 0.5}}

// A spiked run is what two workers push and what came of it. Rank 1's gradient of one round is bad.
type spiked struct {
	values    []float32
	residuals map[string][][]float32 // rank 1's
	caught    uint64                 // of rank 1
	log       string                 // the servers'
}

const spikeRound, spikeLength = 8, 6

func runSpiked(t *testing.T, kind string, c kvstore.Compression, guard kvstore.Guard, bad float32, pull func(round int) bool) spiked {
	var got spiked
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stores := job.Stores(t, kind, kvstore.WithGuard(guard), kvstore.WithLogger(slog.New(slog.DiscardHandler)))
		together(t, stores, func(kv kvstore.Store) error {
			ctx, rank := t.Context(), kv.Rank()
			must(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}))
			must(kv.SetCompression(ctx, c))
			must(kv.Init(ctx, "w", make([]float32, spikeLength)))
			out := make([]float32, spikeLength)
			for round := range 2 * spikeRound {
				if kind == "dist_async" {
					must(kv.Barrier(ctx)) // so that both workers' norms are as in every other run
				}
				grad := []float32{0.3, 0.2, -0.4, 0.1, 0.25, -0.15}
				if rank == 1 && round == spikeRound {
					grad[3] = bad
				}
				if pull(round) {
					must(kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out}))
				} else {
					must(kv.Push(ctx, "w", grad))
				}
			}
			must(kv.Barrier(ctx))
			must(kv.Pull(ctx, "w", out))
			if rank == 0 {
				got.values = slices.Clone(out)
				return nil
			}
			residuals, err := kv.Residuals(ctx)
			got.residuals, got.caught = residuals.Values, kv.Caught("w")
			return err
		})
		got.log = log.String()
	})
	return got
}

// A spike is judged as it is, before a code cuts it to what it can say, and leaves nothing in the
// residual: the run ends as one does whose bad gradient was NaN, or, clipped, differs from it by a
// gradient of the largest norm that is taken.
func TestTheGuardCatchesSpikesUnderEveryCompression(t *testing.T) {
	always := func(int) bool { return true }
	spikes := []float32{1e3, 1e6, -1e30}
	for k, kind := range []string{"dist_sync", "dist_async"} {
		for i, c := range everyCompression {
			few := spikes
			if os.Getenv("PARAGON_TEST_SLOW") == "" { // each spike under some codes, each code under some spikes
				few = spikes[(i+k)%len(spikes):][:1]
			}
			guard := kvstore.Guard{Factor: 10, Warmup: 4}
			clip := guard
			clip.Clip = true
			refused := runSpiked(t, kind, c, guard, float32(math.NaN()), always)
			for _, bad := range few {
				t.Run(fmt.Sprintf("%s/%v/%g", kind, c, bad), func(t *testing.T) {
					got := runSpiked(t, kind, c, guard, bad, always)
					if kind == "dist_sync" && !slices.Equal(got.values, refused.values) || got.values[3] > 10 || got.values[3] < -10 {
						t.Errorf("values: got %v, want %v as of a run whose gradient was NaN", got.values, refused.values)
					}
					if fmt.Sprint(got.residuals) != fmt.Sprint(refused.residuals) {
						t.Errorf("residuals: got %v, want %v", got.residuals, refused.residuals)
					}
					if got.caught != 1 {
						t.Errorf("caught: got %d, want 1", got.caught)
					}
					for _, want := range []string{"refused a gradient: its norm is", "rank=1 host=worker1", "key=w", "step="} {
						if !strings.Contains(got.log, want) {
							t.Errorf("servers' log: got\n%s\nwant %q in it", got.log, want)
						}
					}
					clipped := runSpiked(t, kind, c, clip, bad, always)
					if fmt.Sprint(clipped.residuals) != fmt.Sprint(refused.residuals) {
						t.Errorf("residuals after a clip: got %v, want %v", clipped.residuals, refused.residuals)
					}
					if !strings.Contains(clipped.log, "clipped a gradient: its norm is") || clipped.caught != 1 {
						t.Errorf("clipped: got %d caught and the log\n%s", clipped.caught, clipped.log)
					}
					norm := math.Sqrt(0.3*0.3 + 0.2*0.2 + 0.4*0.4 + 0.1*0.1 + 0.25*0.25 + 0.15*0.15)
					step := float64(clipped.values[3] - refused.values[3])
					if kind == "dist_sync" && math.Abs(step-math.Copysign(10*norm, float64(bad))) > 0.1 {
						t.Errorf("clipped: the value moved by %v, want %v", step, math.Copysign(10*norm, float64(bad)))
					}
				})
			}
		}
	}
}

// A program that pushes and seldom pulls, or never, is watched as well.
func TestTheGuardCatchesSpikesOfWhoSeldomPulls(t *testing.T) {
	for _, c := range []kvstore.Compression{{Type: "2bit"}, {Type: "topk", Ratio: 0.5}} {
		for _, every := range []int{3, 1000} {
			pull := func(round int) bool { return round%every == every-1 }
			got := runSpiked(t, "dist_sync", c, kvstore.Guard{Factor: 10, Warmup: 4}, 1e6, pull)
			want := runSpiked(t, "dist_sync", c, kvstore.Guard{Factor: 10, Warmup: 4}, float32(math.NaN()), pull)
			if got.caught != 1 || !slices.Equal(got.values, want.values) || fmt.Sprint(got.residuals) != fmt.Sprint(want.residuals) {
				t.Errorf("%v, a pull every %d rounds: got %d caught, values %v and residuals %v; want 1, %v and %v", c, every, got.caught,
					got.values, got.residuals, want.values, want.residuals)
			}
		}
	}
}

// Where each device's gradient is compressed by itself, one that is far too large, or whose sum
// with the others is, enters no residual.
func TestTheGuardCatchesSpikesOfDevices(t *testing.T) {
	ctx := context.Background()
	for _, c := range everyCompression[1:] {
		run := func(a, b float32) ([]float32, uint64, map[string][][]float32) {
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
			return out, kv.Caught("w"), residuals.Values
		}
		nan := float32(math.NaN())
		values, _, residuals := run(nan, 0.3)
		for _, bad := range [][2]float32{{1e6, 0.3}, {0.4, -1e30}, {1e6, 1e6}} {
			got, caught, left := run(bad[0], bad[1])
			if !slices.Equal(got, values) || caught != 1 || fmt.Sprint(left) != fmt.Sprint(residuals) {
				t.Errorf("%v, devices %v: got values %v, %d caught and residuals %v; want %v, 1 and %v", c, bad, got, caught, left, values, residuals)
			}
		}
		if _, caught, left := run(1e6, -1e6); caught != 0 || c.Type == "2bit" && fmt.Sprint(left) != fmt.Sprint(residuals) {
			t.Errorf("%v, two that cancel: got %d caught and residuals %v, want none and %v", c, caught, left, residuals)
		}
	}
}

// Every optimizer takes a huge finite gradient as its formula does, in every store; see also
// package optim.
func TestHugeGradientsLeaveValuesFinite(t *testing.T) {
	for _, kind := range []string{"local", "device", "dist_sync", "dist_async"} {
		for _, cfg := range []optim.Config{{Name: "sgd"}, {Name: "nag", Momentum: 0.9}, {Name: "adam"}, {Name: "adamw"}, {Name: "adagrad"}, {Name: "rmsprop"},
			{Name: "rmsprop", Centered: true, Momentum: 0.9}, {Name: "ftrl"}, {Name: "lars"}, {Name: "lamb"}, {Name: "test"}} {
			kv, _ := storeWithLog(t, kind)
			ctx, n := t.Context(), 20 // whole vectors and some more
			must(kv.SetOptimizer(ctx, cfg))
			must(kv.Init(ctx, "w", slices.Repeat([]float32{1}, n)))
			must(kv.InitRows(ctx, "e", 3, n, slices.Repeat([]float32{1}, 3*n)))
			out, row := make([]float32, n), make([]float32, n)
			for _, size := range []float32{1, 1e30, -2e19, 1} {
				grad := slices.Repeat([]float32{size}, n)
				must(kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out}))
				must(kv.PushRows(ctx, "e", []int64{1}, grad))
			}
			must(kv.PullRows(ctx, "e", []int64{1}, row))
			for i := range n {
				if out[i]-out[i] != 0 || row[i]-row[i] != 0 {
					t.Fatalf("%s, %s: value %d is %v, of the row %v", kind, cfg.Name, i, out[i], row[i])
				}
			}
		}
	}
}

// After a Load the guard's measure begins anew, and so does what this worker knows of its limits:
// it compresses what it would have sent as it is.
func TestLimitsAreForgottenWithALoad(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync", kvstore.WithEnv(nothing), kvstore.WithLogger(slog.New(slog.DiscardHandler)),
		kvstore.WithGuard(kvstore.Guard{Factor: 10, Warmup: 2}))
	must(err)
	defer kv.Close()
	ctx, out, file := t.Context(), make([]float32, 1), t.TempDir()+"/saved"
	must(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}))
	must(kv.SetCompression(ctx, kvstore.Compression{Type: "2bit"}))
	must(kv.Init(ctx, "w", []float32{0}))
	for range 4 {
		must(kv.PushPull(ctx, "w", [][]float32{{0.5}}, [][]float32{out}))
	}
	must(kv.Save(ctx, file))
	must(kv.Load(ctx, file))
	must(kv.PushPull(ctx, "w", [][]float32{{100}}, [][]float32{out}))
	if out[0] != 2.5 || kv.Caught("w") != 0 {
		t.Errorf("got %v and %d caught, want 2.5 and none", out[0], kv.Caught("w"))
	}
}

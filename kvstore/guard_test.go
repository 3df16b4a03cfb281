package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A gradient that is not finite is left out of its round, which nobody waits for; the servers' log
// names rank, host, key and step, the worker that pushed it is told, and Usage counts it. That
// holds with every compression, and what is left out of a compressed push stays finite.
func TestTheGuardKeepsWhatIsNotFiniteOut(t *testing.T) {
	for _, c := range []kvstore.Compression{{}, {Type: "fp16"}, {Type: "bf16"}, {Type: "2bit"}, {Type: "1bit"}, {Type: "topk", Ratio: 0.5}} {
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log, workerLog safeBuffer
				job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				stores := job.Stores(t, "dist_sync", kvstore.WithGuard(kvstore.Guard{}), kvstore.WithLogger(slog.New(slog.NewTextHandler(&workerLog, nil))))
				const n, rounds, bad = 6, 6, 2
				values := make([][]float32, 2)
				together(t, stores, func(kv kvstore.Store) error {
					ctx, rank := t.Context(), kv.Rank()
					err := errors.Join(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Mean}),
						kv.SetCompression(ctx, c), kv.Init(ctx, "w", make([]float32, n)), kv.InitRows(ctx, "e", 4, 2, nil))
					if err != nil {
						return err
					}
					values[rank] = make([]float32, n)
					for round := range rounds {
						grad := slices.Repeat([]float32{0.5}, n)
						rows := []float32{1, 1}
						if rank == 1 && round == bad {
							grad[3], rows[1] = float32(math.Inf(1)), float32(math.NaN())
						}
						if err := kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{values[rank]}); err != nil {
							return fmt.Errorf("round %d: %w", round, err)
						}
						if err := kv.PushRows(ctx, "e", []int64{1}, rows); err != nil {
							return fmt.Errorf("round %d: %w", round, err)
						}
					}
					out := make([]float32, 2)
					if err := kv.PullRows(ctx, "e", []int64{1}, out); err != nil {
						return err
					}
					if want := []float32{rounds, rounds}; !slices.Equal(out, want) { // the mean of one is 1, too
						return fmt.Errorf("rows: got %v, want %v", out, want)
					}
					w, e := kv.Caught("w"), kv.Caught("e")
					if rank == 0 && w+e != 0 || rank == 1 && (w != 1 || e != 1) {
						return fmt.Errorf("caught: got %d of w and %d of e", w, e)
					}
					residuals, err := kv.Residuals(ctx)
					if err != nil {
						return err
					}
					for _, lists := range residuals.Values {
						for _, r := range lists {
							for _, x := range r {
								if x-x != 0 {
									return fmt.Errorf("residual: got %v, want them finite", r)
								}
							}
						}
					}
					return nil
				})
				for _, v := range values[0] {
					if v-v != 0 || v == 0 {
						t.Fatalf("got the value %v, want it finite", values[0])
					}
				}
				if c.Type == "" && !slices.Equal(values[0], slices.Repeat([]float32{rounds * 0.5}, n)) {
					t.Errorf("got %v, want the mean %v in all rounds", values[0], 0.5)
				}
				for _, want := range []string{"refused a gradient: it is not finite", "rank=1 host=worker1", "key=w", "step=2"} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("servers' log: got\n%s\nwant %q in it", log.String(), want)
					}
				}
				if got := workerLog.String(); strings.Count(got, "has refused or clipped gradients of this worker") != 2 || !strings.Contains(got, "rank=1") {
					t.Errorf("workers' log: got\n%s\nwant two lines of rank 1", got)
				}
				usage, err := stores[0].Usage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				refused := uint64(0)
				for _, u := range usage {
					for _, x := range u.Caught {
						if x.Rank != 1 || x.Host != "worker1" {
							t.Errorf("usage: got %+v, want rank 1 alone", x)
						}
						refused += x.Refused
					}
				}
				if refused != 2 {
					t.Errorf("usage: got %d refused, want 2", refused)
				}
			})
		})
	}
}

func TestTheGuardIsTheSameOnAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2})
		guards := []kvstore.Guard{{Factor: 10}, {Factor: 20}}
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for rank := range guards {
			wg.Go(func() {
				kv, err := joining.Join(t.Context(), job.WorkerConfig(rank), "dist_sync", kvstore.WithGuard(guards[rank]))
				if errs[rank] = err; err == nil {
					errs[rank] = kv.Barrier(t.Context())
					kv.Close()
				}
			})
		}
		wg.Wait()
		text := fmt.Sprint(errs)
		if !strings.Contains(text, kvstore.ErrConflict.Error()) || !strings.Contains(text, "Factor:20") {
			t.Errorf("got errors %v, want a conflict that names both", text)
		}
	})
	if _, err := kvstore.Create(t.Context(), "local", kvstore.WithGuard(kvstore.Guard{Factor: 0.5})); err == nil || !strings.Contains(err.Error(), "Factor: got 0.5") {
		t.Errorf("got error %v, want one that names Factor", err)
	}
}

// The stores within this process have the same guard, also for several devices.
func TestTheGuardWorksInThisProcess(t *testing.T) {
	for _, kind := range []string{"local", "device", "dist_sync", "dist_async"} {
		kv, err := kvstore.Create(t.Context(), kind, kvstore.WithGuard(kvstore.Guard{Factor: 4, Warmup: 1, Clip: true}),
			kvstore.WithEnv(func(string) string { return "" }), kvstore.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, out := context.Background(), make([]float32, 1)
		if kind == "device" {
			must(kv.SetCompression(ctx, kvstore.Compression{Type: "topk", Ratio: 1}))
		}
		must(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}))
		must(kv.Init(ctx, "w", []float32{0}))
		nan := float32(math.NaN())
		for _, grads := range [][][]float32{{{1}, {1}}, {{nan}, {1}}, {{50}, {50}}, {{1}, {1}}} {
			must(kv.Push(ctx, "w", grads...))
			must(kv.Pull(ctx, "w", out))
		}
		if want := float32(2 + 8 + 2); out[0] != want || kv.Caught("w") != 2 {
			t.Errorf("%s: got %v and %d caught, want %v and 2", kind, out, kv.Caught("w"), want)
		}
		must(kv.Close())
	}
}

// A push that failed part of the way and holds what is not finite is sent again as it was, also if
// it is compressed otherwise.
func TestWhatIsNotFiniteIsSentAgainAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Servers: 2})
		kv := job.Stores(t, "dist_sync", kvstore.WithGuard(kvstore.Guard{}), kvstore.WithTimeout(time.Second))[0]
		ctx, n := context.Background(), 300_000
		must(kv.SetCompression(ctx, kvstore.Compression{Type: "2bit"}))
		must(kv.Init(ctx, "w", make([]float32, n)))
		grad, out := slices.Repeat([]float32{0.5}, n), make([]float32, n)
		grad[n-1] = float32(math.NaN())
		job.Net.Drop("worker0", "server1")
		if err := kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out}); !errors.Is(err, kvstore.ErrUnavailable) {
			t.Fatalf("got error %v, want %v", err, kvstore.ErrUnavailable)
		}
		job.Net.Heal()
		must(kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out}))
		if got := kv.Caught("w"); got != 1 || out[0] != 0.5 || out[n-1] != 0 {
			t.Errorf("got %d caught, first value %v, last %v; want 1, 0.5 and 0", got, out[0], out[n-1])
		}
	})
}

func TestWatchedRemoteRoundsTakeNoMemory(t *testing.T) {
	for _, c := range []kvstore.Compression{{}, {Type: "2bit"}, {Type: "fp16"}} {
		kv := jobtest.New(t, quietJob(transport.TCP)).Stores(t, "dist_sync", kvstore.WithGuard(kvstore.Guard{Factor: 10}))[0]
		ctx, n := context.Background(), 50_000
		must(kv.SetCompression(ctx, c))
		must(kv.Init(ctx, "w", make([]float32, n)))
		by := kv.Weighted(1, true)
		grads, outs := [][]float32{slices.Repeat([]float32{1}, n)}, [][]float32{make([]float32, n)}
		call := func() { must(by.PushPull(ctx, "w", grads, outs)) }
		for range 300 { // all connections, and the window of norms
			call()
		}
		if got := alloctest.PerRun(200, call); got != 0 {
			t.Errorf("compression %q: got %v allocations a round, want none", c.Type, got)
		}
	}
}

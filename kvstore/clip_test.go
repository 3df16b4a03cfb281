package kvstore_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

var clippedSGD = optim.Config{Name: "sgd", LearningRate: 1, Reduction: optim.Mean, ClipGlobalNorm: 1}

// onEach runs f for every store, together, and returns the errors by rank.
func onEach(stores []kvstore.Store, f func(rank int, kv kvstore.Store) error) []error {
	errs := make([]error, len(stores))
	var work sync.WaitGroup
	for rank, kv := range stores {
		work.Go(func() { errs[rank] = f(rank, kv) })
	}
	work.Wait()
	return errs
}

// clippedJob opens a job whose servers clip, with keys a and b of one value each, and returns the
// hosts of the workers and their stores.
func clippedJob(t *testing.T, cfg jobtest.Config, opts ...kvstore.Option) (hosts []*faultnet.Host, stores []kvstore.Store) {
	job := jobtest.New(t, cfg)
	stores = make([]kvstore.Store, cfg.Workers)
	places := make([]cluster.Config, cfg.Workers)
	for rank := range places {
		places[rank] = job.WorkerConfig(rank)
		hosts = append(hosts, places[rank].Network.(*faultnet.Host))
	}
	for rank, err := range onEach(stores, func(rank int, _ kvstore.Store) (err error) {
		stores[rank], err = joining.Join(t.Context(), places[rank], "dist_sync", opts...)
		return err
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
		t.Cleanup(func() { stores[rank].Close() })
	}
	for _, err := range onEach(stores, func(_ int, kv kvstore.Store) error {
		return errors.Join(kv.SetOptimizer(t.Context(), clippedSGD), kv.Init(t.Context(), "a", []float32{0}), kv.Init(t.Context(), "b", []float32{0}))
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return hosts, stores
}

// A pull of a round that nobody clips ends with the call's time, and says what to call.
func TestAPullOfARoundThatNobodyClipsSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := clippedJob(t, jobtest.Config{Workers: 1, Servers: 2}, kvstore.WithTimeout(20*time.Second))
		err := stores[0].PushPull(t.Context(), "a", [][]float32{{1}}, [][]float32{{0}})
		if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "ClipGlobalNorm") {
			t.Errorf("got %v, want an error that names ClipGlobalNorm", err)
		}
	})
}

// A worker that comes late with fewer keys takes the factor that was decided, and is in step again
// with its next push.
func TestALateWorkerTakesTheFactorThatWasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := clippedJob(t, jobtest.Config{Workers: 2, Servers: 2})
		for range 2 {
			for rank, err := range onEach(stores, func(rank int, kv kvstore.Store) error {
				if err := errors.Join(kv.Push(t.Context(), "a", []float32{3}), kv.Push(t.Context(), "b", []float32{4})); err != nil {
					return err
				}
				keys := []string{"a", "b"}
				if rank == 1 {
					keys = keys[:1]
					if err := kv.Pull(t.Context(), "b", make([]float32, 1)); err != nil {
						return err
					}
				}
				norm, err := kv.ClipGlobalNorm(t.Context(), keys...)
				if err == nil && norm != 5 {
					t.Errorf("rank %d: got norm %v, want 5", rank, norm)
				}
				return errors.Join(err, kv.Pull(t.Context(), "a", make([]float32, 1)))
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		}
	})
}

// A worker that is killed before, while or after it clips holds nobody up: the others bring the same
// factor, and the round that it took part in counts its gradient.
func TestAKilledWorkerHoldsNoClippingUp(t *testing.T) {
	for name, killed := range map[string]func(ctx context.Context, kv kvstore.Store) error{
		"before it pushes": func(context.Context, kvstore.Store) error { return nil },
		"between two keys": func(ctx context.Context, kv kvstore.Store) error { return kv.Push(ctx, "a", []float32{3}) },
		"before it clips": func(ctx context.Context, kv kvstore.Store) error {
			return errors.Join(kv.Push(ctx, "a", []float32{3}), kv.Push(ctx, "b", []float32{4}))
		},
		"after it has clipped": func(ctx context.Context, kv kvstore.Store) error {
			err := errors.Join(kv.Push(ctx, "a", []float32{3}), kv.Push(ctx, "b", []float32{4}))
			if err == nil {
				_, err = kv.ClipGlobalNorm(ctx, "a", "b")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := jobtest.Config{Workers: 3, Servers: 2, Lease: 2 * time.Second, Heartbeat: 500 * time.Millisecond}
				cfg.Elastic = cluster.Elastic{Enabled: true}
				hosts, stores := clippedJob(t, cfg)
				values := make([][]float32, len(stores))
				for rank, err := range onEach(stores, func(rank int, kv kvstore.Store) error {
					if rank == 2 {
						err := killed(t.Context(), kv)
						hosts[rank].Kill(false)
						return err
					}
					for range 2 {
						if err := errors.Join(kv.Push(t.Context(), "a", []float32{3}), kv.Push(t.Context(), "b", []float32{4})); err != nil {
							return err
						}
						if norm, err := kv.ClipGlobalNorm(t.Context(), "a", "b"); err != nil || math.Abs(norm-5) > 1e-6 {
							return errors.Join(err, errors.New("the norm is not 5"))
						}
					}
					a, b := make([]float32, 1), make([]float32, 1)
					err := errors.Join(kv.Pull(t.Context(), "a", a), kv.Pull(t.Context(), "b", b))
					values[rank] = append(a, b...)
					return err
				}) {
					if err != nil {
						t.Errorf("rank %d: %v", rank, err)
					}
				}
				if t.Failed() {
					return
				}
				// Two steps of length 1 along the gradient, in both of which all gradients are alike.
				for rank := range 2 {
					want := []float32{-2 * 3.0 / 5, -2 * 4.0 / 5}
					for i := range want {
						if math.Abs(float64(values[rank][i]-want[i])) > 1e-6 {
							t.Errorf("rank %d: got %v, want %v", rank, values[rank], want)
						}
					}
				}
				if !slices.Equal(values[0], values[1]) {
					t.Errorf("got %v on rank 0 and %v on rank 1", values[0], values[1])
				}
			})
		})
	}
}

// After a Load the rounds go on where the file says, and are clipped from there on.
func TestClippingGoesOnAfterALoad(t *testing.T) {
	path := t.TempDir() + "/state.safetensors"
	step := func(kv kvstore.Store) ([]float32, error) {
		a, b := make([]float32, 1), make([]float32, 1)
		err := errors.Join(kv.Push(t.Context(), "a", []float32{3}), kv.Push(t.Context(), "b", []float32{4}))
		if err == nil {
			_, err = kv.ClipGlobalNorm(t.Context(), "a", "b")
		}
		return append(a, b...), errors.Join(err, kv.Pull(t.Context(), "a", a), kv.Pull(t.Context(), "b", b))
	}
	_, stores := clippedJob(t, jobtest.Config{Workers: 1, Servers: 2})
	for range 3 {
		if _, err := step(stores[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := stores[0].Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	_, again := clippedJob(t, jobtest.Config{Workers: 1, Servers: 1})
	if err := again[0].Load(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	got, err := step(again[0])
	if err != nil {
		t.Fatal(err)
	}
	if want, err := step(stores[0]); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, error %v; want %v as without the load", got, err, want)
	}
}

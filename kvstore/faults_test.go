package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
	"github.com/paragon-train/paragon/optim"
)

// together runs f for all stores at the same time and fails the test with their errors.
func together(t *testing.T, stores []kvstore.Store, f func(kv kvstore.Store) error) {
	t.Helper()
	var wg sync.WaitGroup
	for rank, kv := range stores {
		wg.Go(func() {
			if err := f(kv); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// train makes some rounds and returns the values of its keys.
func train(ctx context.Context, kv kvstore.Store, rounds int) ([]float32, error) {
	const size = 40_000
	value, rows, first, second := make([]float32, size), make([]float32, 10*4), make([]float32, 100), make([]float32, 100)
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "adam", LearningRate: 0.01}); err != nil {
		return nil, err
	}
	if err := kv.Init(ctx, "dense", value); err != nil {
		return nil, err
	}
	if err := kv.InitRows(ctx, "rows", 10, 4, nil); err != nil {
		return nil, err
	}
	if err := errors.Join(kv.Init(ctx, "first", first), kv.Init(ctx, "second", second)); err != nil {
		return nil, err
	}
	for round := range rounds {
		random := rand.New(rand.NewPCG(uint64(round), uint64(kv.Rank())))
		grad := gradient(random, size)
		err := kv.PushPullMany(ctx, []kvstore.Entry{
			{Key: "first", Grads: [][]float32{grad[:100]}, Outs: [][]float32{first}}, {Key: "second", Grads: [][]float32{grad[100:200]}, Outs: [][]float32{second}}})
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		if round%2 == 0 {
			err = kv.PushPull(ctx, "dense", [][]float32{grad}, [][]float32{value})
		} else if err = kv.Push(ctx, "dense", grad); err == nil {
			err = kv.Pull(ctx, "dense", value)
		}
		if err == nil {
			err = kv.PushRows(ctx, "rows", []int64{int64(round % 10), 3}, grad[:8])
		}
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
	}
	err := kv.PullRows(ctx, "rows", []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, rows)
	return slices.Concat(value, rows, first, second), err
}

// Connections that break or swallow what is sent, in the middle of everything, lose requests and
// answers; what is sent again counts once, so that the values are those of a run without a fault,
// bit for bit. Time is not real here: the network's delays make it pass.
func TestBrokenConnectionsChangeNothing(t *testing.T) {
	const workers, servers, rounds, seed = 3, 2, 40, 1
	run := func(t *testing.T, disturb func(job *jobtest.Job, stop chan struct{})) [][]float32 {
		job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: servers, Seed: seed})
		stores := job.Stores(t, "dist_sync", kvstore.WithTimeout(time.Hour))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		if disturb != nil {
			wg.Go(func() { disturb(job, stop) })
		}
		values := make([][]float32, workers)
		together(t, stores, func(kv kvstore.Store) (err error) {
			values[kv.Rank()], err = train(t.Context(), kv, rounds)
			return err
		})
		close(stop)
		wg.Wait()
		together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
		return values
	}
	var want, got [][]float32
	synctest.Test(t, func(t *testing.T) { want = run(t, nil) })
	faults := 0
	synctest.Test(t, func(t *testing.T) {
		got = run(t, func(job *jobtest.Job, stop chan struct{}) {
			random := rand.New(rand.NewPCG(seed, seed))
			tick := time.NewTicker(40 * time.Millisecond)
			defer tick.Stop()
			for {
				job.Net.Delay(faultnet.Any, faultnet.Any, time.Millisecond, 4*time.Millisecond)
				select {
				case <-stop:
					job.Net.Heal()
					return
				case <-tick.C:
				}
				w, s := fmt.Sprint("worker", random.IntN(workers)), fmt.Sprint("server", random.IntN(servers))
				job.Net.Heal()
				switch random.IntN(6) {
				case 0: // what is sent is dropped silently, until the next tick
					job.Net.Drop(w, s)
				case 1:
					job.Net.Drop(s, w)
				default:
					job.Net.Cut(w, s)
				}
				faults++
			}
		})
	})
	t.Logf("seed %d: %d faults", seed, faults)
	if faults < 10 {
		t.Errorf("got %d faults, want at least 10", faults)
	}
	for rank := range got {
		if !slices.Equal(got[rank], want[0]) || !slices.Equal(want[rank], want[0]) {
			t.Errorf("rank %d: the values differ from those of a run without faults", rank)
		}
	}
}

// When workers are done and leave, the others go on by themselves.
func TestAWorkerThatLeavesIsNotWaitedFor(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{Workers: 3, Servers: 2})
	stores := job.Stores(t, "dist_sync", kvstore.WithTimeout(kvstoretest.Timeout))
	ctx := t.Context()
	ones := []float32{1, 1}
	last := []int{12, 8, 4} // rounds that each rank takes part in
	var wg sync.WaitGroup
	for i, kv := range stores {
		wg.Go(func() {
			if err := kv.Init(ctx, "x", ones); err != nil {
				t.Error(err)
				return
			}
			out := make([]float32, 2)
			for round := range last[i] {
				if err := kv.PushPull(ctx, "x", [][]float32{ones}, [][]float32{out}); err != nil {
					t.Errorf("rank %d round %d: %v", i, round, err)
					return
				}
				want := 3 - round/4
				if out[0] != float32(want) {
					t.Errorf("rank %d round %d: got %v, want %v", i, round, out, want)
				}
			}
			if err := kv.Close(); err != nil {
				t.Errorf("close rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// A store of another kind on another worker is refused by name, and fails the job rather than
// hanging it.
func TestWorkersMustAgreeOnTheMode(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1})
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for rank, kind := range []string{"dist_sync", "dist_async"} {
		wg.Go(func() {
			var kv kvstore.Store
			kv, errs[rank] = joining.Join(t.Context(), job.WorkerConfig(rank), kind)
			if errs[rank] == nil {
				errs[rank] = kv.Init(t.Context(), "x", []float32{1})
				if errs[rank] == nil {
					errs[rank] = kv.Barrier(t.Context())
				}
				kv.Close()
			}
		})
	}
	wg.Wait()
	conflicts := 0
	for rank, err := range errs {
		switch {
		case errors.Is(err, kvstore.ErrConflict):
			conflicts++
		case !errors.Is(err, kvstore.ErrUnavailable):
			t.Errorf("rank %d: got error %v, want %v or %v", rank, err, kvstore.ErrConflict, kvstore.ErrUnavailable)
		}
	}
	if conflicts != 1 {
		t.Errorf("got errors %v, want one conflict", errs)
	}
}

// A worker that waits for another one says for whom, in the log and in its error.
func TestWaitsNameTheMissingWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1})
		var log safeBuffer
		stores := job.Stores(t, "dist_sync", kvstore.WithTimeout(12*time.Second), kvstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		together(t, stores, func(kv kvstore.Store) error { return kv.Init(t.Context(), "x", []float32{1}) })
		err := stores[0].PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{{0}})
		if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "worker 1 on worker1") {
			t.Errorf("got error %v, want %v with the worker's rank and host", err, kvstore.ErrUnavailable)
		}
		if !strings.Contains(log.String(), "worker 1 on worker1") {
			t.Errorf("got the log %q, want a line with the worker's rank and host", log.String())
		}
		// what was pushed counts once when it is pushed again
		together(t, stores, func(kv kvstore.Store) error {
			out := []float32{0}
			if err := kv.PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{out}); err != nil || out[0] != 2 {
				return fmt.Errorf("got %v and error %v, want 2", out, err)
			}
			return kv.Close()
		})
	})
}

// A small push-pull whose answer is not there yet ends at once with its context, its store or its
// job, and may be repeated. A job that fails closes no round over those who are left.
func TestSmallPushPullsEndAtOnce(t *testing.T) {
	runs := map[string]error{"context": context.Canceled, "store": kvstore.ErrClosed}
	for i := range seeds(8, 30) { // servers hear at once of the abort and of its end, in either order
		runs[fmt.Sprintf("job %d", i)] = kvstore.ErrUnavailable
	}
	for name, want := range runs {
		synctest.Test(t, func(t *testing.T) {
			stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_sync")
			together(t, stores, func(kv kvstore.Store) error {
				if err := kv.Init(t.Context(), "x", []float32{1}); err != nil {
					return err
				}
				for range 8 { // all connections
					if err := kv.PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{{0}}); err != nil {
						return err
					}
				}
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- stores[0].PushPull(ctx, "x", [][]float32{{1}}, [][]float32{{0}}) }()
			time.Sleep(2 * time.Second)
			begun := time.Now()
			switch name {
			case "context":
				cancel()
			case "store":
				stores[0].Close()
			default:
				stores[1].Abort(errors.New("out of paper"))
			}
			if err := <-ended; !errors.Is(err, want) || time.Since(begun) > 50*time.Millisecond {
				t.Errorf("%s: got error %v after %v, want %v at once", name, err, time.Since(begun), want)
			}
			if name == "context" {
				together(t, stores, func(kv kvstore.Store) error {
					out := []float32{0}
					if err := kv.PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{out}); err != nil || out[0] != 2 {
						return fmt.Errorf("again: got %v and error %v, want 2", out, err)
					}
					return nil
				})
			}
			together(t, stores, func(kv kvstore.Store) error { kv.Close(); return nil })
		})
	}
}

// safeBuffer is a Buffer that several goroutines may write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// exchange is one push and pull, in one call or two.
func exchange(ctx context.Context, kv kvstore.Store, oneCall bool, grad, out []float32) error {
	if oneCall {
		return kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out})
	}
	if err := kv.Push(ctx, "w", grad); err != nil {
		return err
	}
	return kv.Pull(ctx, "w", out)
}

// begin makes the key "w" of n zeros, to which pushes are added.
func begin(t *testing.T, stores []kvstore.Store, n int) {
	t.Helper()
	together(t, stores, func(kv kvstore.Store) error {
		return errors.Join(kv.SetOptimizer(t.Context(), optim.Config{Name: "test", LearningRate: 1}), kv.Init(t.Context(), "w", make([]float32, n)))
	})
}

// race lets three workers take steps, the last five times as long as the others', and returns the
// most pushes by which a worker that had got its value was ahead of the slowest, and how many steps
// each had done when the first was done.
func race(t *testing.T, oneCall, cut bool, opts ...kvstore.Option) (most int, done []int) {
	const workers, steps, seed = 3, 40, 7
	job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2, Seed: seed})
	stores := job.Stores(t, "dist_async", append(opts, kvstore.WithTimeout(time.Hour))...)
	begin(t, stores, 3)
	if cut {
		stop := make(chan struct{})
		var cutting sync.WaitGroup
		defer cutting.Wait()
		defer close(stop)
		cutting.Go(func() {
			random := rand.New(rand.NewPCG(seed, seed))
			for {
				select {
				case <-stop:
					return
				case <-time.After(70 * time.Millisecond):
				}
				w, s := fmt.Sprint("worker", random.IntN(workers)), fmt.Sprint("server", random.IntN(2))
				job.Net.Delay(faultnet.Any, faultnet.Any, time.Millisecond, 3*time.Millisecond)
				job.Net.Cut(w, s)
			}
		})
	}
	var mu sync.Mutex
	began, finished := make([]int, workers), make([]int, workers) // pushes each has begun; exchanges each has done
	together(t, stores, func(kv kvstore.Store) error {
		rank := kv.Rank()
		step := 10 * time.Millisecond
		if rank == workers-1 {
			step *= 5
		}
		out := make([]float32, 3)
		for range steps {
			time.Sleep(step)
			mu.Lock()
			began[rank]++
			mu.Unlock()
			if err := exchange(t.Context(), kv, oneCall, []float32{1, 1, 1}, out); err != nil {
				return err
			}
			mu.Lock()
			finished[rank]++
			slowest := began[0] // as many pushes as the slowest can have made by now
			for _, n := range began {
				slowest = min(slowest, n)
			}
			most = max(most, finished[rank]-slowest)
			lead := kv.Staleness("w").Lead
			if int(lead) < finished[rank]-slowest {
				t.Errorf("rank %d after %d exchanges: it says that it leads by %d, but the slowest has pushed at most %d times", rank, finished[rank], lead, slowest)
			}
			if finished[rank] == steps && done == nil {
				done = append(done, finished...)
			}
			mu.Unlock()
		}
		return nil
	})
	together(t, stores, func(kv kvstore.Store) error { // nothing was lost, nothing counted twice
		out := make([]float32, 3)
		if err := kv.Pull(t.Context(), "w", out); err != nil {
			return err
		}
		for i, v := range out {
			if v != workers*steps {
				return fmt.Errorf("value %d: got %v after %d pushes of 1, want %d", i, v, workers*steps, workers*steps)
			}
		}
		return kv.Close()
	})
	return most, done
}

// The bound is never passed and it is used: fast workers go k pushes ahead of the slowest, and no
// further, whether they push and pull in one call or two, and while connections break. At k = 0
// they go in step; without a bound at their own speed.
func TestStalenessBoundsTheFastWorkers(t *testing.T) {
	// Each bound with and without cuts, in one call and in two.
	for _, x := range []struct {
		k            uint64
		oneCall, cut bool
	}{{0, false, false}, {0, true, true}, {1, true, false}, {1, false, true}, {4, false, false}, {4, true, true}} {
		t.Run(fmt.Sprintf("staleness=%d/one call=%v/cut=%v", x.k, x.oneCall, x.cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most, done := race(t, x.oneCall, x.cut, kvstore.WithStaleness(x.k))
				if most > int(x.k) || !x.cut && most < int(x.k) {
					t.Errorf("the fast workers were at most %d pushes ahead, want %d", most, x.k)
				}
				if slow := done[2]; slow < 40-int(x.k)-1 {
					t.Errorf("the slowest worker had done %d steps when the first had done all 40, want at least %d", slow, 40-x.k-1)
				}
			})
		})
	}
	for _, oneCall := range []bool{false, true} {
		t.Run(fmt.Sprintf("no bound/one call=%v", oneCall), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, done := race(t, oneCall, false); done[2] > 40/5+1 {
					t.Errorf("the slow worker had done %d steps when the first had done all 40, want a fifth: nobody waits for it", done[2])
				}
			})
		})
	}
}

// A worker that has left no longer holds back the others.
func TestWorkerThatLeavesFreesThoseThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1}).Stores(t, "dist_async", kvstore.WithStaleness(1), kvstore.WithTimeout(time.Minute))
		begin(t, stores, 1)
		left := make(chan error, 1)
		go func() {
			time.Sleep(10 * time.Second)
			left <- stores[1].Close()
		}()
		start, out := time.Now(), []float32{0}
		for i := range 5 {
			if err := exchange(t.Context(), stores[0], true, []float32{1}, out); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); (i == 0) != (waited < 5*time.Second) || waited > 15*time.Second {
				t.Errorf("push-pull %d ended after %v, want the first at once and the others when the slow worker has left, after 10 s", i, waited)
			}
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
		if got := stores[0].Staleness("w"); got != (kvstore.Staleness{Round: 5}) {
			t.Errorf("got %+v, want round 5 and nobody behind", got)
		}
	})
}

// A wait for the slowest that takes too long names it, and what was pushed before it counts once
// when it is pushed again.
func TestBoundedPushPullThatGivesUpMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_async", kvstore.WithStaleness(0), kvstore.WithTimeout(8*time.Second))
		begin(t, stores, 2)
		out := make([]float32, 2)
		for range 2 {
			err := exchange(t.Context(), stores[0], true, []float32{1, 1}, out)
			if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "worker 1 on worker1") {
				t.Fatalf("got error %v, want %v with the worker that is waited for", err, kvstore.ErrUnavailable)
			}
		}
		together(t, stores, func(kv kvstore.Store) error {
			own := make([]float32, 2)
			if err := exchange(t.Context(), kv, true, []float32{1, 1}, own); err != nil || own[0] != 2 || own[1] != 2 {
				return fmt.Errorf("got %v and error %v, want 2 2: one push of each worker", own, err)
			}
			return kv.Close()
		})
	})
}

// What other workers pushed between a worker's pull and its next push is counted, the worker's own
// pushes are not.
func TestStalenessOfAGradientIsTold(t *testing.T) {
	stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_async")
	begin(t, stores, 2)
	out := make([]float32, 2)
	if got := stores[0].Staleness("w"); got != (kvstore.Staleness{}) {
		t.Errorf("before the first pull: got %+v, want zeros", got)
	}
	if err := stores[0].Pull(t.Context(), "w", out); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stores[1].Push(t.Context(), "w", []float32{1, 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []kvstore.Staleness{{Round: 4, Missed: 3}, {Round: 5}} {
		if err := exchange(t.Context(), stores[0], want.Missed > 0, []float32{1, 1}, out); err != nil {
			t.Fatal(err)
		}
		if got := stores[0].Staleness("w"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := recorded(stores[0]); got[telemetry.StalenessMax] != 3 || got[telemetry.StalenessMean] != 1 {
		t.Errorf("recorded: a mean of %v and a maximum of %v, want 1 (of three pulls) and 3", got[telemetry.StalenessMean], got[telemetry.StalenessMax])
	}
}

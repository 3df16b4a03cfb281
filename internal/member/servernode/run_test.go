package servernode_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// each calls f with all stores at the same time.
func each(stores []kvstore.Store, f func(kv kvstore.Store)) {
	var wg sync.WaitGroup
	for _, kv := range stores {
		wg.Go(func() { f(kv) })
	}
	wg.Wait()
}

func TestRunEndsWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2})
		stores := job.Stores(t, "dist_sync")
		each(stores, func(kv kvstore.Store) {
			if err := kv.Init(t.Context(), "x", []float32{1}); err != nil {
				t.Error(err)
			}
			if err := kv.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, err := range job.Wait(10 * time.Second) {
			if err != nil {
				t.Errorf("a process of a job that finished: got %v, want nil", err)
			}
		}
	})
}

// Where no worker ever joins the end of the scheduler is no failure, of the servers neither.
func TestAServerOfAJobThatNeverBeganEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2})
		synctest.Wait()
		job.StopScheduler()
		<-job.ServerEnded(0)
		<-job.ServerEnded(1)
		for i, err := range job.Wait(10 * time.Second) { // the scheduler says that it was ended
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("process %d to end: got %v, want nil", i, err)
			}
		}
	})
}

// Whoever waits hears why the job failed, at once.
func TestStoppedServerFailsTheJobByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2})
		stores := job.Stores(t, "dist_sync")
		waits := make(chan error, 1)
		go func() { waits <- stores[1].Init(t.Context(), "x", []float32{1}) }() // for rank 0
		synctest.Wait()
		began := time.Now()
		job.StopServer(1)
		err := <-waits
		if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "server 1") {
			t.Errorf("a wait under way: got %v, want it unavailable and server 1 named", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the wait ended after %v, want it at once", took)
		}
		for i, err := range job.Wait(10 * time.Second) {
			if err == nil {
				t.Errorf("process %d to end: got nil, want why the job failed", i)
			}
		}
	})
}

// A worker that falls silent is lost when its lease is over; nobody hangs.
func TestSilentWorkerDoesNotHangTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1, Lease: 5 * time.Second})
		stores := job.Stores(t, "dist_sync")
		each(stores, func(kv kvstore.Store) {
			if err := kv.Init(t.Context(), "x", []float32{1}); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		waits := make(chan error, 1)
		go func() {
			waits <- stores[0].PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{{0}})
		}()
		synctest.Wait()
		job.Net.Drop("worker1", "*")
		job.Net.Drop("*", "worker1")
		err := <-waits
		if err == nil || !strings.Contains(err.Error(), "worker 1") {
			t.Errorf("a round that lost a worker: got %v, want an error that names worker 1", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the round ended after %v, want it with the lease of 5s", took)
		}
		job.Wait(30 * time.Second)
	})
}

// Uneven numbers of steps end cleanly: what a worker pushed counts, also a round ahead, and then
// nobody waits for it.
func TestWorkerThatIsDoneStopsCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 3, Servers: 2})
		stores := job.Stores(t, "dist_sync")
		each(stores, func(kv kvstore.Store) {
			defer kv.Close()
			ctx := t.Context()
			if err := kv.Init(ctx, "x", []float32{0}); err != nil {
				t.Error(err)
				return
			}
			gradient := float32(int(1) << kv.Rank())
			if kv.Rank() == 1 {
				for range 2 { // the second one a round ahead; then it is done
					if err := kv.Push(ctx, "x", []float32{gradient}); err != nil {
						t.Error(err)
					}
				}
				return
			}
			time.Sleep(time.Second)
			for round, want := range []float32{7, 7, 5, 5} {
				out := []float32{0}
				if err := kv.PushPull(ctx, "x", [][]float32{{gradient}}, [][]float32{out}); err != nil || out[0] != want {
					t.Errorf("worker %d round %d: got %v, error %v; want %v", kv.Rank(), round, out[0], err, want)
				}
			}
		})
		for _, err := range job.Wait(10 * time.Second) {
			if err != nil {
				t.Errorf("a process of a job that finished: got %v, want nil", err)
			}
		}
	})
}

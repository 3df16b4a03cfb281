package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// A worker that asks to leave does so at the next change. The request does not count as a call of
// the program, which may not be under way then.
func TestAWorkerThatAsksLeavesAtTheBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Elastic: cluster.Elastic{Enabled: true}})
		stores := job.Stores(t, "dist_sync")
		jobs := []kvstore.Elastic{stores[0], stores[1]}
		if err := jobs[1].AskLeave(t.Context(), "told to"); err != nil {
			t.Fatal(err)
		}
		if err := jobs[0].AskLeave(t.Context(), "told to"); !errors.Is(err, kvstore.ErrNeeded) {
			t.Errorf("the last one asks to leave: got error %v, want ErrNeeded", err)
		}
		job.Net.Refuse("worker1", "scheduler")
		job.Net.Cut("worker1", "scheduler")
		asked := make(chan error, 1)
		go func() { asked <- jobs[1].AskLeave(t.Context(), "told to, again") }()
		synctest.Wait() // it is under way at the boundary
		arrived := make(chan error, 1)
		go func() { arrived <- jobs[1].Arrive(t.Context(), kvstore.Arrival{Change: 1}) }()
		time.Sleep(300 * time.Millisecond)
		job.Net.Restore("worker1", "scheduler")
		if err := jobs[0].Arrive(t.Context(), kvstore.Arrival{Change: 1}); err != nil {
			t.Errorf("the worker that stays arrives: %v", err)
		}
		if err := <-arrived; !errors.Is(err, kvstore.ErrRemoved) {
			t.Errorf("the worker that leaves arrives: got error %v, want ErrRemoved", err)
		}
		if err := <-asked; err != nil {
			t.Errorf("asked once more: %v", err)
		}
		if n := stores[0].NumWorkers(); n != 1 {
			t.Errorf("%d workers are left, want 1", n)
		}
	})
}

// A request that waits for a scheduler that is out of reach ends with its context and with the
// store.
func TestAskingToLeaveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Elastic: cluster.Elastic{Enabled: true}})
		stores := job.Stores(t, "dist_sync")
		job.Net.Refuse("worker1", "scheduler")
		job.Net.Cut("worker1", "scheduler")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := stores[1].AskLeave(ctx, "told to"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want that of the context", err)
		}
		asked := make(chan error, 1)
		begin := time.Now()
		go func() {
			asked <- stores[1].AskLeave(t.Context(), "told to")
			if took := time.Since(begin); took > 100*time.Millisecond {
				t.Errorf("the request ended %v after the store was closed", took)
			}
		}()
		synctest.Wait()
		time.AfterFunc(200*time.Millisecond, func() { job.Net.Restore("worker1", "scheduler") })
		if err := stores[1].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-asked; err == nil {
			t.Error("a request of a closed store went well")
		}
	})
}

func TestOnlyWorkersOfAJobCanLeaveIt(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if err := kv.AskLeave(t.Context(), "told to"); !errors.Is(err, kvstore.ErrNeeded) {
		t.Errorf("ask to leave a local store: got error %v, want ErrNeeded", err)
	}
}

// farewell is a store that notes how it was left.
type farewell struct {
	kvstore.Store
	closed, aborted error
}

var errClosed = errors.New("closed")

func (f *farewell) Close() error            { f.closed = errClosed; return nil }
func (f *farewell) Abort(cause error) error { f.aborted = cause; return nil }

// A removed worker leaves cleanly: its end is no failure of the job.
func TestLeaveEndsAsTheWorkDid(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range []error{nil, broken, kvstore.ErrRemoved, fmt.Errorf("arrive: %w", kvstore.ErrRemoved)} {
		f := &farewell{}
		got := kvstore.Leave(f, err)
		if !errors.Is(got, err) {
			t.Errorf("leave after %v: got %v, want it in the chain", err, got)
		}
		inOrder := err == nil || errors.Is(err, kvstore.ErrRemoved)
		if (f.closed != nil) != inOrder || (f.aborted != nil) == inOrder {
			t.Errorf("leave after %v: closed %v, aborted for %v, want it closed in order: %v", err, f.closed != nil, f.aborted, inOrder)
		}
	}
}

// What a job was started with is the same for those who join it later, and after others have left.
func TestInitialWorkersAreThoseOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Elastic: cluster.Elastic{Enabled: true}})
		stores := job.Stores(t, "dist_sync")
		if err := stores[1].AskLeave(t.Context(), "told to"); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() { gone <- stores[1].Arrive(t.Context(), kvstore.Arrival{}) }()
		if err := stores[0].Arrive(t.Context(), kvstore.Arrival{}); err != nil {
			t.Fatal(err)
		}
		if err := <-gone; !errors.Is(err, kvstore.ErrRemoved) {
			t.Fatalf("arrive of the worker that leaves: got %v, want ErrRemoved", err)
		}
		if err := kvstore.Leave(stores[1], nil); err != nil {
			t.Error(err)
		}
		joiner, err := joining.Join(t.Context(), job.JoinerConfig(2), "dist_sync")
		if err != nil {
			t.Fatal(err)
		}
		defer joiner.Close()
		for _, kv := range []kvstore.Store{stores[0], joiner} {
			if got := kv.InitialWorkers(); got != 2 {
				t.Errorf("node %d: got %d initial workers, want 2", kv.NodeID(), got)
			}
		}
		if got := stores[0].NumWorkers(); got != 1 {
			t.Errorf("workers now: got %d, want 1", got)
		}
	})
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil || kv.InitialWorkers() != 1 {
		t.Fatalf("a store within the process: got %v and error %v, want one initial worker", kv, err)
	}
	kv.Close()
}

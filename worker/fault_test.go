package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

var errFault = errors.New("fault")

// faultyStore fails, or never answers, the call number at (from 1) of a kind.
type faultyStore struct {
	kvstore.Store
	kind  string // "exchange" (of a gradient), "agree" (on stopping), "average" (of state), "broadcast", "barrier" or "save"
	at    int64
	hangs bool // instead of failing: the call and those after it wait for the end of their context
	calls atomic.Int64
}

func (s *faultyStore) fault(ctx context.Context, kind string) error {
	if kind != s.kind {
		return nil
	}
	n := s.calls.Add(1)
	if s.hangs && n >= s.at {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if n == s.at {
		return errFault
	}
	return nil
}

func (s *faultyStore) Broadcast(ctx context.Context, make func() (string, error)) (string, error) {
	if err := s.fault(ctx, "broadcast"); err != nil {
		return "", err
	}
	return s.Store.Broadcast(ctx, make)
}

func (s *faultyStore) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return s.Weighted(1, false).PushPull(ctx, key, grads, outs)
}

func (s *faultyStore) Weighted(weight float32, counted bool) kvstore.Pusher {
	return faultyStorePusher{s.Store.Weighted(weight, counted), s}
}

type faultyStorePusher struct {
	kvstore.Pusher
	of *faultyStore
}

func (p faultyStorePusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	kind := "exchange"
	switch {
	case strings.Contains(key, ".running_"):
		kind = "average"
	case strings.HasPrefix(key, "paragon/"):
		kind = "agree"
	}
	if err := p.of.fault(ctx, kind); err != nil {
		return err
	}
	return p.Pusher.PushPull(ctx, key, grads, outs)
}

func (s *faultyStore) Barrier(ctx context.Context) error {
	if err := s.fault(ctx, "barrier"); err != nil {
		return err
	}
	return s.Store.Barrier(ctx)
}

func (s *faultyStore) Snapshot(ctx context.Context) (*kvstore.Snapshot, error) {
	if err := s.fault(ctx, "save"); err != nil {
		return nil, err
	}
	return s.Store.Snapshot(ctx)
}

// faultyFeed fails its call of Next number at, from 1.
type faultyFeed struct {
	worker.Feed
	at int
}

func (f *faultyFeed) Next(ctx context.Context) ([]int, error) {
	if f.at--; f.at == 0 {
		return nil, errFault
	}
	return f.Feed.Next(ctx)
}

type faultyEvaluator struct{}

func (faultyEvaluator) Evaluate(context.Context) (worker.Scores, error) {
	return worker.Scores{}, errFault
}

// Whatever fails, Fit returns that error and leaves nothing running: the bubble of synctest ends
// only without goroutines.
func TestFitEndsWithTheErrorOfWhatFails(t *testing.T) {
	type fault struct {
		name   string
		change func(*fitRig)
		want   string
	}
	faults := []fault{
		{"feed", func(r *fitRig) { r.cfg.Feed = &faultyFeed{Feed: r.feed, at: 11} }, "epoch 1 step 2"},
		{"evaluator", func(r *fitRig) { r.cfg.Evaluator = faultyEvaluator{} }, "evaluate after epoch 0"},
	}
	store := func(kind string, at int64, want string) fault {
		return fault{fmt.Sprintf("%s %d", kind, at), func(r *fitRig) { r.store.kind, r.store.at = kind, at }, want}
	}
	for _, at := range []int64{1, 2, 20, 33} {
		faults = append(faults, store("exchange", at, "worker: exchange "))
	}
	faults = append(faults,
		store("broadcast", 1, "worker: resume"), store("agree", 1, "agree on stopping"), store("agree", 8, "agree on stopping"), store("average", 1, "average "),
		store("agree", 4, "agree on a checkpoint"), store("agree", 5, "agree on a checkpoint"), store("save", 2, "checkpoint at step "))
	for _, devices := range []int{1, 2} {
		for _, f := range faults {
			t.Run(fmt.Sprintf("devices=%d/%s", devices, f.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newFaultRig(t, devices)
					r.cfg.Checkpoint = worker.CheckpointConfig{Dir: t.TempDir(), EverySteps: 3}
					f.change(r)
					_, err := worker.Fit(t.Context(), r.cfg)
					if !errors.Is(err, errFault) || !strings.Contains(err.Error(), f.want) {
						t.Errorf("Fit: got error %v, want the fault, with %q", err, f.want)
					}
				})
			})
		}
	}
}

// A store that never answers holds Fit no longer than its context, wherever it is.
func TestFitEndsWithItsContext(t *testing.T) {
	for _, devices := range []int{1, 2} {
		for kind, calls := range map[string][]int64{"exchange": {1, 2, 9, 33}, "agree": {1, 2, 4, 5, 9}, "average": {1, 2}, "broadcast": {1}, "save": {1, 2}} {
			for _, at := range calls {
				t.Run(fmt.Sprintf("devices=%d/%s %d", devices, kind, at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newFaultRig(t, devices)
						r.cfg.Checkpoint = worker.CheckpointConfig{Dir: t.TempDir(), EverySteps: 3}
						r.store.kind, r.store.at, r.store.hangs = kind, at, true
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						if _, err := worker.Fit(ctx, r.cfg); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Fit: got error %v, want %v", err, context.DeadlineExceeded)
						}
					})
				})
			}
		}
	}
}

// Flush and Step end with their own context, and Close with what is under way.
func TestWaitsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFaultRig(t, 1)
		trainer := r.cfg.Trainer
		r.store.kind, r.store.at, r.store.hangs = "exchange", 1, true
		step(t, trainer, 8)
		for what, wait := range map[string]func(context.Context) error{
			"Flush":        trainer.Flush,
			"AverageState": trainer.AverageState,
			"Step":         func(ctx context.Context) error { return trainer.Step(ctx, []int{8}) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got error %v, want %v", what, err, context.DeadlineExceeded)
			}
			cancel()
		}
		if err := trainer.Close(); err != nil {
			t.Error(err)
		}
		if err := trainer.Step(t.Context(), []int{8}); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("Step of a closed trainer: got error %v, want one that says so", err)
		}
		if err := trainer.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

// The context of a step may end with the step: what it handed in still gets through.
func TestExchangeOutlivesTheContextOfItsStep(t *testing.T) {
	r := newFaultRig(t, 1)
	before := slices.Clone(r.values())
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := r.feed.Next(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.cfg.Trainer.Step(ctx, []int{8}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if err := r.cfg.Trainer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if firstDifference(before, r.values()) < 0 {
		t.Error("three steps changed no value")
	}
}

// A second run through the same store would mix its steps with those of the first.
func TestFitIsOncePerStore(t *testing.T) {
	r := newFitRig(t, false)
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "new store and trainer") {
		t.Errorf("Fit a second time: got error %v, want one that asks for a new store and trainer", err)
	}
}

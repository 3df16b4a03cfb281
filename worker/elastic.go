package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/kvstore"
)

// elasticOf returns a store as one whose workers may come and go after a step that all agree on;
// nil: it is none.
func elasticOf(store kvstore.Store) kvstore.Elastic {
	switch store.Type() {
	case "dist_sync", "dist_device_sync":
		elastic, _ := store.(kvstore.Elastic)
		return elastic
	}
	return nil
}

// joins reports whether this worker joins a running job and does not count yet.
func joins(store kvstore.Store) bool {
	elastic, ok := store.(kvstore.Elastic)
	return ok && elastic.Joining()
}

// weigh sets the weight and the examples of this worker's contributions, up to the next step. No
// exchange is under way.
func (t *Trainer) weigh(of amount) {
	changed := t.agreeing == nil || t.weighed != of || t.countedThen != t.counting
	t.weighed, t.countedThen = of, t.counting
	if changed {
		// The agreement needs the worker's share also where no label counts.
		t.agreeing = t.cfg.Store.Weighted(float32(of.examples), false)
	}
	step := kvstore.Step{Weight: float32(of.weight), Examples: of.examples, Counted: t.counting}
	if t.adapt != nil { // each step has its own learning rate
		t.pusher = t.cfg.Store.Step(t.adapt.nextStep(step))
		t.exchange.pusher = t.pusher
		return
	}
	if changed {
		if t.pusher = t.cfg.Store.Step(step); of.weight == float64(of.examples) {
			t.pusher = t.cfg.Store.Weighted(step.Weight, t.counting)
		}
		step.Measure = true
		t.measuring = t.cfg.Store.Step(step)
	}
	t.takeNorm()
	if t.exchange.pusher = t.pusher; t.measuresNorm() {
		t.exchange.pusher, t.normed = t.measuring, true
	}
}

// count sets whether the servers count the examples of the next steps as used.
func (t *Trainer) count(counting bool) { t.counting = counting && t.elastic != nil }

// pullFresh pulls all values on a worker that has just joined.
func (t *Trainer) pullFresh(ctx context.Context) error {
	t.fresh = true
	for i, key := range t.keys {
		outs := t.exchange.outs[i]
		if err := t.cfg.Store.Pull(ctx, key, outs...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", key, err)
		}
		if t.local != nil {
			copy(t.local.anchors[i], outs[0])
		}
	}
	for s, state := range t.cfg.Programs[0].State() {
		if err := t.cfg.Store.Pull(ctx, state.Name, t.stateValues(s)...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", state.Name, err)
		}
	}
	return t.pullFrozen(ctx)
}

// barrier returns when all workers that live have come to it.
func (t *Trainer) barrier(ctx context.Context) error {
	if t.roll == nil {
		return t.cfg.Store.Barrier(ctx)
	}
	if err := t.roll.Barrier(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// beginRoll makes this worker take part in the roll calls.
func (t *Trainer) beginRoll(ctx context.Context) (err error) {
	if t.roll, err = rollcall.New(ctx, t.cfg.Store); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

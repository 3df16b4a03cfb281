package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/optim"
)

// beginLocalSteps gives the outer optimizer to the servers and keeps the inner one.
func (t *Trainer) beginLocalSteps(ctx context.Context) error {
	store, outer := t.cfg.Store, t.cfg.Outer
	if outer.Name == "" {
		outer = defaultOuter()
	}
	outer.Reduction = optim.Mean
	var err error
	if t.local, err = newLocalSteps(t.cfg.Optimizer, store.LocalSteps(), t.devices.holders()); err != nil {
		return err
	}
	t.update = t.local.inner
	if err := store.SetOptimizer(ctx, outer); err != nil {
		return fmt.Errorf("worker: set outer optimizer %s: %w", outer.Name, err)
	}
	return t.local.agree(ctx, store)
}

// Sync brings what this worker has learned since the last round to the others, and what they have,
// ahead of the round's end: with local steps under way it closes their round, without any it is
// Flush. Every worker calls it after the same step; Fit does so at the end of an epoch.
func (t *Trainer) Sync(ctx context.Context) error {
	if err := t.Flush(ctx); err != nil || t.local == nil || t.local.done == 0 {
		return err
	}
	t.weigh(t.local.amount)
	for i := range t.keys {
		t.local.difference(i, t.local.amount.weight)
		t.exchange.submit(i)
	}
	t.local.begin()
	return t.Flush(ctx)
}

// weighLocal sets the weight of the round that Sync would close now.
func (t *Trainer) weighLocal(ctx context.Context) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.weigh(t.local.amount)
	return nil
}

// roundEnds reports whether the step to come ends with an exchange: always, but for local steps.
func (t *Trainer) roundEnds() bool { return t.local == nil || t.local.last() }

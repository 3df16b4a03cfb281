package worker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// initState gives the running statistics their keys, which the store averages and no optimizer
// touches; rank 0's first values count. A key is the statistic's own name, that of PyTorch:
// bn1.running_mean.
func (t *Trainer) initState(ctx context.Context) error {
	for s, state := range t.cfg.Programs[0].State() {
		if err := t.cfg.Store.InitAverage(ctx, state.Name, state.Value); err != nil {
			return fmt.Errorf("worker: init %s: %w", state.Name, err)
		}
		if err := t.cfg.Store.Pull(ctx, state.Name, t.devices.stateValues(s)...); err != nil {
			return fmt.Errorf("worker: pull first value of %s: %w", state.Name, err)
		}
	}
	return nil
}

// AverageState replaces the running statistics (batch norm's means and variances) on every device
// of every worker by their mean over all of them, after a Sync. Every worker calls it after the
// same step; Fit does so at the end of an epoch.
func (t *Trainer) AverageState(ctx context.Context) error {
	if err := t.Sync(ctx); err != nil {
		return err
	}
	// The store sums the devices of a push and divides by the weights. A newcomer has nothing
	// to say yet.
	weight := float32(len(t.cfg.Programs))
	if t.newcomer {
		weight = 0
	}
	pusher := t.cfg.Store.Weighted(weight, false)
	group, ctx := errgroup.WithContext(ctx)
	for s, state := range t.cfg.Programs[0].State() {
		values := t.devices.stateValues(s)
		pushed := values
		if weight == 0 {
			pushed = [][]float32{make([]float32, len(values[0]))}
		}
		group.Go(func() error {
			if err := pusher.PushPull(ctx, state.Name, pushed, values); err != nil {
				return fmt.Errorf("worker: average %s: %w", state.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

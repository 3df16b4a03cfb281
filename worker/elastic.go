package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/kvstore"
)

// elasticOf returns a store as one whose workers may come and go after a step that all agree on;
// nil: it is none.
func elasticOf(store kvstore.Store) kvstore.Elastic {
	switch store.Type() {
	case "dist_sync", "dist_device_sync":
		return store
	}
	return nil
}

// joins reports whether this worker joins a running job and does not count yet.
func joins(store kvstore.Elastic) bool { return store.Joining() }

// pullFresh pulls all values on a worker that has just joined.
func (t *Trainer) pullFresh(ctx context.Context) error {
	t.newcomer = true
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
		if err := t.cfg.Store.Pull(ctx, state.Name, t.devices.stateValues(s)...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", state.Name, err)
		}
	}
	return t.pullFrozen(ctx)
}

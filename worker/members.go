package worker

import (
	"context"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/kvstore"
)

// members are what a run knows of workers that come and go.
type members struct {
	// elastic and roll are nil where workers neither come nor go.
	elastic kvstore.Elastic
	roll    *rollcall.Roll
	// joined says that this worker came to a running job.
	joined bool
}

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

// askLeave asks the scheduler to let this worker leave. It is nil where workers do not come or go,
// or the work of this one could not go to the others.
func (m *members) askLeave(shared bool) func(ctx context.Context) error {
	if m.elastic == nil || !shared {
		return nil
	}
	return func(ctx context.Context) error { return m.elastic.AskLeave(ctx, "it was told to end") }
}

package kvstore

import (
	"context"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A member is a worker's membership in a job, as far as a store needs it: a *cluster.Node, which
// documents the methods, or an inProcess. Its methods may be called concurrently.
type member interface {
	ID() cluster.NodeID
	Rank() cluster.Rank
	Generation() cluster.Generation
	Membership() wire.Membership
	Server(rank cluster.Rank) (transport.Caller, string, error)
	Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error)
	Barrier(ctx context.Context, name string) error
	Signal(ctx context.Context, name, value string) error
	Await(ctx context.Context, name string) (value string, err error)
	Recorder() *telemetry.Recorder
	Trace() *trace.Recorder
	Done() <-chan struct{}
	Err() error
	Leave(ctx context.Context, ok bool, reason string) error
	Close() error
}

var _ member = (*cluster.Node)(nil)

package kvstore

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A member is a worker's membership in a job, as far as every store needs it: a *cluster.Node,
// which documents the methods, or an inProcess. Its methods may be called concurrently.
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

// What follows are abilities that a member may have. A member without one is in a job where nothing
// calls for it, as within this process.
type (
	// changing: the membership may change.
	changing interface {
		Joining() bool
		Ready(ctx context.Context) error
		Pending() uint64
		Arrive(ctx context.Context, a wire.Arrive) error
		AskLeave(ctx context.Context, reason string) error
		Changed() <-chan struct{}
	}
	// placementSource: shards may move to other servers.
	placementSource interface {
		Changed() <-chan struct{}
		Places(ctx context.Context, from uint64) (wire.Places, error)
	}
	// hostMember: the workers of its host can be reached.
	hostMember interface {
		member
		Changed() <-chan struct{}
		Worker(node cluster.NodeID) (transport.Caller, error)
	}
	// stopping: the job may be asked to stop with a checkpoint.
	stopping interface {
		StopRequested() <-chan struct{}
		Stopped(ctx context.Context, steps uint64, reason string) error
	}
	// initialSize: the job may have begun with another number of workers.
	initialSize interface{ InitialWorkers() int }
	// progressing: heartbeats say how far the worker is.
	progressing interface{ Progress(step, epoch uint64) }
	// adapting: heartbeats say how the job adapts its batch size.
	adapting interface {
		ReportAdaptation(text string)
		WorkerRange() (least, most int)
	}
	// waitReporter: heartbeats say what the worker waits for.
	waitReporter interface {
		ReportWaits(longest func() (call, whom string, waited time.Duration))
	}
	// runMember: launch has started the job as one of a run.
	runMember interface {
		Run() (id string, again bool)
	}
)

// A node of a job has all of them.
var (
	_ changing        = (*cluster.Node)(nil)
	_ placementSource = (*cluster.Node)(nil)
	_ hostMember      = (*cluster.Node)(nil)
	_ stopping        = (*cluster.Node)(nil)
	_ initialSize     = (*cluster.Node)(nil)
	_ progressing     = (*cluster.Node)(nil)
	_ adapting        = (*cluster.Node)(nil)
	_ waitReporter    = (*cluster.Node)(nil)
	_ runMember       = (*cluster.Node)(nil)
)

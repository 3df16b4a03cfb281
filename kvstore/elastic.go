package kvstore

import (
	"context"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/sampler"
)

// ErrRemoved: this worker has left the job, as the job asked it to or as it asked itself. All its
// steps count. Close the store and exit with code 0.
var ErrRemoved = cluster.ErrRemoved

// ErrNeeded: this worker cannot leave alone, because the job cannot go on without it.
var ErrNeeded = cluster.ErrNeeded

// ErrLost: the job has declared this worker lost, because it was silent for longer than its lease.
var ErrLost = cluster.ErrLost

// ErrFinished: all workers that counted had finished before this one took part.
var ErrFinished = cluster.ErrFinished

// A NodeID identifies a process for the life of the job. Ranks change with the membership; a
// process that is started again has a new NodeID.
type NodeID uint64

// A Division says which worker has which examples of an epoch: what remains after the cuts (see
// sampler.Divide) is shared by the workers, part i for rank i. An epoch after Epoch has no cuts.
type Division struct {
	// Change is the number of the change that made the division; 0: none did.
	Change uint64
	// Epoch is the one to which the cuts belong, and Step the next step of it when the division
	// was made.
	Epoch, Step uint64
	// Steps is the number of steps that had been done in all when the division was made.
	Steps uint64
	// Stop says that the workers had agreed to stop there.
	Stop bool
	Cuts []sampler.Cut
	// Order is the name of the order (sampler.Order.String) that the workers gave when the
	// division was made; empty: they gave none.
	Order string
}

// An Arrival is what a worker says at a boundary. All workers say the same, but for Used.
type Arrival struct {
	// Change is the pending change. 0: others have said that there is one, and it is waited
	// for.
	Change uint64
	// Steps is the number of steps done in all.
	Steps uint64
	// Epoch is the one of the next step, and Step that step's number in it.
	Epoch, Step uint64
	// Used is how many examples of its share of this division its steps of the epoch used.
	Used uint64
	// Stop says that the workers have agreed to stop here, which those who join must know.
	Stop bool
	// Earlier has for each worker of the division, by rank, the examples that it used since the
	// division was made in epochs before Epoch; empty: none. The servers count what a worker
	// uses (Weighted) from the time it joined; of one that is lost the rest is what it used of
	// its share.
	Earlier []uint64
	// Resumed and Cuts are of a run that goes on from a checkpoint in the middle of Epoch, up
	// to the first change: the cuts that the epoch had there, and for each worker, by rank, how
	// many examples of its share the run had used there, which Used includes.
	Resumed []uint64
	Cuts    []sampler.Cut
	// Order is the name of the order in which epochs are read, for those who join; empty: the
	// workers share no examples.
	Order string
}

// Elastic are the calls about a job whose workers may change while it runs. (Of the store's own code
// they are in membership.go, and what they ask of the scheduler is in package cluster.) An ElasticSampler makes
// them for a training loop, and worker.Fit for a worker.Feed; by themselves they serve loops that
// have no examples to share:
//
//   - A worker that joins a running job initialises keys and sets the same optimizer as the others,
//     and calls Ready. It counts when Ready returns: from the open round of every key on.
//   - In each step every worker pushes a flag beside its gradients, 1 where Pending is not 0, to a
//     key of InitAverage. All see the same value. Where it is above 0 each calls AwaitPending, for
//     the others may have heard of the change first, and Arrive; then Rank and NumWorkers are new.
//   - A worker that is told to end while the others go on calls AskLeave, and goes on until its
//     Arrive is ErrRemoved.
//   - A lost worker makes none of these calls, and rounds close without it at once. Its loss is a
//     pending change for the others: each calls Arrive as above, and the ranks have no gap any more.
//
// Calls that are under way when the membership changes continue in the new generation; they are
// sent again if necessary and count once. If this worker was declared lost, because it was silent
// for longer than its lease, all calls return ErrUnavailable with ErrLost in the chain.
type Elastic interface {
	// Joining reports whether this worker does not count yet: it may initialise keys, pull, set
	// the optimizer and compression, and read, but a push, a barrier or a load is
	// ErrUnsupported.
	Joining() bool
	// Ready reports that this worker can take part, and returns when it counts, from the open
	// round of every key on. ErrRemoved is in the error's chain if it was asked to leave,
	// ErrFinished if the job finished before.
	Ready(ctx context.Context) error
	// Pending is the number of the pending change, 0 if there is none. It costs no more than
	// reading a variable.
	Pending() uint64
	// AwaitPending waits until this worker knows of a pending change, and returns its number.
	AwaitPending(ctx context.Context) (uint64, error)
	// AwaitMembers waits until this worker knows that at most so many workers count.
	AwaitMembers(ctx context.Context, most int) error
	// Arrive reports that this worker has reached the step of the change, and returns when all
	// have and the change is made: Rank, NumWorkers and Generation are then new. No other call
	// of this store may be under way. ErrRemoved is in the error's chain if this worker was
	// asked to leave.
	Arrive(ctx context.Context, a Arrival) error
	// AskLeave asks to leave while the others go on; the reason is for people. A worker program
	// calls it, from any goroutine, when it is told to end (SIGTERM). On nil the worker may
	// leave: it goes on until the next Arrive, which returns ErrRemoved, as Ready does on a
	// joining worker. ErrNeeded is in the error's chain if the job cannot go on without it: it
	// was not started with --elastic-training-enabled, fewer than --min-workers would be left,
	// or all of it is being stopped. While the scheduler is unreachable the request is
	// repeated, until ctx ends or the store is closed.
	AskLeave(ctx context.Context, reason string) error
	// Division is the division of the epoch that the last change made.
	Division() Division
	// Members are the workers that count, in rank order.
	Members() []NodeID
	NodeID() NodeID
	// Progress sets the number of steps and the epoch that the next heartbeats report, for
	// `launch ctl status`.
	Progress(steps, epoch uint64)
	// ReportAdaptation sets what the next heartbeats of rank 0 say of how the job adapts its
	// batch size, for `launch ctl status` and for whoever divides a cluster among jobs: JSON of
	// at most MaxAdaptation bytes of UTF-8, as worker.Fit makes it. A newer text replaces it;
	// an empty one ends the reports.
	ReportAdaptation(text string) error
	// WorkerRange is the range of the numbers of workers that rank 0 may wish for in
	// ReportAdaptation: --min-workers to --max-workers of a job that was started with
	// --adapt-workers, within the slots of its hosts. most is 0 in other jobs, where nothing
	// carries a wish out.
	WorkerRange() (least, most int)
}

// MaxAdaptation bounds the text of ReportAdaptation, in bytes.
const MaxAdaptation = wire.MaxAdaptation

package cluster

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Errors that callers ask for.
var (
	// ErrNoJob: the environment describes no job, so a program may run as a job of its own.
	ErrNoJob = errors.New("no job in the environment")
	// ErrClosed: Leave or Close ended the node.
	ErrClosed = errors.New("closed")
	// ErrFailed: the job failed; the text says why.
	ErrFailed = errors.New("the job failed")
	// ErrFinished: all workers are done.
	ErrFinished = errors.New("the job has finished")
	// ErrLost: the scheduler has declared the node lost. It is in the error's chain as a
	// *LostError.
	ErrLost = errors.New("no longer a member of the job")
	// ErrRemoved: the node was asked to leave the job. All its steps count, and its process
	// should end with code 0.
	ErrRemoved = errors.New("removed from the job")
	// ErrNeeded: the node may not leave, because the job would not go on without it; the text
	// says why.
	ErrNeeded = errors.New("the job cannot go on without this worker")
	// ErrNoServer: there is no server of this rank (any more).
	ErrNoServer = errors.New("no such server")
	// ErrScheduler: the scheduler was unreachable for too long.
	ErrScheduler = errors.New("scheduler unreachable")
)

// HowToComeBack tells a person what to do with a process that the job has lost.
const HowToComeBack = "end this process; to take part again, start a new one with PARAGON_JOIN=1"

// A LostError ends a node that the scheduler has declared lost, for example because its lease
// expired. It is ErrLost.
type LostError struct {
	// Reason is in the scheduler's words.
	Reason string
}

// Error also says what to do.
func (e *LostError) Error() string {
	return fmt.Sprintf("cluster: %v: %s; %s", ErrLost, e.Reason, HowToComeBack)
}

// Is makes it ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// explainRemoval wraps a refusal in ErrRemoved if the node was removed; it returns other errors
// unchanged.
func explainRemoval(err error) error {
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeRemoved {
		return fmt.Errorf("%w: %s", ErrRemoved, refusal.Text)
	}
	return err
}

// ErrMoved: the placement of shards has changed; a newer membership is about to arrive.
var ErrMoved = errors.New("the placement of shards has changed")

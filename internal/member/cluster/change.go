package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Pending is the number of the pending membership change, 0 if there is none. It is one atomic
// load.
func (n *Node) Pending() uint64 { return n.members.pending.Load() }

// Ready tells the scheduler that a joining node can take part, and returns when it is a member:
// Rank and Membership are then those of the new generation. For a member it returns at once.
// ErrRemoved is in the error's chain if the node was asked to leave.
func (n *Node) Ready(ctx context.Context) error {
	if !n.Joining() {
		return n.Err()
	}
	var ack wire.Ack
	err := n.waitAtScheduler(ctx, "ready", &ack, func(_ uint64, wait uint32) wire.Message {
		return &wire.Ready{Node: uint64(n.id), WaitMillis: wait}
	})
	return n.awaitRevision(ctx, "ready", err, ack.Revision)
}

// Arrive tells the scheduler that the node has reached the step of the change and has nothing under
// way. a is as wire.Arrive says; the node fills in generation, node and wait. Change 0: other
// workers know of a change, wait for it. Arrive returns when the change is committed: Rank and
// Membership are then those of the new generation. ErrRemoved is in the error's chain if the node
// was asked to leave.
func (n *Node) Arrive(ctx context.Context, a wire.Arrive) error {
	if a.Change == 0 {
		if err := n.awaitMembership(ctx, func(m *wire.Membership) bool { return m.Change != 0 }); err != nil {
			return fmt.Errorf("cluster: arrive: %w", err)
		}
		a.Change = n.Pending()
	}
	a.Node = uint64(n.id)
	var ack wire.Ack
	what := fmt.Sprintf("arrive at change %d", a.Change)
	err := n.waitAtScheduler(ctx, what, &ack, func(generation uint64, wait uint32) wire.Message {
		a.Generation, a.WaitMillis = generation, wait
		return &a
	})
	return n.awaitRevision(ctx, what, err, ack.Revision)
}

// AskLeave asks to leave the job while the others go on; the reason is for people. On nil the
// worker may leave: the next Arrive, or Ready on a joining worker, returns ErrRemoved. ErrNeeded is
// in the error's chain if the job is not elastic, too few workers would be left, or the whole job
// is being stopped. While the scheduler is unreachable the request is repeated.
func (n *Node) AskLeave(ctx context.Context, reason string) error {
	_, err := n.ask(ctx, 0, &wire.AskLeave{Node: uint64(n.id), Reason: reason}, &wire.Ack{}, true)
	var refusal *transport.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && refusal.Code == wire.CodeRemoved:
		// It was asked to leave before.
		return nil
	case errors.As(err, &refusal) && (refusal.Code == wire.CodeConflict || refusal.Code == wire.CodeUnsupported):
		return fmt.Errorf("cluster: ask to leave: %w: %s", ErrNeeded, refusal.Text)
	}
	return fmt.Errorf("cluster: ask to leave: %w", err)
}

// awaitRevision ends a wait for a change: it waits until the node has the membership of that
// revision.
func (n *Node) awaitRevision(ctx context.Context, what string, err error, revision uint64) error {
	if removed := explainRemoval(err); errors.Is(removed, ErrRemoved) {
		return fmt.Errorf("cluster: %s: %w", what, removed)
	}
	if err != nil {
		return err
	}
	if err := n.awaitMembership(ctx, func(m *wire.Membership) bool { return m.Revision >= revision }); err != nil {
		return fmt.Errorf("cluster: %s: %w", what, err)
	}
	return nil
}

// ReportLostExamples reports to the scheduler how many examples of a lost worker all shards of this
// server have. See wire.LostExamples.
func (n *Node) ReportLostExamples(ctx context.Context, placement uint64, lost NodeID, examples uint64) error {
	if _, err := n.ask(ctx, 0, &wire.LostExamples{Node: uint64(n.id), Placement: placement, Lost: uint64(lost), Examples: examples}, &wire.Ack{}, true); err != nil {
		return fmt.Errorf("cluster: report the examples of lost node %d: %w", lost, err)
	}
	return nil
}

// Joining reports whether the node has joined a running job and is not yet a member of a
// generation.
func (n *Node) Joining() bool { return n.members.joining() }

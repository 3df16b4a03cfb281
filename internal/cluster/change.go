package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// Joining says that the node is a member that does not count yet.
func (n *Node) Joining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.membership.Phase == wire.PhaseRunning && !n.counts
}

// Pending is the number of the change that is pending, 0 if there is none. It costs no more than reading a variable.
func (n *Node) Pending() uint64 { return n.pending.Load() }

// Ready says that a node which joined a running job can take part, and returns once it counts: Rank and Membership are then those
// with it. Of a node that counts it returns at once. ErrRemoved is in the chain of the error where the node was asked to leave.
func (n *Node) Ready(ctx context.Context) error {
	if !n.Joining() {
		return n.Err()
	}
	var ack wire.Ack
	err := n.meet(ctx, "ready", &ack, func(_ uint64, wait uint32) wire.Message {
		return &wire.Ready{Node: uint64(n.id), WaitMillis: wait}
	})
	return n.taken(ctx, "ready", err, ack.Revision)
}

// An Arrival is what a worker says at a boundary.
type Arrival struct {
	Change uint64            // the pending change; 0: others have said that there is one, and it is waited for
	Steps  uint64            // done in all
	Epoch  uint64            // in which the next step is
	Used   uint64            // examples of its share of this division that its steps of the epoch used
	Bases  map[NodeID]uint64 // for each worker of the division, what it had used before, as wire.Arrive says
}

// Arrive says that the node is at the boundary and has nothing under way. It returns once the change was committed: Rank and
// Membership are then those of the new generation. ErrRemoved is in the chain of the error where the node was asked to leave.
func (n *Node) Arrive(ctx context.Context, a Arrival) error {
	if a.Change == 0 {
		if err := n.until(ctx, func(m *wire.Membership) bool { return m.Change != 0 }); err != nil {
			return fmt.Errorf("cluster: arrive: %w", err)
		}
		a.Change = n.Pending()
	}
	m := wire.Arrive{Node: uint64(n.id), Change: a.Change, Steps: a.Steps, Epoch: a.Epoch, Used: a.Used}
	for id, count := range a.Bases {
		m.Bases = append(m.Bases, wire.NodeCount{Node: uint64(id), Count: count})
	}
	slices.SortFunc(m.Bases, func(a, b wire.NodeCount) int { return cmp.Compare(a.Node, b.Node) })
	var ack wire.Ack
	what := fmt.Sprintf("arrive at change %d", a.Change)
	err := n.meet(ctx, what, &ack, func(generation uint64, wait uint32) wire.Message {
		m.Generation, m.WaitMillis = generation, wait
		return &m
	})
	return n.taken(ctx, what, err, ack.Revision)
}

// AskLeave asks that this worker may leave the job while the others go on, for a reason that is told to people. Nil: it may, and gets
// ErrRemoved at the next boundary, from Arrive, or from Ready if it does not count yet. ErrNeeded is in the chain of the error where the job's
// members do not change, too few workers would be left, or the whole job is being stopped. A scheduler that is out of reach is asked
// until it answers.
func (n *Node) AskLeave(ctx context.Context, reason string) error {
	_, err := n.ask(ctx, 0, &wire.AskLeave{Node: uint64(n.id), Reason: reason}, &wire.Ack{}, true)
	var refusal *transport.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && refusal.Code == wire.CodeRemoved: // it was asked to leave before
		return nil
	case errors.As(err, &refusal) && (refusal.Code == wire.CodeConflict || refusal.Code == wire.CodeUnsupported):
		return fmt.Errorf("cluster: ask to leave: %w: %s", ErrNeeded, refusal.Text)
	}
	return fmt.Errorf("cluster: ask to leave: %w", err)
}

// taken ends a wait for a change: it returns once the node knows the membership of that revision.
func (n *Node) taken(ctx context.Context, what string, err error, revision uint64) error {
	if removed := asRemoved(err); errors.Is(removed, ErrRemoved) {
		return fmt.Errorf("cluster: %s: %w", what, removed)
	}
	if err != nil {
		return err
	}
	if err := n.until(ctx, func(m *wire.Membership) bool { return m.Revision >= revision }); err != nil {
		return fmt.Errorf("cluster: %s: %w", what, err)
	}
	return nil
}

// asRemoved says by ErrRemoved that the scheduler refused something since the node was removed. Other errors it returns as they are.
func asRemoved(err error) error {
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeRemoved {
		return fmt.Errorf("%w: %s", ErrRemoved, refusal.Text)
	}
	return err
}

// Counted tells the scheduler how many examples of a lost worker are in all shards of this server, as wire.Counted says.
func (n *Node) Counted(ctx context.Context, placement uint64, lost NodeID, examples uint64) error {
	if _, err := n.ask(ctx, 0, &wire.Counted{Node: uint64(n.id), Placement: placement, Lost: uint64(lost), Examples: examples}, &wire.Ack{}, true); err != nil {
		return fmt.Errorf("cluster: tell what node %d counted: %w", lost, err)
	}
	return nil
}

// Control asks the scheduler at addr something that package schedulernode answers, under the job's secret, which cfg has. Request and
// answer are JSON. It tries once.
func Control(ctx context.Context, addr string, cfg transport.Config, request []byte) ([]byte, error) {
	cfg.Connections = 1
	c := transport.NewClient(addr, cfg)
	defer c.Close()
	var report wire.Report
	if _, err := c.Call(ctx, &wire.Control{Request: string(request)}, &report, nil); err != nil {
		return nil, fmt.Errorf("cluster: ask the scheduler at %s: %w", addr, err)
	}
	return []byte(report.Answer), nil
}

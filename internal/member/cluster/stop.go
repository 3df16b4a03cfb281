package cluster

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// StopRequested is closed when the job is to stop: all workers write a checkpoint after a step that
// they agree on, call Stopped, and leave.
func (n *Node) StopRequested() <-chan struct{} { return n.members.stopping }

// Stopped tells the scheduler after how many steps the checkpoint is that the job can go on from;
// 0: there is none, and the reason says why. While the scheduler is unreachable it is repeated.
func (n *Node) Stopped(ctx context.Context, steps uint64, reason string) error {
	if _, err := n.ask(ctx, 0, &wire.Stopped{Node: uint64(n.id), Steps: steps, Reason: reason}, &wire.Ack{}, true); err != nil {
		return fmt.Errorf("cluster: report the checkpoint after %d steps: %w", steps, err)
	}
	return nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Leave tells the scheduler that the node ends, cleanly or (ok false) for a reason that fails the
// job, and closes the node. It does so even after the job has ended, so that the scheduler need not
// wait for this node. On a clean leave it tries for up to Config.SchedulerTimeout to reach the
// scheduler, which would otherwise declare the node lost. If that fails it logs a warning and
// returns nil, because the node's work is done.
func (n *Node) Leave(ctx context.Context, ok bool, reason string) error {
	// No heartbeat may come after the leave, and no spans are taken from a node that has left.
	n.end(ErrClosed)
	<-n.traced
	over := !errors.Is(n.Err(), ErrClosed)
	limit := 5 * time.Second
	switch {
	case over:
		limit = time.Second
	case ok:
		limit = max(limit, n.cfg.SchedulerTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := n.ask(ctx, 0, &wire.Leave{Node: uint64(n.id), OK: ok, Reason: reason, Record: n.record()}, &wire.Ack{}, false)
	n.Close()
	if ok && !over && (errors.Is(err, transport.ErrConnection) || errors.Is(err, context.DeadlineExceeded)) {
		n.cfg.Logger.Warn("the leave request did not reach the scheduler, which will declare this node lost; its acknowledged steps still count", "err", err)
		return nil
	}
	if err != nil && !over && !errors.Is(err, transport.ErrClosed) {
		return fmt.Errorf("cluster: leave: %w", err)
	}
	return nil
}

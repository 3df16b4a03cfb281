package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// recordAnswer records the result of a call to the scheduler that began at a time, and ends the
// node if the scheduler says that it is lost or is unreachable for too long.
func (n *Node) recordAnswer(asked time.Time, err error) {
	if n.life.ctx.Err() != nil {
		return
	}
	var refusal *transport.Refusal
	if err == nil || errors.As(err, &refusal) {
		n.reach.answered()
	}
	s := n.reach.since(asked)
	if s.say && n.members.get().Phase == wire.PhaseRunning {
		n.cfg.Logger.Info(fmt.Sprintf("waiting for the scheduler at %s (%d s of at most %v); training goes on meanwhile",
			n.cfg.Scheduler, int(s.now.Seconds()), n.cfg.SchedulerTimeout), "err", err, joblog.SchedulerUnreachable.With("silent", s.now))
	}
	switch {
	case refusal != nil && refusal.Code == wire.CodeUnknownNode:
		n.end(&LostError{refusal.Text})
	case errors.Is(err, transport.ErrAuth):
		n.end(fmt.Errorf("cluster: %w", err))
	case s.now > n.cfg.SchedulerTimeout && s.before > n.cfg.SchedulerTimeout/2:
		n.end(fmt.Errorf("cluster: %w: %s did not answer for %v: %w", ErrScheduler, n.cfg.Scheduler, s.now.Round(time.Second), err))
	}
}

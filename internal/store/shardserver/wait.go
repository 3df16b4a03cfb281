package shardserver

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// await returns once the shard satisfies want, with a Version if it is dense. Its deadline is
// the call's, counted from the call's first wait. It holds no lock: a wait may take as long as
// the slowest worker.
//
// The shard wakes it (w.Done), in the call of whoever lets it go on: a push that closes the round
// (shard.Push), an acknowledgement of the backup (shard.Commit), or a new membership
// (shard.SetMembers). That closes the round over those who stay, and refuses the wait of a worker
// which is no longer a member. The generation with which a call came is not looked at again here:
// see admit.
func (c *call) await(ctx context.Context, want shard.Want, millis uint32) (*shard.Version, error) {
	v, w, err := c.entry.shard.Pull(want)
	if w == nil {
		return v, err
	}
	c.s.meter.wait(1)
	defer c.s.meter.wait(-1)
	c.patience.begin()
	left := c.s.cfg.wait(millis) - c.patience.waited()
	explain := left > c.s.cfg.ExplainAfter
	if explain {
		c.patience.set(c.s.cfg.ExplainAfter)
	} else {
		c.patience.set(left)
	}
	for {
		select {
		case <-w.Done():
			c.patience.stop()
			return w.Result()
		case <-ctx.Done():
			c.patience.stop()
			w.Cancel()
			return nil, refuse(wire.CodeUnavailable, "%v: %v: the connection ended while it waited", c.kind, c.entry.cfg)
		case <-c.patience.timer.C:
			if !explain {
				err := refuse(wire.CodeTimeout, "%s", c.waiting(want))
				w.Cancel()
				return nil, err
			}
			c.explain(want)
			left := c.s.cfg.wait(millis) - c.patience.waited()
			explain = left > 2*c.s.cfg.ExplainAfter
			if explain {
				left = 2 * c.s.cfg.ExplainAfter
			}
			c.patience.set(left)
		}
	}
}

// waiting says whom the call waits for: pull of key "w" shard 0 by worker 0 on a (...) has waited 5
// s for round 3: worker 1 on b (node 2, pid 7) has contributed to 2, was last heard from 6 s ago.
func (c *call) waiting(want shard.Want) string {
	v := c.s.membership.Load()
	text := fmt.Sprintf("%v of %v by %s has waited %v", c.kind, c.entry.cfg, v.describe(c.origin.Node), rounded(c.patience.waited()))
	switch {
	case want.Clip:
		text += fmt.Sprintf(" for the sum of round %d", want.Round)
	case want.Staleness == shard.NoBound || want.Seq == 0:
		text += fmt.Sprintf(" for %d rounds", want.Round)
	}
	if late := v.laggards(c.entry.shard.Laggards(want), c.s.clock.now()); late != "" {
		text += ": " + late
	}
	if c.entry.shard.Undecided(want) {
		text += ": the round is whole and waits for the factor of ClipGlobalNorm: each worker calls kvstore.Store's ClipGlobalNorm once a step, with all keys of the step (worker.Trainer does)"
	}
	return text
}

// explain logs whom a call waits for, if a line is due.
func (c *call) explain(want shard.Want) {
	s, now := c.s, c.s.clock.now()
	if s.waitLog.due(now, s.cfg.ExplainAfter) {
		late := s.membership.Load().laggards(c.entry.shard.Laggards(want), now)
		s.cfg.Logger.Warn("server: "+c.waiting(want), joblog.Waiting.With("waiting_for", late))
	}
}

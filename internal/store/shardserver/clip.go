package shardserver

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// serveClip waits until the round is held, or has closed, brings it the factor if the request has one,
// and answers what the shard knows.
func (c *call) serveClip(ctx context.Context) error {
	m, s := &c.clip, c.entry.shard
	if !s.Clips() {
		return refuse(wire.CodeConflict, "clip: %v: its gradients are not clipped by their norm over all keys: set an optimizer with ClipGlobalNorm, and name no averaged keys", c.entry.cfg)
	}
	if _, err := c.await(ctx, shard.Want{Node: m.Node, Round: m.Round, Clip: true}, m.WaitMillis); err != nil {
		return err
	}
	var st shard.ClipState
	var err error
	if m.Decides {
		st, err = s.Decide(m.Round, shard.Decision{Norm: m.Norm, Factor: m.Factor, Rank: m.Rank})
	} else {
		st, err = s.ReadHeld(m.Round)
	}
	if err != nil {
		return err
	}
	c.clipped = wire.Clipped{Generation: c.s.membership.Load().generation, Closed: st.Closed, Decided: st.Decided,
		Norm: st.Decision.Norm, Factor: st.Decision.Factor, Rank: st.Decision.Rank}
	if !m.Decides && !st.Closed {
		c.clipped.Squares = st.Squares.Digits()
	}
	return c.answer(&c.clipped, nil)
}

package shardserver

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// serveReadState answers with a shard's state. Only a few states are read at once, because each is
// a copy of the value and all slots; other requests wait.
func (c *call) serveReadState(ctx context.Context) error {
	m := &c.readState
	if err := c.awaitRound(ctx, m.Node, m.Round, m.WaitMillis); err != nil {
		return err
	}
	cfg := c.entry.cfg
	if size := 4 * cfg.Length * uint64(1+c.entry.shard.Usage().Slots); size > c.s.payload {
		return refuse(wire.CodeUnsupported, "read state: %v: got %d bytes with the optimizer's, want at most %d in one answer", cfg, size, c.s.payload)
	}
	if err := c.beginRead(ctx, m.WaitMillis); err != nil {
		return err
	}
	st, err := c.entry.shard.ReadState()
	for errors.Is(err, shard.ErrAgain) {
		if err = c.awaitRound(ctx, m.Node, m.Round, m.WaitMillis); err == nil {
			st, err = c.entry.shard.ReadState()
		}
	}
	if err != nil {
		return err
	}
	c.reply.out = st.Values
	c.state = wire.State{Generation: st.Generation, Round: st.Round, N: cfg.Length, Config: st.Config, Slots: st.Slots}
	return c.answer(&c.state, c.reply.out.Bytes(4*int(cfg.Length)*(1+len(st.Slots))))
}

// awaitRound waits until this many rounds have closed.
func (c *call) awaitRound(ctx context.Context, node, round uint64, millis uint32) error {
	c.patience.started = time.Now()
	v, err := c.await(ctx, shard.Want{Node: node, Round: round, Staleness: shard.NoBound}, millis)
	if v != nil {
		v.Release()
	}
	return err
}

// beginRead takes a token for a read of state.
func (c *call) beginRead(ctx context.Context, millis uint32) error {
	s := c.s
	select {
	case s.budget.reads <- struct{}{}:
		c.claims.reads = s.budget.reads
		return nil
	default:
	}
	c.patience.set(s.cfg.wait(millis) - c.patience.waited())
	select {
	case s.budget.reads <- struct{}{}:
		c.patience.stop()
		c.claims.reads = s.budget.reads
		return nil
	case <-ctx.Done():
		c.patience.stop()
		return refuse(wire.CodeUnavailable, "%v: %v: the connection ended while it waited", c.kind, c.entry.cfg)
	case <-s.done:
		c.patience.stop()
		return s.ended()
	case <-c.patience.timer.C:
		return refuse(wire.CodeTimeout, "%v: %v: waited %v while %d other states were read", c.kind, c.entry.cfg, s.cfg.wait(millis), maxStateReads)
	}
}

// serveWriteState replaces a shard's state, and creates the shard if needed. It is answered when
// the backup has the state: a Load that was answered must not be undone by the loss of a server.
func (c *call) serveWriteState(ctx context.Context) error {
	m := &c.writeState
	if !c.s.membership.Load().isLeader(m.Init.Node) {
		return refuse(wire.CodeBusy, "write state of key %s shard %d: got it from rank %d, want the lowest of the workers that count", wire.Shown(m.Init.Name), m.Init.Shard, m.Init.Rank)
	}
	var values []float32
	if c.data != nil {
		values = c.data.Float32s(int(m.Init.Length) * (1 + len(m.Slots)))
	}
	e, _, err := c.s.create(ctx, &m.Init, nil)
	if err != nil {
		return err
	}
	e.replica.stateReplaced()
	if err := e.shard.WriteState(m.Round, m.Slots, values); err != nil {
		return err
	}
	if err := c.awaitStateCopied(ctx, e); err != nil {
		return err
	}
	return c.answerAck()
}

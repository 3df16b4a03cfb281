package shardserver

import (
	"context"
	"errors"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// serveReadRows answers with some rows of an open vocabulary and their state.
func (c *call) serveReadRows(ctx context.Context) error {
	m := &c.readRows
	if err := c.awaitRound(ctx, m.Node, m.Round, m.WaitMillis); err != nil {
		return err
	}
	if err := c.beginRead(ctx, m.WaitMillis); err != nil {
		return err
	}
	st, err := c.entry.shard.ReadRows(m.From, m.Count)
	for errors.Is(err, shard.ErrAgain) {
		if err = c.awaitRound(ctx, m.Node, m.Round, m.WaitMillis); err == nil {
			st, err = c.entry.shard.ReadRows(m.From, m.Count)
		}
	}
	if err != nil {
		return err
	}
	c.reply.out = st.Data
	c.rows = wire.Rows{Generation: st.Generation, Round: st.Round, Total: uint64(st.Total), Rows: uint64(st.Rows), Config: st.Config, Slots: st.Slots}
	if st.Data == nil {
		return c.answer(&c.rows, nil)
	}
	return c.answer(&c.rows, c.reply.out.Bytes(shard.OpenPayloadSize(st.Rows, int(c.entry.cfg.RowLen), len(st.Slots))))
}

// prepareWriteRows checks the head of a WriteRows.
func (c *call) prepareWriteRows(n int) error {
	m := &c.writeRows
	c.origin = &m.Init.Origin
	if len(m.Slots) > maxSlots {
		return refuse(wire.CodeSize, "write rows: got %d slots, want at most %d", len(m.Slots), maxSlots)
	}
	each := 8 + 4*min(m.Init.RowLen, wire.MaxPayload)*uint64(1+len(m.Slots))
	if most := wire.MaxPayload / each; m.Rows > most {
		return refuse(wire.CodeSize, "write rows of key %s shard %d: got %d rows of %d bytes, want at most %d in one frame", wire.Shown(m.Init.Name), m.Init.Shard, m.Rows, each, most)
	}
	return c.checkSize(n, m.Rows*each)
}

// serveWriteRows adds rows to an open vocabulary, and creates the shard if needed.
func (c *call) serveWriteRows(ctx context.Context) error {
	m := &c.writeRows
	if !c.s.membership.Load().isLeader(m.Init.Node) {
		return refuse(wire.CodeBusy, "write rows of key %s shard %d: got it from rank %d, want the lowest of the workers that count", wire.Shown(m.Init.Name), m.Init.Shard, m.Init.Rank)
	}
	e, _, err := c.s.create(ctx, &m.Init, nil)
	if err != nil {
		return err
	}
	e.replica.stateReplaced()
	if err := e.shard.WriteRows(m.Round, m.First, m.Slots, int(m.Rows), c.data); err != nil {
		return err
	}
	if err := c.awaitStateCopied(ctx, e); err != nil {
		return err
	}
	return c.answerAck()
}

// usage returns what the server holds.
func (s *Server) usage() wire.Usage {
	s.mu.RLock()
	shards := s.entries.sorted()
	s.mu.RUnlock()
	total := shard.Sum(shards)
	return wire.Usage{Generation: s.membership.Load().generation, Shards: uint64(len(shards)), Rows: total.Rows, Values: total.Values,
		State: total.State, Index: total.Index, Caught: s.guardLog.counts()}
}

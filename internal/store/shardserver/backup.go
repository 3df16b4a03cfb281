package shardserver

import (
	"cmp"
	"context"
	"slices"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// leftOf returns counts by node in the order of the nodes.
func leftOf(left map[uint64]uint64) (list []wire.NodeCount) {
	for node, count := range left {
		list = append(list, wire.NodeCount{Node: node, Count: count})
	}
	slices.SortFunc(list, func(a, b wire.NodeCount) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// What a backup takes must come from the primary of the placement that the backup itself has. A
// former primary that does not know yet that it was replaced would otherwise overwrite what its
// successor has sent. Each copy of a state has a number that goes up, so that late parts of an
// earlier copy are told apart, too.

// checkPrimary checks that the sender is the shard's primary and this server its backup. If the
// sender knows a newer generation or placement, it waits until this server knows it, too.
func (s *Server) checkPrimary(ctx context.Context, kind wire.Kind, m *wire.Copy) error {
	if s.backups == nil {
		return refuse(wire.CodeUnsupported, "%v: this server has no backups", kind)
	}
	v := s.membership.Load()
	if m.Generation > v.generation || m.Placement > v.placement {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
		defer cancel()
		for ; m.Generation > v.generation || m.Placement > v.placement; v = s.membership.Load() {
			select {
			case <-v.replaced:
			case <-s.done:
				return s.ended()
			case <-ctx.Done():
				return refuse(wire.CodeStaleGeneration, "%v: sender's generation %d and placement %d, ours still %d and %d", kind, m.Generation, m.Placement, v.generation, v.placement)
			}
		}
	}
	x, err := s.assignmentOf(ctx, shardID{m.Key, m.Shard})
	if err != nil {
		return err
	}
	if x.role != backup || x.other != m.Node {
		return refuse(wire.CodeMoved, "%v of key %d shard %d: node %d is not its primary with this server as its backup in placement %d, sender's %d",
			kind, m.Key, m.Shard, m.Node, v.placement, m.Placement)
	}
	return nil
}

// recordSize returns the size of the payload of a Replicate for a shard.
func recordSize(m *wire.Replicate, cfg *shard.Config) (uint64, error) {
	switch m.Form {
	case wire.RecordNone:
		return 0, nil
	case wire.RecordSum, wire.RecordValue, wire.RecordNewest:
		return 4 * min(cfg.Length, wire.MaxPayload), nil
	case wire.RecordRows:
		each := 8 + 4*min(cfg.RowLen, wire.MaxPayload)
		if most := wire.MaxPayload / each; m.Rows > most {
			return 0, refuse(wire.CodeSize, "replicate: %v: got %d rows, want at most %d", cfg, m.Rows, most)
		}
		return m.Rows * each, nil
	}
	return 0, refuse(wire.CodeMalformed, "replicate: %v: got form %d, want %d to %d", cfg, m.Form, wire.RecordNone, wire.RecordNewest)
}

// prepareReplicate checks the head of a Replicate.
func (c *call) prepareReplicate(n int) error {
	m := &c.replicate
	e := c.s.entryOf(&m.Copy)
	if e == nil {
		return refuse(wire.CodeGap, "replicate: key %d shard %d: this server does not have it", m.Key, m.Shard)
	}
	c.entry = e
	size, err := recordSize(m, e.cfg)
	if err != nil {
		return err
	}
	return c.checkSize(n, size)
}

// serveReplicate applies a round that has closed at the primary.
func (c *call) serveReplicate(ctx context.Context) error {
	m := &c.replicate
	if err := c.s.checkPrimary(ctx, c.kind, &m.Copy); err != nil {
		return err
	}
	e := c.s.entryOf(&m.Copy)
	if e == nil || e.replica == nil {
		return refuse(wire.CodeGap, "replicate: key %d shard %d: this server does not have it", m.Key, m.Shard)
	}
	// The lock keeps the assignment unchanged until Follow returns, so that no former primary's
	// round is applied.
	st := e.replica
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.assignment.role != backup || st.assignment.other != m.Node:
		return refuse(wire.CodeMoved, "replicate: %v: node %d is not its primary in placement %d", e.cfg, m.Node, st.assignment.number)
	case st.from != m.Node || st.filled != m.Number || e != c.entry:
		return refuse(wire.CodeGap, "replicate: %v: got fill %d of node %d, want %d of node %d", e.cfg, m.Number, m.Node, st.filled, st.from)
	}
	r := recordOf(m)
	data := c.data
	c.data = nil
	if err := e.shard.Follow(r, data); err != nil {
		return err
	}
	return c.answerAck()
}

// recordOf returns the Record that a Replicate carries, without its data.
func recordOf(m *wire.Replicate) *shard.Record {
	r := &shard.Record{Round: m.Round, Generation: m.Closed, Form: m.Form, Rows: int(m.Rows), Weight: m.Weight,
		Rate: m.Rate, Norms: m.Norms, Keep: m.Keep, Configured: m.Configured, Config: m.Config}
	if m.Clipped {
		r.Clip = &shard.Decision{Norm: m.ClipNorm, Factor: m.ClipFactor, Rank: m.ClipRank}
	}
	for _, x := range m.Counts {
		r.Counts = append(r.Counts, shard.CountedPush{Node: x.Node, Seq: x.Seq, Weight: x.Weight, Counted: x.Counted, Norm: x.Norm, Verdict: x.Verdict, Examples: x.Examples})
	}
	return r
}

// serveFill makes an incoming shard, with the arrays that data has; FillParts with larger ones
// follow.
func (s *Server) serveFill(ctx context.Context, m *wire.Fill, data *shard.Buffer) error {
	if err := s.checkPrimary(ctx, m.Kind(), &m.Copy); err != nil {
		return err
	}
	cfg, err := configOfFill(m, &s.host)
	if err != nil {
		return err
	}
	snap, err := snapshotOf(m)
	if err != nil {
		return err
	}
	at := shardID{m.Key, m.Shard}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if e := s.entries[at]; e != nil && m.Whole > 0 && e.filledBy(m.Node, m.Number) {
		// It is a repeated request.
		return nil
	}
	if old := s.incoming[at]; old != nil {
		if old.from == m.Node && old.number > m.Number {
			return refuse(wire.CodeGap, "fill: %v: got number %d, want at least %d", cfg, m.Number, old.number)
		}
		s.dropIncoming(at)
	}
	if len(s.entries)+len(s.incoming) >= s.cfg.MaxShards {
		return refuse(wire.CodeFull, "fill of %v: this server has %d shards, want at most %d", cfg, len(s.entries), s.cfg.MaxShards)
	}
	bytes := int64(4 * cfg.Length)
	if err := s.budget.reserve(bytes, s.cfg.MaxBytes); err != nil {
		return refuse(wire.CodeFull, "fill of %v: %v", cfg, err)
	}
	v := s.membership.Load()
	sh, err := shard.Restore(cfg, snap, v.generation, v.members)
	if err != nil {
		s.budget.bytes.Add(-bytes)
		return err
	}
	x := &incomingShard{shard: sh, cfg: sh.Config(), from: m.Node, number: m.Number, base: m.Base, config: m.Config, mode: m.Mode, guard: snap.Guard, bytes: bytes, of: v}
	s.incoming[at] = x
	if m.Whole == 0 {
		return nil
	}
	if err := x.fillWhole(data, int(m.Whole), snap.Arrays()); err != nil {
		s.dropIncoming(at)
		return err
	}
	return s.install(at, x)
}

// configOfFill returns the Config of the shard that a Fill describes.
func configOfFill(m *wire.Fill, host *shard.Host) (shard.Config, error) {
	switch {
	case m.Init.Key != m.Key || m.Init.Shard != m.Shard:
		return shard.Config{}, refuse(wire.CodeMalformed, "fill: got key %d shard %d, want key %d shard %d", m.Init.Key, m.Init.Shard, m.Key, m.Shard)
	case len(m.Slots) > maxSlots:
		return shard.Config{}, refuse(wire.CodeSize, "fill: got %d slots, want at most %d", len(m.Slots), maxSlots)
	case m.Mode < wire.ModeSync || m.Mode > wire.ModeAnyOrder:
		return shard.Config{}, refuse(wire.CodeMalformed, "fill: got mode %d, want %d to %d", m.Mode, wire.ModeSync, wire.ModeAnyOrder)
	}
	cfg, err := shard.ConfigOf(&m.Init, host)
	if err == nil {
		err = cfg.Validate()
	}
	return cfg, err
}

// snapshotOf returns the state that a Fill describes, without its arrays.
func snapshotOf(m *wire.Fill) (*shard.Snapshot, error) {
	x := &shard.Snapshot{Round: m.Round, Generation: m.Closed, Mode: m.Mode, Config: m.Config, Slots: m.Slots, Rows: m.Rows, Pushed: m.Pushed, AnySeq: m.AnySeq,
		Counted: m.Counted, Left: map[uint64]uint64{}, Newest: m.Newest, Weight: m.Weight, Kept: m.Kept, KeptRound: m.KeptRound, KeptWeight: m.KeptWeight, Examples: m.Examples}
	for _, w := range m.Members {
		x.Members = append(x.Members, shard.MemberState{Node: w.Node, LastSeq: w.LastSeq, Base: w.Base, Examples: w.Examples, Known: w.Known, Newest: w.Newest, Weight: w.Weight,
			Caught: w.Caught})
	}
	for _, w := range m.Left {
		x.Left[w.Node] = w.Count
	}
	if m.Guard != "" {
		g, err := shard.DecodeGuard(m.Guard)
		if err != nil {
			return nil, refuse(wire.CodeMalformed, "fill: %v", err)
		}
		x.Guard, x.Norms, x.Barren = &g, m.Norms, int(m.Barren)
	}
	return x, nil
}

// fillSize returns the size of the payload of a Fill.
func fillSize(m *wire.Fill) (uint64, error) {
	if m.Whole > smallFill {
		return 0, refuse(wire.CodeSize, "fill: key %d shard %d: got %d values in one message, want at most %d", m.Key, m.Shard, m.Whole, smallFill)
	}
	return 4 * uint64(m.Whole), nil
}

// noFill refuses a FillPart without an incoming shard.
func noFill(m *wire.FillPart) error {
	return refuse(wire.CodeGap, "fill part: key %d shard %d: fill %d has not begun", m.Key, m.Shard, m.Number)
}

// fillPartSize returns the size of the payload of a FillPart.
func (s *Server) fillPartSize(m *wire.FillPart) (uint64, error) {
	s.mu.RLock()
	x := s.incoming.of(m)
	s.mu.RUnlock()
	if x == nil {
		return 0, noFill(m)
	}
	each := uint64(4)
	if x.cfg.Form == wire.FormOpen {
		each = uint64(shard.OpenPayloadSize(1, int(x.cfg.RowLen), x.shard.Usage().Slots))
	}
	if most := wire.MaxPayload / each; m.Count > most {
		return 0, refuse(wire.CodeSize, "fill part: %v: got %d, want at most %d", x.cfg, m.Count, most)
	}
	return m.Count * each, nil
}

// serveFillPart adds a part of an array to an incoming shard. The last part installs the shard.
func (s *Server) serveFillPart(ctx context.Context, m *wire.FillPart, data *shard.Buffer) error {
	if err := s.checkPrimary(ctx, m.Kind(), &m.Copy); err != nil {
		return err
	}
	at := shardID{m.Key, m.Shard}
	s.mu.RLock()
	x, e := s.incoming.of(m), s.entries[at]
	s.mu.RUnlock()
	if x == nil && e != nil && m.Last && e.filledBy(m.Node, m.Number) {
		// It is a repeated request.
		return nil
	}
	if x == nil {
		return noFill(m)
	}
	if err := x.fillPart(m, data); err != nil || !m.Last {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.install(at, x)
}

// install makes an incoming shard this server's backup of it. The caller holds mu.
func (s *Server) install(at shardID, x *incomingShard) error {
	if s.err != nil {
		return s.err
	}
	if s.incoming[at] != x {
		return refuse(wire.CodeGap, "fill part: %v: fill %d was cancelled", x.cfg, x.number)
	}
	assigned, ok := s.placement.assignmentOf(at, s.backups.peers.Rank())
	if !ok || assigned.role != backup || assigned.other != x.from {
		return refuse(wire.CodeMoved, "fill part: %v: node %d is not its primary in placement %d", x.cfg, x.from, s.placement.number)
	}
	v := s.membership.Load()
	if x.of != v {
		if err := x.shard.SetMembers(v.generation, v.members); err != nil {
			return err
		}
	}
	delete(s.incoming, at)
	if s.entries[at] != nil {
		s.drop(at, refuse(wire.CodeMoved, "%v is being filled again", x.cfg))
	}
	e := newReplicated(x.shard)
	e.replica.assignment, e.replica.from, e.replica.filled = assigned, x.from, x.number
	s.entries[at] = e
	s.adoptSettings(x)
	return nil
}

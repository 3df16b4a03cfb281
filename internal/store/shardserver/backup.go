package shardserver

import (
	"cmp"
	"context"
	"slices"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// An incomingShard is a shard that its primary is copying to this server, its new backup.
type incomingShard struct {
	shard  *shard.Shard
	cfg    *shard.Config // the shard's
	from   uint64        // the primary's node
	number uint64        // of the fill
	base   string
	config string
	mode   uint8
	guard  *shard.Guard
	bytes  int64
	of     *membership // whose members the shard has
}

func leftOf(left map[uint64]uint64) (list []wire.NodeCount) {
	for node, count := range left {
		list = append(list, wire.NodeCount{Node: node, Count: count})
	}
	slices.SortFunc(list, func(a, b wire.NodeCount) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// checkPrimary checks that the sender is the shard's primary and this server its backup. If the
// sender knows a newer generation or placement, it waits until this server knows it, too.
func (s *Server) checkPrimary(ctx context.Context, c *call, m *wire.Copy) error {
	if s.peers == nil {
		return refuse(wire.CodeUnsupported, "%v: this server has no backups", c.kind)
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
				return refuse(wire.CodeStaleGeneration, "%v: sender's generation %d and placement %d, ours still %d and %d", c.kind, m.Generation, m.Placement, v.generation, v.placement)
			}
		}
	}
	x, err := s.assignmentOf(ctx, shardID{m.Key, m.Shard})
	if err != nil {
		return err
	}
	if x.role != backup || x.other != m.Node {
		return refuse(wire.CodeMoved, "%v of key %d shard %d: node %d is not its primary with this server as its backup in placement %d, sender's %d",
			c.kind, m.Key, m.Shard, m.Node, v.placement, m.Placement)
	}
	return nil
}

// prepareReplicate checks a Replicate's head and returns the size of its payload.
func (c *call) prepareReplicate() (size uint64, err error) {
	m := &c.replicate
	c.s.mu.RLock()
	e := c.s.entries[shardID{m.Key, m.Shard}]
	c.s.mu.RUnlock()
	if e == nil {
		return 0, refuse(wire.CodeGap, "replicate: key %d shard %d: this server does not have it", m.Key, m.Shard)
	}
	c.entry = e
	switch m.Form {
	case wire.RecordNone:
		return 0, nil
	case wire.RecordSum, wire.RecordValue, wire.RecordNewest:
		return 4 * min(e.cfg.Length, wire.MaxPayload), nil
	case wire.RecordRows:
		each := 8 + 4*min(e.cfg.RowLen, wire.MaxPayload)
		if most := wire.MaxPayload / each; m.Rows > most {
			return 0, refuse(wire.CodeSize, "replicate: %v: got %d rows, want at most %d", e.cfg, m.Rows, most)
		}
		return m.Rows * each, nil
	}
	return 0, refuse(wire.CodeMalformed, "replicate: %v: got form %d, want %d to %d", e.cfg, m.Form, wire.RecordNone, wire.RecordNewest)
}

// serveReplicate applies a round that has closed at the primary.
func (c *call) serveReplicate(ctx context.Context) error {
	s, m := c.s, &c.replicate
	if err := s.checkPrimary(ctx, c, &m.Copy); err != nil {
		return err
	}
	s.mu.RLock()
	e := s.entries[shardID{m.Key, m.Shard}]
	s.mu.RUnlock()
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
	r := &shard.Record{Round: m.Round, Generation: m.Closed, Form: m.Form, Rows: int(m.Rows), Weight: m.Weight,
		Rate: m.Rate, Norms: m.Norms, Keep: m.Keep, Configured: m.Configured, Config: m.Config}
	for _, x := range m.Counts {
		r.Counts = append(r.Counts, shard.Counted{Node: x.Node, Seq: x.Seq, Weight: x.Weight, Counts: x.Counted, Norm: x.Norm, Verdict: x.Verdict, Examples: x.Examples})
	}
	data := c.data
	c.data = nil
	if err := e.shard.Follow(r, data); err != nil {
		return err
	}
	return c.answerAck()
}

// serveFill makes an incoming shard; FillParts with its arrays follow.
func (c *call) serveFill(ctx context.Context) error {
	s, m := c.s, &c.fill
	if err := s.checkPrimary(ctx, c, &m.Copy); err != nil {
		return err
	}
	if m.Init.Key != m.Key || m.Init.Shard != m.Shard {
		return refuse(wire.CodeMalformed, "fill: got key %d shard %d, want key %d shard %d", m.Init.Key, m.Init.Shard, m.Key, m.Shard)
	}
	if len(m.Slots) > maxSlots {
		return refuse(wire.CodeSize, "fill: got %d slots, want at most %d", len(m.Slots), maxSlots)
	}
	if m.Mode < wire.ModeSync || m.Mode > wire.ModeAnyOrder {
		return refuse(wire.CodeMalformed, "fill: got mode %d, want %d to %d", m.Mode, wire.ModeSync, wire.ModeAnyOrder)
	}
	cfg, err := shard.ConfigOf(&m.Init, &s.host)
	if err == nil {
		err = cfg.Validate()
	}
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
		return c.answerAck() // a repeated request
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
	if err := s.reserve(int64(4 * cfg.Length)); err != nil {
		return refuse(wire.CodeFull, "fill of %v: %v", cfg, err)
	}
	x := &shard.Snapshot{Round: m.Round, Generation: m.Closed, Mode: m.Mode, Config: m.Config, Slots: m.Slots, Rows: m.Rows, Pushed: m.Pushed, AnySeq: m.AnySeq,
		Counted: m.Counted, Left: map[uint64]uint64{}, Newest: m.Newest, Weight: m.Weight, Kept: m.Kept, KeptRound: m.KeptRound, KeptWeight: m.KeptWeight, Examples: m.Examples}
	for _, w := range m.Members {
		x.Members = append(x.Members, shard.MemberState{Node: w.Node, Counted: w.Counted, Base: w.Base, Examples: w.Examples, Known: w.Known, Newest: w.Newest, Weight: w.Weight,
			Caught: w.Caught})
	}
	for _, w := range m.Left {
		x.Left[w.Node] = w.Count
	}
	if m.Guard != "" {
		g, err := shard.DecodeGuard(m.Guard)
		if err != nil {
			return refuse(wire.CodeMalformed, "fill: %v", err)
		}
		x.Guard, x.Norms, x.Barren = &g, m.Norms, int(m.Barren)
	}
	v := s.membership.Load()
	sh, err := shard.Restore(cfg, x, v.generation, v.members)
	if err != nil {
		s.bytes.Add(-int64(4 * cfg.Length))
		return err
	}
	s.incoming[at] = &incomingShard{shard: sh, cfg: sh.Config(), from: m.Node, number: m.Number, base: m.Base, config: m.Config, mode: m.Mode, guard: x.Guard, bytes: int64(4 * cfg.Length), of: v}
	if m.Whole > 0 {
		if err := c.fillWhole(at, x.Arrays()); err != nil {
			return err
		}
	}
	return c.answerAck()
}

// fillWhole gives an incoming shard its arrays, which its Fill has brought, and installs it. The
// caller holds mu.
func (c *call) fillWhole(at shardID, arrays int) error {
	x, whole := c.s.incoming[at], uint64(c.fill.Whole)
	if x.cfg.Form == wire.FormOpen || whole != uint64(arrays)*x.cfg.Length {
		c.s.dropIncoming(at)
		return refuse(wire.CodeSize, "fill: %v: got %d values, want %d arrays", x.cfg, whole, arrays)
	}
	values := c.data.Float32s(int(whole))
	for i := range arrays {
		if err := x.shard.WriteFill(i, 0, values[i*int(x.cfg.Length):(i+1)*int(x.cfg.Length)]); err != nil {
			c.s.dropIncoming(at)
			return err
		}
	}
	return c.s.installLocked(at, x)
}

// dropIncoming drops an incoming shard. The caller holds mu.
func (s *Server) dropIncoming(at shardID) {
	x := s.incoming[at]
	delete(s.incoming, at)
	x.shard.Forget(refuse(wire.CodeMoved, "%v is being filled again", x.cfg))
	s.bytes.Add(-x.bytes)
}

// prepareFillPart returns the size of a FillPart's payload.
func (c *call) prepareFillPart() (size uint64, err error) {
	m := &c.fillPart
	c.s.mu.RLock()
	x := c.s.incoming[shardID{m.Key, m.Shard}]
	c.s.mu.RUnlock()
	if x == nil || x.number != m.Number || x.from != m.Node {
		return 0, refuse(wire.CodeGap, "fill part: key %d shard %d: fill %d has not begun", m.Key, m.Shard, m.Number)
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
func (c *call) serveFillPart(ctx context.Context) error {
	s, m := c.s, &c.fillPart
	if err := s.checkPrimary(ctx, c, &m.Copy); err != nil {
		return err
	}
	at := shardID{m.Key, m.Shard}
	s.mu.RLock()
	x := s.incoming[at]
	s.mu.RUnlock()
	if x == nil || x.number != m.Number || x.from != m.Node {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if e := s.entries[at]; e != nil && m.Last && e.filledBy(m.Node, m.Number) {
			return c.answerAck() // a repeated request
		}
		return refuse(wire.CodeGap, "fill part: key %d shard %d: fill %d has not begun", m.Key, m.Shard, m.Number)
	}
	var err error
	switch {
	case x.cfg.Form == wire.FormOpen && m.Count > 0:
		err = x.shard.WriteFillRows(int(m.Count), c.data)
	case x.cfg.Form == wire.FormOpen, m.Count == 0:
	default:
		err = x.shard.WriteFill(int(m.Array), int(min(m.From, shard.MaxLength)), c.data.Float32s(int(m.Count)))
	}
	if err != nil {
		return err
	}
	if m.Last {
		if err := s.install(at, x); err != nil {
			return err
		}
	}
	return c.answerAck()
}

func (e *entry) filledBy(node, number uint64) bool {
	if e.replica == nil {
		return false
	}
	e.replica.mu.Lock()
	defer e.replica.mu.Unlock()
	return e.replica.from == node && e.replica.filled == number
}

// install makes an incoming shard this server's backup of it.
func (s *Server) install(at shardID, x *incomingShard) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installLocked(at, x)
}

// installLocked is install for a caller that holds mu.
func (s *Server) installLocked(at shardID, x *incomingShard) error {
	if s.err != nil {
		return s.err
	}
	if s.incoming[at] != x {
		return refuse(wire.CodeGap, "fill part: %v: fill %d was cancelled", x.cfg, x.number)
	}
	assigned, ok := s.placement.assignmentOf(at, uint32(s.peers.Rank()))
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
	s.adoptOptimizer(x)
	return nil
}

// adoptOptimizer takes the job's mode and optimizer from an installed shard, on a server that no
// worker has sent them. The caller holds mu.
func (s *Server) adoptOptimizer(x *incomingShard) {
	if s.mode == 0 {
		s.mode, s.modeBy, s.guard = x.mode, "a replicated shard", x.guard
	}
	if x.config == "" {
		return
	}
	cfg, err := optim.Decode([]byte(x.config))
	if err != nil || s.opt != nil && !hasLaterRates(s.opt.Config(), cfg) {
		return // cannot be invalid: the shard has decoded it
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return
	}
	base := cfg
	if b, err := optim.Decode([]byte(x.base)); err == nil {
		base = b
	}
	if err := shard.SetOptimizer(s.primaries(), opt, shard.NoBound); err == nil {
		s.base, s.opt, s.optBy = base, opt, "a replicated shard"
	}
}

// hasLaterRates reports whether got is the same optimizer as have, with later changes of the
// learning rate.
func hasLaterRates(have, got optim.Config) bool {
	h, g := have.Changes, got.Changes
	have.Changes, got.Changes = nil, nil
	return len(g) > 0 && (len(h) == 0 || g[len(g)-1].Step > h[len(h)-1].Step) && have.Equal(got)
}

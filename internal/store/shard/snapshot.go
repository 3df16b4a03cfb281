package shard

import (
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Snapshot is the first part of a shard's state that a new backup gets: all but the arrays of
// values and slots, and but the contributions to open rounds. Each part of the shard writes and
// reads its own fields.
type Snapshot struct {
	// Round is how many rounds have closed, and Generation the one under which the newest did.
	Round, Generation uint64
	Mode              uint8
	// Config is the optimizer's JSON (empty: none), and Slots the names of its slots.
	Config string
	Slots  []string
	// Rows is the number of rows of an open vocabulary.
	Rows uint64
	// Pushed says that a contribution has been accepted, and AnySeq that a member's first one
	// may have any sequence number.
	Pushed, AnySeq bool
	Members        []MemberState
	// Counted says that contributions have counted examples. Left has those in closed rounds of
	// workers that have left, by node.
	Counted bool
	Left    map[uint64]uint64
	// Guard is nil if there is none. Norms are its window, the oldest first, and Barren is how
	// many contributions it has refused since it last accepted one.
	Guard  *Guard
	Norms  []float64
	Barren int
	// Newest, Weight and Examples are of the newest round: its norms, the sum of its weights
	// and of its examples.
	Newest   wire.Norms
	Weight   float64
	Examples uint64
	// Kept says that the last array is the sum of round KeptRound: see keptSum.
	Kept       bool
	KeptRound  uint64
	KeptWeight float64
}

// A MemberState is a shard's state of one worker.
type MemberState struct {
	Node uint64
	// LastSeq is the highest sequence number in a closed round.
	LastSeq uint64
	Base    uint64
	// Examples are those in closed rounds.
	Examples uint64
	Known    bool
	// Newest says that its newest contribution, of this Weight, is one of the arrays: async
	// mode with the average rule.
	Newest bool
	Weight float32
	// Caught is how many contributions the guard has refused or clipped.
	Caught uint64
}

// Arrays returns the number of arrays that ReadFill copies: the value, the slots, newest
// contributions, and the kept sum.
func (x *Snapshot) Arrays() int {
	n := 1 + len(x.Slots)
	for i := range x.Members {
		if x.Members[i].Newest {
			n++
		}
	}
	if x.Kept {
		n++
	}
	return n
}

// state returns a member's state without the examples in open rounds.
func (m *member) state(open uint64) MemberState {
	x := MemberState{Node: m.Node, LastSeq: m.lastSeq, Base: m.base(), Examples: m.examples - open, Known: m.known, Caught: m.caught}
	if m.newest() != nil {
		x.Newest, x.Weight = true, m.async.newestWeight
	}
	return x
}

// restore sets a member's state, with room for its newest contribution of n values.
func (m *member) restore(x *MemberState, pool *Pool, n int) {
	m.examples, m.caught, m.lastSeq, m.known = x.Examples, x.Caught, x.LastSeq, x.Known
	m.setBase(x.Base)
	if x.Newest {
		a := m.asynchronous()
		a.newest, a.newestWeight = pool.Get(4*n), x.Weight
	}
}

// describe writes the counts of workers that have left, without the examples in open rounds.
func (x *exampleCounts) describe(to *Snapshot, open *rounds) {
	to.Counted = x.any
	for node, examples := range x.left {
		if to.Left == nil {
			to.Left = map[uint64]uint64{}
		}
		to.Left[node] = examples - open.examples(node)
	}
}

func (x *exampleCounts) restore(from *Snapshot) {
	x.any = from.Counted
	for node, examples := range from.Left {
		if examples > 0 {
			x.keep(node, examples)
		}
	}
}

// describe writes a guard and its window. A nil guard writes nothing.
func (g *guard) describe(to *Snapshot) {
	if g != nil {
		to.Guard, to.Norms, to.Barren = &g.given, g.oldestFirst(), g.refusedSince
	}
}

// restoreGuard returns the guard of a Snapshot, or nil.
func restoreGuard(cfg *Config, x *Snapshot) (*guard, error) {
	if x.Guard == nil {
		return nil, nil
	}
	g := newGuard(*x.Guard)
	g.refusedSince = x.Barren
	for _, norm := range x.Norms {
		if !(norm > 0 && norm <= math.MaxFloat64) {
			return nil, cfg.refuse(wire.CodeMalformed, "fill: got the norm %v, want finite ones above 0", norm)
		}
		g.add(norm)
	}
	return g, nil
}

// describe writes what was measured. A nil norms writes nothing.
func (n *norms) describe(to *Snapshot) {
	to.Newest = n.ofNewest()
	if k := n.keptSum(); k.data != nil {
		to.Kept, to.KeptRound, to.KeptWeight = true, k.round, k.weight
	}
}

// restoreNorms sets what was measured, with room for the kept sum.
func (t *sum) restoreNorms(x *Snapshot) error {
	t.setNorms(x.Newest)
	if !x.Kept {
		return nil
	}
	if t.cfg.Form != wire.FormDense || !(x.KeptWeight > 0 && x.KeptWeight <= math.MaxFloat64) {
		return t.cfg.refuse(wire.CodeMalformed, "fill: got a kept sum of form %d and weight %v, want a dense one and a weight above 0", t.cfg.Form, x.KeptWeight)
	}
	t.measured().kept = keptSum{data: t.cfg.Pool.Get(4 * t.cfg.values()), round: x.KeptRound, weight: x.KeptWeight}
	return nil
}

package shard

import (
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A Snapshot is the first part of a shard's state that a new backup gets: all but the arrays of
// values and slots, and but the contributions to open rounds.
type Snapshot struct {
	Round      uint64 // rounds closed
	Generation uint64 // under which the newest round closed
	Mode       uint8
	Config     string   // the optimizer's JSON; empty: none
	Slots      []string // names of its slots
	Rows       uint64   // rows of an open vocabulary
	Pushed     bool     // a contribution has been accepted
	AnySeq     bool     // a member's first contribution may have any sequence number
	Members    []MemberState
	Counted    bool              // contributions have counted examples
	Left       map[uint64]uint64 // examples in closed rounds of workers that have left, by node
	Guard      *Guard            // nil: none
	Norms      []float64         // the guard's window of norms, the oldest first
	Barren     int
	Newest     wire.Norms // of the newest round
	Weight     float64    // sum of its weights
	Examples   uint64     // and of its examples
	Kept       bool       // the last array is the sum of round KeptRound: see keptSum
	KeptRound  uint64
	KeptWeight float64
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

// A MemberState is a shard's state of one worker.
type MemberState struct {
	Node     uint64
	Counted  uint64 // highest sequence number that counts
	Base     uint64
	Examples uint64 // in closed rounds
	Known    bool
	Newest   bool // async mode with the average rule: its newest contribution is one of the arrays
	Weight   float32
	Caught   uint64 // contributions that the guard has refused or clipped
}

// BeginFill begins to copy the state to a new backup. No round closes until EndFill or Detach, so
// that what ReadFill and ReadFillRows copy is consistent. Pulls are answered meanwhile.
func (s *Shard) BeginFill() (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Snapshot{}, s.err
	}
	config, err := s.config()
	if err != nil {
		return Snapshot{}, err
	}
	b := s.backupMemory()
	b.filling, b.inSync, b.stale, b.sentOptimizer, b.nothingSent = true, false, false, s.opt, false
	x := Snapshot{Round: s.rounds, Generation: s.current.generation, Mode: s.mode, Config: config, Slots: slotNames(s.slots()),
		Pushed: s.pushed, AnySeq: s.anySeq, Rows: uint64(s.rowCount())}
	b.newest = nil
	for _, m := range s.ranked {
		var weight float32
		if m.newest() != nil {
			weight = m.async.newestWeight
			b.newest = append(b.newest, m)
		}
		x.Members = append(x.Members, MemberState{Node: m.Node, Counted: m.counted, Base: m.base(), Examples: m.examples - s.openExamples(m.Node), Known: m.known, Newest: m.newest() != nil, Weight: weight,
			Caught: m.caught})
	}
	if g := s.guard; g != nil {
		x.Guard, x.Norms, x.Barren = &g.given, g.oldestFirst(), g.refusedSince
	}
	x.Newest, x.Weight, x.Examples = s.norms(), s.weight, s.current.examples
	if k := s.keptSum(); k.data != nil {
		x.Kept, x.KeptRound, x.KeptWeight = true, k.round, k.weight
	}
	x.Counted = s.counted
	for node, examples := range s.left {
		if x.Left == nil {
			x.Left = map[uint64]uint64{}
		}
		x.Left[node] = examples - s.openExamples(node)
	}
	return x, nil
}

// EndFill ends the copy: from now on a round's value is shown only after the backup has the round.
// It returns false if the state was replaced meanwhile; then the backup must be filled again.
func (s *Shard) EndFill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backup
	if s.err != nil || !b.isFilling() || b.stale {
		return false
	}
	b.filling, b.inSync = false, true
	if r := b.pending; r != nil { // the state contains that round
		b.pending = nil
		if !r.lent {
			s.discard(r)
		}
	}
	s.releaseWaits()
	return true
}

// StateReplaced reports whether the state was replaced (a Load) since the shard has a backup: the
// backup must be filled again.
func (s *Shard) StateReplaced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backup.isStale()
}

// markStale records that the state was replaced. A shard with a backup closes no round until the
// backup has the new state.
func (s *Shard) markStale() {
	b := s.backup
	if !b.isInSync() && !b.isFilling() {
		return
	}
	b.inSync, b.filling, b.stale = false, true, true
	if r := b.pending; r != nil { // the record is of the replaced state
		b.pending = nil
		if !r.lent {
			s.discard(r)
		}
	}
	if b.closed != nil {
		b.closed()
	}
}

// fillArray returns one array of a state: array 0 is the value, then come the slots, then the
// newest contributions of the members that have one, then the kept sum.
func (s *Shard) fillArray(array int) []float32 {
	slots := s.slots()
	switch {
	case array < 0 || s.vocabulary != nil:
		return nil
	case array == 0:
		return s.current.Float32s()
	case array <= len(slots):
		return slots[array-1].Values
	}
	array -= 1 + len(slots)
	newest := s.backup.newestOf()
	if array == len(newest) && s.keptSum().data != nil {
		return s.keptSum().data.Float32s(s.n)
	}
	if array >= len(newest) || newest[array].newest() == nil {
		return nil // nil if the member was lost meanwhile
	}
	return newest[array].newest().Float32s(s.n)
}

// ReadFill copies values of one array, beginning at index from. It returns false if the state was
// replaced meanwhile.
func (s *Shard) ReadFill(array, from int, dst []float32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.backup.isFilling() || s.backup.stale {
		return false
	}
	all := s.fillArray(array)
	if len(all)-from < len(dst) {
		return false
	}
	copy(dst, all[from:])
	return true
}

// ReadFillRows is ReadRows, between BeginFill and EndFill.
func (s *Shard) ReadFillRows(from, count uint64) (RowState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.backup.isFilling() || s.backup.stale {
		return RowState{}, false
	}
	st, err := s.readRows(from, count)
	return st, err == nil
}

// Restore returns a shard in the state of a Snapshot; WriteFill and WriteFillRows add its arrays.
func Restore(cfg Config, x *Snapshot, generation uint64, members []Member) (*Shard, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = x.Mode
	if err := s.configure(x.Config); err != nil {
		return nil, err
	}
	switch {
	case s.opt != nil && !slices.Equal(x.Slots, s.opt.SlotNames()):
		return nil, s.refuse(wire.CodeMalformed, "fill: got slots %s, want %q, those of %s", shown.Names(x.Slots), s.opt.SlotNames(), s.opt.Config().Name)
	case s.opt == nil && len(x.Slots) > 0: // for an optimizer that will be set later
		s.state = &optim.State{}
		for _, name := range x.Slots {
			slot := optim.Slot{Name: name}
			if s.vocabulary == nil {
				slot.Values = make([]float32, s.n)
			} else {
				s.vocabulary.slots = append(s.vocabulary.slots, optim.Slot{Name: name, Values: []float32{0}})
			}
			s.state.Slots = append(s.state.Slots, slot)
		}
	}
	s.rounds, s.anySeq, s.pushed = x.Round, x.AnySeq, x.Pushed
	s.setMembers(generation, members)
	for _, state := range x.Members {
		m := s.memberOf(state.Node)
		if m == nil {
			m = &member{Member: Member{Node: state.Node}} // not a member; its array takes part in the order
		}
		m.examples, m.caught = state.Examples, state.Caught
		if s.memberOf(state.Node) == nil {
			s.memberLeft(m)
		}
		m.counted, m.known = state.Counted, state.Known
		m.setBase(state.Base)
		if state.Newest {
			a := m.asynchronous()
			a.newest, a.newestWeight = s.cfg.Pool.Get(4*s.n), state.Weight
			s.backupMemory().newest = append(s.backupMemory().newest, m)
		}
	}
	if x.Guard != nil {
		g := &guard{Guard: x.Guard.withDefaults(), given: *x.Guard, refusedSince: x.Barren}
		for _, norm := range x.Norms {
			if !(norm > 0 && norm <= math.MaxFloat64) {
				return nil, s.refuse(wire.CodeMalformed, "fill: got the norm %v, want finite ones above 0", norm)
			}
			g.add(norm)
		}
		s.guard = g
		s.guarded.Store(true)
	}
	s.setNorms(x.Newest)
	s.weight, s.current.examples = x.Weight, x.Examples
	if x.Kept {
		if s.cfg.Form != wire.FormDense || !(x.KeptWeight > 0 && x.KeptWeight <= math.MaxFloat64) {
			return nil, s.refuse(wire.CodeMalformed, "fill: got a kept sum of form %d and weight %v, want a dense one and a weight above 0", s.cfg.Form, x.KeptWeight)
		}
		s.measurements().kept = keptSum{data: s.cfg.Pool.Get(4 * s.n), round: x.KeptRound, weight: x.KeptWeight}
	}
	s.counted = x.Counted
	for node, examples := range x.Left {
		s.memberLeft(&member{Member: Member{Node: node}, examples: examples})
	}
	s.publish()
	s.current.generation = x.Generation
	return s, nil
}

// WriteFill writes at a backup what ReadFill has read.
func (s *Shard) WriteFill(array, from int, values []float32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	all := s.fillArray(array)
	if from < 0 || from > len(all) || len(values) > len(all)-from {
		return s.refuse(wire.CodeMalformed, "fill: got values %d to %d of array %d, want at most %d", from, from+len(values), array, len(all))
	}
	copy(all[from:], values)
	return nil
}

// WriteFillRows adds at a backup the rows that ReadFillRows has read, with their state.
func (s *Shard) WriteFillRows(rows int, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.vocabulary
	switch {
	case s.err != nil:
		return s.err
	case o == nil:
		return s.refuse(wire.CodeUnsupported, "fill: got rows, but the key has no open vocabulary")
	}
	ids, values := rowData(data, rows, o.rowLen, 1+len(s.slots()))
	had := o.rows
	if err := o.rowsOf(ids); err != nil {
		return s.full("fill", err)
	}
	if o.rows != had+rows {
		return s.refuse(wire.CodeMalformed, "fill: got %d rows, of which %d are duplicates", rows, had+rows-o.rows)
	}
	for i, row := range ids {
		for k := range values {
			copy(o.Row(row, k-1), values[k][i*o.rowLen:(i+1)*o.rowLen])
		}
	}
	return nil
}

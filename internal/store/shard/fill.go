package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// BeginFill begins to copy the state to a new backup. No round closes until EndFill or Detach, so
// that what ReadFill and ReadFillRows copy is consistent. Pulls are answered meanwhile.
func (s *Shard) BeginFill() (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Snapshot{}, s.err
	}
	config, err := s.updater.config(&s.cfg)
	if err != nil {
		return Snapshot{}, err
	}
	b, now := s.replicaMemory(), s.readers.current
	b.beginFill(s.updater.opt)
	x := Snapshot{Round: s.rounds.number, Generation: now.generation, Mode: uint8(s.mode), Config: config, Slots: slotNames(s.updater.slots()),
		Pushed: s.pushed, AnySeq: s.anySeq, Rows: uint64(s.table.count(&s.cfg)), Weight: now.weight, Examples: now.examples}
	for _, m := range s.members.ranked {
		x.Members = append(x.Members, m.state(s.rounds.examples(m.Node)))
		if m.newest() != nil {
			b.newest = append(b.newest, m)
		}
	}
	s.counts.describe(&x, &s.rounds)
	s.guard.describe(&x)
	s.sum.norms.describe(&x)
	return x, nil
}

// EndFill ends the copy: from now on a round's value is shown only after the backup has the round.
// It returns false if the state was replaced meanwhile; then the backup must be filled again.
func (s *Shard) EndFill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.replica.endFill(&s.readers) {
		return false
	}
	s.releaseWaits()
	return true
}

// fillArray returns one array of a state: array 0 is the value, then come the slots, then the
// newest contributions of the members that have one, then the kept sum. It is nil if there is no
// such array, or if it was of a member that was lost meanwhile. Primary and backup count alike.
func (s *Shard) fillArray(array int) []float32 {
	slots := s.updater.slots()
	switch {
	case array < 0 || s.table.vocabulary != nil:
		return nil
	case array == 0:
		return s.readers.current.Float32s()
	case array <= len(slots):
		return slots[array-1].Values
	}
	array -= 1 + len(slots)
	var newest []*member
	if s.replica != nil {
		newest = s.replica.newest
	}
	kept, n := s.sum.norms.keptSum(), s.cfg.values()
	switch {
	case array == len(newest) && kept.data != nil:
		return kept.data.Float32s(n)
	case array >= len(newest) || newest[array].newest() == nil:
		return nil
	}
	return newest[array].newest().Float32s(n)
}

// ReadFill copies values of one array, beginning at index from. It returns false if the state was
// replaced meanwhile.
func (s *Shard) ReadFill(array, from int, dst []float32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.replica.in(replicaFilling) {
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
	if s.err != nil || !s.replica.in(replicaFilling) {
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
	s.mode = mode(x.Mode)
	if err := s.configure(x.Config); err != nil {
		return nil, err
	}
	if err := s.updater.checkSlots(&s.cfg, wire.CodeMalformed, "fill", x.Slots); err != nil {
		return nil, err
	}
	if s.updater.opt == nil && len(x.Slots) > 0 {
		s.expectSlots(x.Slots)
	}
	s.rounds.number, s.anySeq, s.pushed = x.Round, x.AnySeq, x.Pushed
	if err := s.setMembers(generation, members); err != nil {
		return nil, err
	}
	s.restoreMembers(x)
	if s.guard, err = restoreGuard(&s.cfg, x); err != nil {
		return nil, err
	}
	s.guarded.Store(s.guard != nil)
	if err := s.sum.restoreNorms(x); err != nil {
		return nil, err
	}
	s.counts.restore(x)
	s.publish(x.Weight, x.Examples)
	s.readers.current.generation = x.Generation
	return s, nil
}

// expectSlots makes room for the slots of an optimizer that will be set later.
func (s *Shard) expectSlots(names []string) {
	if o := s.table.vocabulary; o != nil {
		o.slots = s.updater.expect(names)
		return
	}
	s.updater.load(names, s.cfg.values(), nil)
}

// restoreMembers sets the state of the workers of a Snapshot. One that is not a member has its
// array all the same, because arrays are told apart by their order.
func (s *Shard) restoreMembers(x *Snapshot) {
	for i := range x.Members {
		state := &x.Members[i]
		m := s.members.of(state.Node)
		isMember := m != nil
		if !isMember {
			m = &member{Member: Member{Node: state.Node}}
		}
		m.restore(state, s.cfg.Pool, s.cfg.values())
		if !isMember {
			s.counts.leave(m)
		}
		if state.Newest {
			b := s.replicaMemory()
			b.newest = append(b.newest, m)
		}
	}
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
		return s.cfg.refuse(wire.CodeMalformed, "fill: got values %d to %d of array %d, want at most %d", from, from+len(values), array, len(all))
	}
	copy(all[from:], values)
	return nil
}

// WriteFillRows adds at a backup the rows that ReadFillRows has read, with their state.
func (s *Shard) WriteFillRows(rows int, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.table.vocabulary
	switch {
	case s.err != nil:
		return s.err
	case o == nil:
		return s.cfg.refuse(wire.CodeUnsupported, "fill: got rows, but the key has no open vocabulary")
	}
	return o.fill(&s.cfg, rows, 1+len(s.updater.slots()), data)
}

package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A new backup gets the state in three steps. BeginFill stops the closing of rounds and describes
// the state; ReadFill and ReadFillRows copy its arrays, part by part, each under the mutex for a
// short time, so that pulls and contributions go on; EndFill lets rounds close again, and from then
// on the backup gets each as a Record. On the other side Restore, WriteFill and WriteFillRows do
// the same.
//
// Nothing but a Load, another optimizer or the loss of the backup can replace the state in between.
// Each of them moves the replica to another phase, and ReadFill then returns false; so it does for
// an array of a worker that was lost meanwhile.

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
	s.replica = s.replica.made()
	b, now := s.replica, s.readers.current
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

// fillArray returns one array of the state, see replica.array.
func (s *Shard) fillArray(i int) []float32 {
	return s.replica.array(i, s.readers.current.Float32s(), s.updater.slots(), s.sum.norms.keptSum().data)
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
	st, err := s.table.read(&s.cfg, &s.updater, from, count)
	st.Round, st.Generation = s.rounds.number, s.readers.current.generation
	return st, err == nil
}

// Restore returns a shard in the state of a Snapshot; WriteFill and WriteFillRows add its arrays.
// The members are those of the backup's own membership, which may be newer than the Snapshot's. No
// one else has the shard yet, so that the mutex is not needed.
func Restore(cfg Config, x *Snapshot, generation uint64, members []Member) (*Shard, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	s.mode = mode(x.Mode)
	opt, err := s.updater.follow(&s.cfg, x.Config)
	if err != nil {
		return nil, err
	}
	s.setOptimizer(opt)
	if err := s.updater.checkSlots(&s.cfg, wire.CodeMalformed, "fill", x.Slots); err != nil {
		return nil, err
	}
	if s.updater.opt == nil && len(x.Slots) > 0 {
		s.updater.restore(x.Slots, s.cfg.values(), s.table.vocabulary)
	}
	s.rounds.number, s.anySeq, s.pushed = x.Round, x.AnySeq, x.Pushed
	if err := s.SetMembers(generation, members); err != nil {
		return nil, err
	}
	for i := range x.Members {
		state := &x.Members[i]
		m := s.members.of(state.Node)
		lost := m == nil
		if lost {
			// It has its array all the same, because arrays are told apart by their
			// order.
			m = &member{Member: Member{Node: state.Node}}
		}
		m.restore(state, s.cfg.Pool, s.cfg.values())
		if lost {
			s.counts.leave(m)
		}
		if state.Newest {
			s.replica = s.replica.made()
			s.replica.newest = append(s.replica.newest, m)
		}
	}
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

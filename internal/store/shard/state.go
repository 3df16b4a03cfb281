package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A State is the whole state of a shard, but for contributions to open rounds.
type State struct {
	// Generation is the one under which the newest round closed; Round is how many have closed.
	Generation, Round uint64
	// Config is the optimizer's JSON; empty: none.
	Config string
	Slots  []string
	// Values holds the value and then the slots, in order, each of the shard's length.
	Values *Buffer
}

// ReadState copies the shard's state as of the newest closed round. Wait for a round with Pull
// first. The caller releases Values.
func (s *Shard) ReadState() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return State{}, s.err
	}
	if s.replica.hides(s.mode) {
		return State{}, ErrAgain
	}
	if s.table.vocabulary != nil {
		return State{}, s.cfg.refuse(wire.CodeUnsupported, "read state: the key has an open vocabulary; read its rows")
	}
	config, err := s.updater.config(&s.cfg)
	if err != nil {
		return State{}, err
	}
	slots, n := s.updater.slots(), s.cfg.values()
	st := State{Generation: s.readers.current.generation, Round: s.rounds.number, Config: config, Slots: slotNames(slots)}
	st.Values = s.cfg.Pool.Get(4 * n * (1 + len(slots)))
	all := st.Values.Float32s(n * (1 + len(slots)))
	copy(all, s.readers.current.Float32s())
	for i, slot := range slots {
		copy(all[(1+i)*n:], slot.Values)
	}
	return st, nil
}

// WriteState replaces the value, the optimizer's slots and the number of closed rounds. values
// holds the value and then the slots, and is copied. Contributions to open rounds are dropped; if
// they are sent again they are acknowledged and do not count. The slots must be those of the
// current optimizer; without one they are kept for the next.
func (s *Shard) WriteState(round uint64, slots []string, values []float32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.table.vocabulary != nil {
		return s.cfg.refuse(wire.CodeUnsupported, "write state: the key has an open vocabulary; write its rows")
	}
	n := s.cfg.values()
	if len(values) != n*(1+len(slots)) {
		return s.cfg.refuse(wire.CodeSize, "write state: got %d values, want %d: the value and %d slots", len(values), n*(1+len(slots)), len(slots))
	}
	if err := s.updater.checkSlots(&s.cfg, wire.CodeConflict, "write state", slots); err != nil {
		return err
	}
	s.beginState()
	copy(s.readers.writable(), values[:n])
	s.updater.load(slots, n, values[n:])
	s.endState(round)
	return nil
}

// beginState drops the open rounds before the state is replaced; endState opens the round after the
// new state's. Between them value, slots and rounds do not belong together.
func (s *Shard) beginState() {
	if !s.pushed {
		s.anySeq = true
		for _, m := range s.members.ranked {
			m.known = false
		}
	}
	s.dropContributions()
}

func (s *Shard) endState(round uint64) {
	s.replica.replaced(&s.readers)
	s.rounds.number = round
	s.publish(0, 0)
	s.rounds.begin(s.members.ordered())
	s.wake()
}

// dropContributions drops the contributions to open rounds, and remembers their sequence numbers.
// What was learned of earlier rounds (norms, ages of values) is of a state that is no more.
func (s *Shard) dropContributions() {
	s.stopwatch.held -= s.rounds.drop(&s.members)
	s.stopwatch.tellHeld(&s.cfg)
	for _, m := range s.members.ranked {
		if m.dropNewest(); m.async != nil {
			m.async.staleness = staleness{}
		}
	}
	s.sum.reset()
	s.rounds.clip().forget()
	s.sum.norms.forget()
	s.guard.forget()
}

package shard

import (
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A State is the whole state of a shard, but for contributions to open rounds.
type State struct {
	Generation uint64 // under which the newest round closed
	Round      uint64 // rounds closed
	Config     string // the optimizer's JSON; empty: none
	Slots      []string
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
	if s.awaitsBackup() {
		return State{}, ErrAgain
	}
	if s.vocabulary != nil {
		return State{}, s.refuse(wire.CodeUnsupported, "read state: the key has an open vocabulary; read its rows")
	}
	config, err := s.config()
	if err != nil {
		return State{}, err
	}
	st := State{Generation: s.current.generation, Round: s.rounds, Config: config}
	slots := s.slots()
	st.Values = s.cfg.Pool.Get(4 * s.n * (1 + len(slots)))
	all := st.Values.Float32s(s.n * (1 + len(slots)))
	copy(all, s.current.Float32s())
	for i, slot := range slots {
		st.Slots = append(st.Slots, slot.Name)
		copy(all[(1+i)*s.n:], slot.Values)
	}
	return st, nil
}

// config returns the optimizer's JSON; empty: none.
func (s *Shard) config() (string, error) {
	if s.opt == nil {
		return "", nil
	}
	data, err := s.opt.Config().Encode()
	if err != nil {
		return "", s.refuse(wire.CodeInternal, "read state: %v", err)
	}
	return string(data), nil
}

// SlotCount returns the number of the optimizer's slots, each as long as the value.
func (s *Shard) SlotCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots())
}

func (s *Shard) slots() []optim.Slot {
	if s.state == nil {
		return nil
	}
	return s.state.Slots
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
	if s.vocabulary != nil {
		return s.refuse(wire.CodeUnsupported, "write state: the key has an open vocabulary; write its rows")
	}
	if len(values) != s.n*(1+len(slots)) {
		return s.refuse(wire.CodeSize, "write state: got %d values, want %d: the value and %d slots", len(values), s.n*(1+len(slots)), len(slots))
	}
	if s.opt != nil && !slices.Equal(slots, s.opt.SlotNames()) {
		return s.refuse(wire.CodeConflict, "write state: got slots %s, want %q, those of %s", shown.Names(slots), s.opt.SlotNames(), s.opt.Config().Name)
	}
	s.beginState()
	copy(s.writable(), values[:s.n])
	s.state = &optim.State{}
	for i, name := range slots {
		s.state.Slots = append(s.state.Slots, optim.Slot{Name: name, Values: slices.Clone(values[(1+i)*s.n : (2+i)*s.n])})
	}
	s.endState(round)
	return nil
}

// beginState drops the open rounds before the state is replaced; endState opens the round after the
// new state's.
func (s *Shard) beginState() {
	if !s.pushed {
		s.anySeq = true
		for _, m := range s.ranked {
			m.known = false
		}
	}
	s.dropContributions()
}

func (s *Shard) endState(round uint64) {
	s.markStale()
	s.rounds = round
	s.publishRound(0)
	s.beginRounds()
	s.wake()
}

// dropContributions drops the contributions to open rounds, and remembers their sequence numbers.
func (s *Shard) dropContributions() {
	for _, r := range []*round{&s.open, s.next} {
		if r == nil {
			break
		}
		for i := range r.slots {
			x := &r.slots[i]
			if m := s.memberOf(x.node); m != nil {
				m.counted = max(m.counted, x.seq)
			}
			s.held -= x.held
			x.held = 0
		}
		r.drop()
	}
	s.tellHeld()
	for _, m := range s.ranked {
		if m.dropNewest(); m.async != nil {
			m.async.staleness = staleness{}
		}
	}
	s.resetSum()
	s.weight = 0
	if n := s.measuring; n != nil {
		n.newest = wire.Norms{}
		n.kept.drop()
	}
	if s.guard != nil {
		s.guard.forget()
	}
}

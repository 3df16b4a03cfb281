package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// pushSync puts a contribution into its slot. Everything that may fail comes first: once the slot
// is taken the round may close, and the contribution cannot be taken out again.
func (s *Shard) pushSync(m *member, c *Contribution) (Status, error) {
	x, r, status, err := s.find(m, c.Seq, c.Round)
	if status == Repeated {
		c.Data.Release()
	}
	if status != Held {
		return status, err
	}
	if err := r.checkRate(&s.cfg, c, m.Rank); err != nil {
		return Refused, err
	}
	if err := s.table.take(&s.cfg, c); err != nil {
		return Refused, err
	}
	r.put(x, c)
	s.counts.add(m, c.Counted, c.Examples)
	s.stopwatch.hold(x)
	s.stopwatch.arrived(&s.cfg, r, r == &s.rounds.open, c.Node, c.Arrived)
	s.took(r)
	return Held, nil
}

// took goes on after a contribution was put into its slot of a round. A contribution to the next
// round is not even looked at before that round opens: what it is judged and measured by may still
// change.
func (s *Shard) took(r *round) {
	s.pushed = true
	if r == &s.rounds.open {
		s.closeRounds()
	} else {
		s.stopwatch.tellHeld(&s.cfg)
	}
}

// find returns the slot, and its round, for push seq of a member to a round; Held means that it is
// empty. Repeated: the round has it already.
func (s *Shard) find(m *member, seq, number uint64) (*slot, *round, Status, error) {
	if seq <= m.lastSeq {
		return nil, nil, Repeated, nil
	}
	if number < s.rounds.number {
		return nil, nil, Refused, s.cfg.refuse(wire.CodeConflict, "push %d of rank %d: round %d closed without it; round %d is open now", seq, m.Rank, number, s.rounds.number)
	}
	r := s.rounds.find(number, s.members.ordered(), s.replica.unacknowledged() == nil)
	if r == nil {
		return nil, nil, Ahead, nil
	}
	x := r.find(m)
	// A worker that has taken its loan back has stopped waiting; it may push something else
	// now.
	if x != nil && x.payload.lent && x.loan.Over() {
		r.vacate(x, &s.members, &s.counts)
	}
	status, err := s.rounds.place(&s.cfg, r, x, m, seq, number)
	return x, r, status, err
}

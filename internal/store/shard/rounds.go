package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A rounds holds the contributions of a shard until their round closes. It says which round a
// contribution belongs to and whether it may come; it adds nothing up and closes nothing by itself.
//
// Two rounds at most take contributions: the open one and the next. So a worker that has to push
// again, after its server was lost, never has more than two rounds to remember.
type rounds struct {
	// number is how many rounds have closed, which is the number of the open one.
	number uint64
	open   round
	// next is the round after the open one. Nil: no contribution has come so early yet.
	next *round
	// special is made when first needed.
	special *specialRounds
}

// A specialRounds is what rounds have besides that do not close by being full.
type specialRounds struct {
	// single is, in async mode, the contribution that is being applied: a round by itself. clip
	// is of rounds that are held. Each is made when first needed.
	single *[1]slot
	clip   *clipping
}

// specials returns what special rounds have, which may be changed.
func (r *rounds) specials() *specialRounds {
	if r.special == nil {
		r.special = &specialRounds{}
	}
	return r.special
}

// clipped returns what is known of held rounds, which may be changed.
func (r *rounds) clipped() *clipping {
	x := r.specials()
	if x.clip == nil {
		x.clip = &clipping{}
	}
	return x.clip
}

// clip is what is known of held rounds; nil: no round was.
func (r *rounds) clip() *clipping {
	if r.special == nil {
		return nil
	}
	return r.special.clip
}

// both calls f with the rounds that take contributions.
func (r *rounds) both(f func(*round)) {
	f(&r.open)
	if r.next != nil {
		f(r.next)
	}
}

// ahead returns the round after the open one.
func (r *rounds) ahead(ordered []*member) *round {
	if r.next == nil {
		r.next = &round{}
		r.next.begin(ordered, r.number+1)
	}
	return r.next
}

// turn opens round number r.number, after the one before it was closed.
func (r *rounds) turn(ordered []*member) {
	if r.next == nil {
		r.open.begin(ordered, r.number)
		return
	}
	r.open, *r.next = *r.next, r.open
	r.next.begin(ordered, r.number+1)
}

// begin empties the rounds, of which r.number is the first.
func (r *rounds) begin(ordered []*member) {
	r.open.begin(ordered, r.number)
	if r.next != nil {
		r.next.begin(ordered, r.number+1)
	}
}

// change makes the rounds those of other members; held says that the open one is whole and stays.
func (r *rounds) change(ordered []*member, held bool) {
	if !held {
		r.open.change(ordered, r.number)
	}
	if r.next != nil {
		r.next.change(ordered, r.number+1)
	}
}

// alone makes a contribution a round by itself.
func (r *rounds) alone(m *member, c *Contribution) *slot {
	special := r.specials()
	if special.single == nil {
		special.single = new([1]slot)
	}
	x := &special.single[0]
	*x = slot{node: m.Node, rank: m.Rank, seq: c.Seq, weight: c.Weight, examples: uint32(c.Examples), norm: c.norm, judged: c.Judged, payload: payloadOf(c), loan: c.Loan}
	return x
}

// closing returns the contributions of the round that is being closed.
func (r *rounds) closing(async bool) []slot {
	if async {
		return r.special.single[:]
	}
	return r.open.slots
}

// find returns the round that contribution number of a worker is for. It is nil if the contribution
// comes too early: the next round takes none while the one before the open one is not safe yet, so
// that a worker never has more than two rounds to push again.
func (r *rounds) find(number uint64, ordered []*member, safe bool) *round {
	switch {
	case number == r.number:
		return &r.open
	case number == r.number+1 && safe:
		return r.ahead(ordered)
	}
	return nil
}

// place returns whether a slot of a round takes push seq of a member: Held means that it is empty.
// Repeated: the round has it already. A member's sequence numbers rise with the rounds, so that
// member.lastSeq tells repeats from new contributions.
func (r *rounds) place(cfg *Config, at *round, x *slot, m *member, seq, number uint64) (Status, error) {
	switch {
	case x == nil:
		return Refused, cfg.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, want at least %d, the first it counts in", seq, m.Rank, number, m.From)
	case x.seq == seq:
		return Repeated, nil
	case x.seq != 0:
		return Refused, cfg.refuse(wire.CodeConflict, "push %d of rank %d: its push %d already counts in round %d", seq, m.Rank, x.seq, number)
	}
	if at == &r.open {
		if later := r.next.find(m); later != nil && later.seq != 0 && seq >= later.seq {
			return Refused, cfg.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, but its push %d was for round %d", seq, m.Rank, number, later.seq, r.number+1)
		}
		return Held, nil
	}
	if earlier := r.open.find(m); earlier != nil && seq <= earlier.seq {
		return Refused, cfg.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, but its push %d was for round %d", seq, m.Rank, number, earlier.seq, r.number)
	}
	return Held, nil
}

// lent returns the slot whose contribution or place for the value is a loan, with its round; nil if
// there is none.
func (r *rounds) lent(l Loan) (at *round, x *slot) {
	r.both(func(one *round) {
		for i := range one.slots {
			if x == nil && one.slots[i].loan == l {
				at, x = one, &one.slots[i]
			}
		}
	})
	return at, x
}

// examples returns how many examples of a node are in open rounds.
func (r *rounds) examples(node uint64) (examples uint64) {
	r.both(func(one *round) {
		for i := range one.slots {
			if x := &one.slots[i]; x.node == node && x.seq != 0 && x.counted {
				examples += uint64(x.examples)
			}
		}
	})
	return examples
}

// drop drops all contributions, but members remember the sequence numbers, so that what is sent
// again is Repeated and does not count. It returns how many bytes were held.
func (r *rounds) drop(members *membership) (held int64) {
	r.both(func(one *round) {
		for i := range one.slots {
			x := &one.slots[i]
			if m := members.of(x.node); m != nil {
				m.lastSeq = max(m.lastSeq, x.seq)
			}
			held += x.held
			x.held = 0
		}
		one.drop()
	})
	return held
}

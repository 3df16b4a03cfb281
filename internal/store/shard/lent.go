package shard

import (
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Loan is a contribution's data where they lie in the memory of its worker, of a dense shard in
// wire.CodecFloat32. The worker waits for the round, and lends the memory meanwhile; when it stops
// waiting it takes the memory back, unless that is claimed. A contribution that was taken back
// before it was added has not come.
//
// So a contribution is added without a copy, and the round's value is written where the worker
// wants it while it is made. See transport.Loan.
type Loan interface {
	// Claim keeps the owner from taking the memory back until Release; it returns false if the
	// owner has done so.
	Claim() bool
	Release()
	Over() bool // the owner has taken the memory back
	Values() []float32
	// Out is where the value that the contribution is part of belongs; nil if it is to be sent.
	Out() []float32
	// Place says that Out holds the value of this many rounds.
	Place(rounds uint64)
}

// TakesLoans reports whether contributions may be lent. It does not mean that one will not be
// copied.
func (s *Shard) TakesLoans() bool {
	return s.cfg.Form == wire.FormDense && s.n > 0 && !s.guarded.Load()
}

// addTogether lent contributions that are next in order are added before the round closes. Those of
// fewer are added when it closes, all in one pass: each is read once, and the value is written
// once. With many workers the last one would wait long for that.
const addTogether = 4

// lentPart values of a lent contribution are added at a time; they stay in the first-level cache
// until they are written out.
const lentPart = 4096

// Settle ends all use of a loan. It must be called before the owner's call is answered. A
// contribution that has not been added is copied; one that was taken back has not come.
func (s *Shard) Settle(l Loan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range []*round{&s.open, s.next} {
		if r == nil {
			break
		}
		i := slices.IndexFunc(r.slots, func(x slot) bool { return x.loan == l })
		if i < 0 {
			continue
		}
		x := &r.slots[i]
		x.loan = nil
		if !x.payload.lent { // it has been added
			return
		}
		x.payload.lent = false
		if !l.Claim() {
			s.vacate(r, x)
			s.closeRounds() // if the worker has left, its round does not wait for it any more
			return
		}
		x.payload.data = s.cfg.Pool.Get(4 * s.n)
		copy(x.payload.data.Float32s(s.n), l.Values())
		l.Release()
		s.hold(x)
		s.closeRounds() // one that is next in order is added
		return
	}
}

// vacate makes a slot whose contribution was taken back as if none had come.
func (s *Shard) vacate(r *round, x *slot) {
	m := s.memberOf(x.node)
	switch {
	case !x.counts:
	case m != nil:
		m.examples -= uint64(x.examples)
	default:
		s.left[x.node] -= uint64(x.examples)
	}
	if r.present--; r.present == 0 {
		r.setRate(wire.RoundRate{})
	}
	node := x.node
	*x = slot{node: node, rank: x.rank, group: x.group}
	if m == nil {
		r.slots = slices.DeleteFunc(r.slots, func(x slot) bool { return x.node == node })
	}
}

// aggregateLent adds the lent contributions that are next in order, of which there is at least one,
// or leaves that to the closing of the round. It returns false if they stay in their slots.
func (s *Shard) aggregateLent() bool {
	r := &s.open
	from, to := r.aggregated, r.aggregated
	group := r.slots[from].group
	inOrder := s.mode != wire.ModeAnyOrder
	for to < len(r.slots) && r.slots[to].payload.lent && (r.slots[to].group == group || !inOrder) {
		to++
	}
	closing := s.closes()
	if !closing && to-from < addTogether {
		return false
	}
	for i := from; i < to; i++ {
		if r.slots[i].loan.Claim() {
			continue
		}
		for k := from; k < i; k++ {
			r.slots[k].loan.Release()
		}
		s.vacate(r, &r.slots[i])
		return true
	}
	into, grouped := &s.sum.partialSum, group != 0 && inOrder
	if s.sum.host.begun() && (!grouped || s.sum.host.group != group) {
		s.addHost(false)
	}
	if grouped {
		host := s.hostSum()
		host.group = group
		into = &host.partialSum
	}
	s.takeLent(r.slots[from:to])
	r.aggregated = to
	if !closing || to < len(r.slots) || !s.updatesInParts() || grouped && s.sum.data != nil {
		s.addLent(into)
	} else if grouped { // the only group: its sum is the round's
		s.sum.partialSum, *s.sum.host = *into, hostSum{}
	}
	return true
}

// lent returns the claimed contributions that are still to be added.
func (s *Shard) lent() []slot {
	if s.scratch == nil {
		return nil
	}
	return s.scratch.lent
}

// takeLent makes contributions that were claimed part of the sum.
func (s *Shard) takeLent(slots []slot) {
	if s.measuring != nil {
		s.measuring.spoiled = true // they are not measured
	}
	for i := range slots {
		s.sum.weight += float64(slots[i].weight)
	}
	s.scratchMemory().lent = slots
}

// updatesInParts reports whether the value can be made part by part, with no sum of the whole
// round.
func (s *Shard) updatesInParts() bool {
	return s.cfg.Rule == wire.RuleOptimizer && !s.backup.isInSync() && (s.opt == nil || !s.opt.Config().WholeKeys())
}

// lentParts returns a sum, unless it is empty, and the claimed contributions, in the order in which
// they are added.
func (s *Shard) lentParts(sum *partialSum) [][]float32 {
	x := s.scratch
	x.parts = x.parts[:0]
	if sum.data != nil {
		x.parts = append(x.parts, sum.data.Float32s(s.n))
	}
	for i := range x.lent {
		x.parts = append(x.parts, x.lent[i].loan.Values())
	}
	return x.parts
}

// addLent adds the claimed contributions to a sum and releases them.
func (s *Shard) addLent(sum *partialSum) {
	parts := s.lentParts(sum)
	if sum.data == nil {
		sum.data = s.cfg.Pool.Get(4 * s.n)
	}
	outs := append(s.scratch.outs[:0], sum.data.Float32s(s.n))
	s.scratch.outs = outs
	f32.SumTo(outs, parts)
	s.releaseLent()
}

// releaseLent releases the contributions that were added.
func (s *Shard) releaseLent() {
	for i := range s.scratch.lent {
		x := &s.scratch.lent[i]
		x.loan.Release()
		x.payload = payload{}
	}
	s.scratch.lent = nil
	clear(s.scratch.parts)
	clear(s.scratch.outs)
}

// applyLent makes the round's value from the sum so far and the claimed contributions, and writes
// it to the workers while it is in the cache.
func (s *Shard) applyLent(step uint64) error {
	defer s.releaseLent()
	parts, outs := s.lentParts(&s.sum.partialSum), s.claimOuts()
	defer s.releaseOuts(step + 1)
	if s.opt == nil {
		value := s.cfg.Pool.Get(4 * s.n)
		outs = slices.Insert(outs, 0, value.Float32s(s.n)) // in front: a worker may want its value where its gradient is
		s.scratch.outs = outs
		f32.SumTo(outs, parts)
		s.replace(value)
		return nil
	}
	value, pass := s.writable(), s.pass(step)
	state := &s.scratch.state
	state.Slots = append(state.Slots[:0], s.slots()...)
	defer clear(state.Slots)
	scratch := s.cfg.Pool.Get(4 * lentPart)
	defer scratch.Release()
	for from := 0; from < s.n; from += lentPart {
		to := min(from+lentPart, s.n)
		sum := parts[0][from:to]
		for _, x := range parts[1:] {
			both := scratch.Float32s(to - from)
			f32.Add(both, sum, x[from:to])
			sum = both
		}
		for i, slot := range s.slots() {
			state.Slots[i].Values = slot.Values[from:to]
		}
		if err := pass.Update(value[from:to], sum, state); err != nil {
			return err
		}
		for _, out := range outs {
			copy(out[from:to], value[from:to])
		}
	}
	return nil
}

// placeValue writes the value of so many rounds to the workers whose contributions it was made of,
// where it has not been written part by part. With a backup it does not: should this server be lost
// before the backup has the round, the workers push again, perhaps out of the memory that the value
// would be written to.
func (s *Shard) placeValue(rounds uint64) {
	if s.backup.isInSync() {
		return
	}
	outs := s.claimOuts()
	if len(outs) == 0 {
		return
	}
	x := s.scratch
	x.parts = append(x.parts[:0], s.current.Float32s())
	f32.SumTo(outs, x.parts)
	s.releaseOuts(rounds)
	clear(x.parts)
}

// contributions are those of the round that is being closed; in async mode the one that is being
// applied.
func (s *Shard) contributions() []slot {
	if s.async() {
		return s.scratch.single[:]
	}
	return s.open.slots
}

// claimOuts claims the places for the value that its workers have lent, as far as they are not
// claimed.
func (s *Shard) claimOuts() [][]float32 {
	var outs [][]float32
	if s.scratch != nil {
		outs = s.scratch.outs[:0]
	}
	slots := s.contributions()
	for i := range slots {
		x := &slots[i]
		if x.loan == nil {
			continue
		}
		out := x.loan.Out()
		if len(out) != s.n || !x.payload.lent && !x.loan.Claim() {
			continue
		}
		x.placing = true
		outs = append(outs, out)
		s.scratchMemory().outs = outs
	}
	return outs
}

// releaseOuts releases what claimOuts has claimed, with the value of so many rounds in it.
func (s *Shard) releaseOuts(rounds uint64) {
	slots := s.contributions()
	for i := range slots {
		x := &slots[i]
		if x.placing {
			x.loan.Place(rounds)
			if !x.payload.lent {
				x.loan.Release()
			}
		}
		x.placing = false
	}
	clear(s.scratch.outs)
}

package shard

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A round is one aggregation of the shard, open for contributions.
type round struct {
	slots      []slot          // one for each member that it needs, in the order of the sum: by group, then by rank
	aggregated int             // slots[:aggregated] are in the sum; their memory is released
	present    int             // slots with a contribution
	rate       *wire.RoundRate // on which the contributions agree; nil: all zeros
	arrivals   arrivals
}

// A slot is one member's place in a round.
type slot struct {
	node     uint64
	seq      uint64 // the contribution's sequence number; 0: none yet
	rank     uint32
	group    uint32  // as Member.Group
	payload  payload // until it is in the sum
	held     int64   // bytes of the payload
	loan     Loan    // of the payload or, once that is in the sum, of the place for the value
	norm     float64 // divided by the weight; 0: not computed
	microSqr float64 // as wire.Step.MicroSqr
	sqr      float64 // the squared norm of a gradient that was summed, if it is measured
	weight   float32
	examples uint32
	micro    uint32  // as wire.Step.Micro
	counts   bool    // its worker has used the examples
	measure  bool    // as wire.Step.Measure
	judged   bool    // its worker has compared the norm with the limit
	placing  bool    // the place is claimed
	verdict  verdict // the guard's
	// summed: a worker of its host has added the gradient to those of others. elsewhere: the
	// sum is in another slot's payload.
	summed, elsewhere bool
}

// lead is the lowest rank of the slot's group, by which groups are ordered.
func (x *slot) lead() uint32 { return leadOf(x.group, x.rank) }

func leadOf(group, rank uint32) uint32 {
	if group != 0 {
		return group - 1
	}
	return rank
}

// begin empties the round and makes a slot for each member that round n needs.
func (r *round) begin(ordered []*member, n uint64) {
	clear(r.slots)
	r.slots, r.aggregated, r.present, r.arrivals = slices.Grow(r.slots[:0], len(ordered)), 0, 0, arrivals{}
	r.setRate(wire.RoundRate{})
	for _, m := range ordered {
		if m.From <= n {
			r.slots = append(r.slots, slot{node: m.Node, rank: m.Rank, group: m.Group})
		}
	}
}

// find returns the member's slot, or nil.
func (r *round) find(m *member) *slot {
	if r == nil {
		return nil
	}
	if i := int(m.Rank); i < len(r.slots) && r.slots[i].node == m.Node {
		return &r.slots[i]
	}
	for i := range r.slots {
		if r.slots[i].node == m.Node {
			return &r.slots[i]
		}
	}
	return nil
}

// change replaces the slots by those of the members that round n needs, and of former members that
// have contributed. Slots already in the sum stay in front.
func (r *round) change(ordered []*member, n uint64) {
	if len(r.slots) == 0 { // of a new shard
		rate, came := r.learningRate(), r.arrivals
		r.begin(ordered, n)
		r.arrivals = came
		r.setRate(rate)
		return
	}
	old := slices.Clone(r.slots)
	aggregated, rate, came := r.aggregated, r.learningRate(), r.arrivals
	r.begin(ordered, n)
	fresh := slices.Clone(r.slots)
	r.slots = append(r.slots[:0], old[:aggregated]...)
	var rest []slot
	for _, s := range old[aggregated:] {
		i := slices.IndexFunc(fresh, func(f slot) bool { return f.node == s.node })
		switch {
		case i >= 0:
			s.rank, s.group = fresh[i].rank, fresh[i].group
			rest = append(rest, s)
		case s.seq != 0:
			rest = append(rest, s)
		}
	}
	for _, f := range fresh {
		if !slices.ContainsFunc(old, func(s slot) bool { return s.node == f.node }) {
			rest = append(rest, f)
		}
	}
	slices.SortStableFunc(rest, func(a, b slot) int { return cmp.Or(cmp.Compare(a.lead(), b.lead()), cmp.Compare(a.rank, b.rank)) })
	r.slots = append(r.slots, rest...)
	r.aggregated, r.arrivals = aggregated, came
	r.setRate(rate)
	r.present = 0
	for i := range r.slots {
		if r.slots[i].seq != 0 {
			r.present++
		}
	}
}

// drop drops all contributions.
func (r *round) drop() {
	for i := range r.slots {
		r.slots[i].payload.data.Release()
		r.slots[i].payload, r.slots[i].loan = payload{}, nil
	}
}

// A sum is the sum of the open round's aggregated contributions.
type sum struct {
	partialSum          // of a dense shard
	host       *hostSum // made when first needed
	last       *Buffer  // the last contribution, if the optimizer's update adds it; the round is closing
	rows       *rowSum  // of a shard of rows; nil: no rows yet
	weight     float64
	// refused: the guard has refused a contribution.
	refused    bool
	keepsValue bool // the value does not change, because no contribution is left
}

// A partialSum is the sum of some contributions.
type partialSum struct {
	data *Buffer // nil: nothing yet
	// The squares of the first contribution, which is the sum so far, are taken when the next
	// one is added, in the same pass.
	deferred       bool
	deferredWeight float64
}

// A hostSum is the sum of the contributions of the group that is being added up, which are not in
// the sum yet.
type hostSum struct {
	partialSum
	group uint32
}

func (h *hostSum) begun() bool { return h != nil && h.data != nil }

func (s *Shard) hostSum() *hostSum {
	if s.sum.host == nil {
		s.sum.host = &hostSum{}
	}
	return s.sum.host
}

// take makes a contribution's values the sum; those of wire.CodecFloat32 stay where they are.
func (t *partialSum) take(pool *Pool, n int, p *payload) {
	if p.codec == wire.CodecFloat32 {
		t.data = p.data
		return
	}
	t.data = pool.Get(4 * n)
	p.decodeTo(t.data.Float32s(n))
	p.data.Release()
}

// aggregateReady adds the contributions that are next in order, or in wire.ModeAnyOrder all that
// are there, to the sum and releases their memory.
func (s *Shard) aggregateReady() {
	r := &s.open
	if s.mode == wire.ModeAnyOrder {
		for i, next := r.aggregated, r.aggregated; i < len(r.slots); i++ {
			if r.slots[i].seq != 0 {
				r.slots[i], r.slots[next] = r.slots[next], r.slots[i]
				next++
			}
		}
	}
	for r.aggregated < len(r.slots) && r.slots[r.aggregated].seq != 0 {
		slot := &r.slots[r.aggregated]
		if slot.payload.lent {
			if !s.aggregateLent() {
				return
			}
			continue
		}
		s.judge(slot)
		if s.sum.host.begun() && s.sum.host.group != slot.group {
			s.addHost(false)
		}
		s.aggregate(slot, r.aggregated+1 == len(r.slots))
		r.aggregated++
	}
	if s.sum.host.begun() && r.aggregated == len(r.slots) {
		s.addHost(true)
	}
}

// addHost adds the sum of a group to the sum.
func (s *Shard) addHost(last bool) {
	host := s.sum.host.partialSum
	*s.sum.host = hostSum{}
	p := payload{data: host.data}
	switch n := s.measuring; {
	case s.sum.data == nil:
		s.sum.partialSum = host
	case n != nil && n.asked && !n.spoiled:
		s.addMeasured(&s.sum.partialSum, &p, host.deferred, host.deferredWeight, last)
	default:
		p.addTo(s.sum.data.Float32s(s.n), s.cfg.Pool)
		p.data.Release()
	}
}

// aggregate adds one contribution to the sum, or to its group's part of it, which takes its memory.
// last: no other is expected.
func (s *Shard) aggregate(x *slot, last bool) {
	p := x.payload
	x.payload = payload{}
	s.held -= x.held
	x.held = 0
	if x.verdict.refused() {
		s.sum.refused = true
		return
	}
	s.sum.weight += float64(x.weight)
	if s.cfg.RowLen > 0 {
		s.rowSum().add(s, &p)
		return
	}
	if s.n == 0 {
		p.data.Release()
		return
	}
	into := &s.sum.partialSum
	if x.group != 0 && s.mode != wire.ModeAnyOrder {
		host := s.hostSum()
		host.group = x.group
		into, last = &host.partialSum, false
	}
	measured := s.measures(x)
	switch {
	case x.elsewhere && measured:
		s.countNorms(x)
	case x.elsewhere:
	case measured:
		s.measure(x, &p, into, last)
	case into.data != nil:
		p.addTo(into.data.Float32s(s.n), s.cfg.Pool)
		p.data.Release()
	default:
		into.take(s.cfg.Pool, s.n, &p)
	}
}

// resetSum empties the sum.
func (s *Shard) resetSum() {
	s.sum.data.Release()
	s.sum.last.Release()
	s.sum.partialSum = partialSum{}
	if h := s.sum.host; h != nil {
		h.data.Release()
		*h = hostSum{}
	}
	s.sum.last, s.sum.weight, s.sum.refused, s.sum.keepsValue = nil, 0, false, false
	s.sum.rows.reset()
	if s.scratch != nil {
		s.scratch.lent = nil
	}
	if s.measuring != nil {
		s.measuring.measurement = measurement{}
	}
}

// ahead returns the round after the open one.
func (s *Shard) ahead() *round {
	if s.next == nil {
		s.next = &round{}
		s.next.begin(s.ordered(), s.rounds+1)
	}
	return s.next
}

// turn opens round number s.rounds, after the one before it was closed.
func (s *Shard) turn() {
	if s.next == nil {
		s.open.begin(s.ordered(), s.rounds)
		return
	}
	s.open, *s.next = *s.next, s.open
	s.next.begin(s.ordered(), s.rounds+1)
}

// beginRounds empties the open rounds, of which s.rounds is the first.
func (s *Shard) beginRounds() {
	s.open.begin(s.ordered(), s.rounds)
	if s.next != nil {
		s.next.begin(s.ordered(), s.rounds+1)
	}
}

// closes reports whether the open round closes now.
func (s *Shard) closes() bool {
	return s.err == nil && !s.roundsBlocked() && len(s.ranked) > 0 && len(s.open.slots) > 0 && s.open.present == len(s.open.slots)
}

// closeRounds adds up what is ready, closes the open round if every member has contributed, and
// then the next ones.
func (s *Shard) closeRounds() {
	begin := s.workBegins()
	s.aggregateReady()
	for s.closes() {
		inParts := s.lent() != nil && !s.weighsNothing()
		if err := s.apply(s.rounds); err != nil {
			s.fail(err)
			return
		}
		if !inParts {
			s.placeValue(s.rounds + 1)
		}
		s.learnNorms(s.open.slots)
		for i := range s.open.slots {
			slot := &s.open.slots[i]
			if m := s.memberOf(slot.node); m != nil {
				m.counted = slot.seq
			}
			s.recordContribution(Counted{Node: slot.node, Seq: slot.seq, Weight: slot.weight, Examples: uint64(slot.examples), Counts: slot.counts, Norm: slot.norm, Verdict: uint8(slot.verdict)})
		}
		s.rounds++
		s.publishRound(s.examplesOfRound())
		s.measureRound(begin)
		s.turn()
		s.announce()
		s.wake()
		begin = s.workBegins()
		s.aggregateReady()
	}
	if begin != 0 {
		s.open.arrivals.apply += s.clock() - begin
	}
	s.tellHeld()
}

package shard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A round is one aggregation of the shard, open for contributions.
type round struct {
	// slots has one slot for each member that the round needs, in the order of the sum: by
	// group, then by rank. In wire.ModeAnyOrder aggregated slots are moved to the front.
	slots []slot
	// aggregated: slots[:aggregated] are in the sum; their memory is released.
	aggregated int
	// present is the number of slots with a contribution.
	present int
	// rate is the learning rate on which the contributions agree. Nil: all zeros.
	rate     *wire.RoundRate
	arrivals arrivals
}

// A slot is one member's place in a round. It is empty while seq is 0, holds a contribution until
// that is in the sum, and keeps what a backup and the guard's window need of it until the round has
// closed. Slots of a round lie in one block, which rounds use again.
type slot struct {
	node uint64
	// seq is the contribution's sequence number; 0: none has come.
	seq  uint64
	rank uint32
	// group is Member.Group.
	group uint32
	// payload is the contribution's data until it is in the sum, and held its bytes as the
	// Meter was told of them.
	payload payload
	held    int64
	// loan is what the worker has lent: the payload or, once that is in the sum, the place for
	// the value.
	loan Loan
	// norm is divided by the weight; 0: not computed.
	norm float64
	// microSqr, micro and measure are those of wire.Step.
	microSqr float64
	// sqr is the squared norm of a gradient that was summed, if it is measured.
	sqr      float64
	weight   float32
	examples uint32
	micro    uint32
	// counted says that the worker has used the examples.
	counted bool
	measure bool
	// judged says that the worker has compared the norm with the guard's limit.
	judged bool
	// placing says that the place for the value is claimed.
	placing bool
	verdict verdict
	// summed says that a worker of the host has added the gradient to those of others, and
	// elsewhere that this sum is the payload of another of their slots.
	summed, elsewhere bool
}

// lead is the lowest rank of the slot's group, by which groups are ordered.
func (x *slot) lead() uint32 { return leadOf(x.group, x.rank) }

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

// find returns the member's slot, or nil. In most rounds a member's rank is its place; where
// members are in groups, or have left, the slots are looked through.
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
// have contributed: a contribution that was accepted counts. The slot of a former member that has
// not contributed goes, so the round no longer waits for it. What is in the sum cannot be taken
// out of it, so that slots already in the sum stay in front; all others are put into the new order.
// A lost worker's contribution to a round may so be in one shard of a key and not in another; a
// mean is taken, in each shard, over the weights of what is there.
func (r *round) change(ordered []*member, n uint64) {
	// A new shard's first round has no slots yet.
	if len(r.slots) == 0 {
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

// full reports whether every member that the round needs has contributed.
func (r *round) full() bool { return len(r.slots) > 0 && r.present == len(r.slots) }

// ready reports whether a contribution can be added to the sum now.
func (r *round) ready(anyOrder bool) bool {
	return r.aggregated < len(r.slots) && (anyOrder && r.present > r.aggregated || r.slots[r.aggregated].seq != 0)
}

// line moves the contributions that are there to the front of those that are not in the sum yet,
// for wire.ModeAnyOrder.
func (r *round) line() {
	for i, next := r.aggregated, r.aggregated; i < len(r.slots); i++ {
		if r.slots[i].seq != 0 {
			r.slots[i], r.slots[next] = r.slots[next], r.slots[i]
			next++
		}
	}
}

// claimLent claims the lent contributions that are next in order and can be added together: those
// of one group, unless the order does not matter. least is how many there must be. If a worker has
// taken its contribution back nothing is claimed, and claimLent returns that slot.
func (r *round) claimLent(anyOrder bool, least int) (claimed []slot, gone *slot) {
	from, to := r.aggregated, r.aggregated
	for to < len(r.slots) && r.slots[to].payload.lent && (anyOrder || r.slots[to].group == r.slots[from].group) {
		to++
	}
	if to-from < least {
		return nil, nil
	}
	for i := from; i < to; i++ {
		if r.slots[i].loan.Claim() {
			continue
		}
		for k := from; k < i; k++ {
			r.slots[k].loan.Release()
		}
		return nil, &r.slots[i]
	}
	r.aggregated = to
	return r.slots[from:to], nil
}

// put puts a contribution into its slot, which is empty.
func (r *round) put(x *slot, c *Contribution) {
	r.setRate(c.Step.Rate)
	x.measure, x.micro, x.microSqr = c.Step.Measure, c.Step.Micro, c.Step.MicroSqr
	x.seq, x.weight, x.examples, x.counted, x.norm, x.judged = c.Seq, c.Weight, uint32(c.Examples), c.Counted, c.norm, c.Judged
	x.payload, x.loan = payloadOf(c), c.Loan
	r.present++
}

// putTogether puts one contributor of a sum into its slot. The first one that is put gets the
// payload.
func (r *round) putTogether(x *slot, c *Contribution, by *wire.Contributor, first bool) {
	x.measure, x.micro, x.microSqr = c.Step.Measure, by.Micro, by.MicroSqr
	x.seq, x.weight, x.examples, x.counted, x.sqr, x.summed = by.Seq, by.Weight, uint32(by.Examples), by.Counted, by.Sqr, true
	if x.elsewhere = !first; first {
		x.payload = payloadOf(c)
	}
	r.present++
}

// vacate makes a slot whose contribution was taken back as if none had come. A slot of a worker
// that is no longer a member goes: the round does not need it.
func (r *round) vacate(x *slot, members *membership, counts *exampleCounts) {
	m := members.of(x.node)
	if x.counted {
		counts.takeBack(m, x.node, uint64(x.examples))
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

// drop drops all contributions and the memory that they hold. Who has contributed stays known.
func (r *round) drop() {
	for i := range r.slots {
		r.slots[i].payload.data.Release()
		r.slots[i].payload, r.slots[i].loan = payload{}, nil
	}
}

// examplesOf returns the number of examples of a round that is being closed, without those of
// contributions that the guard has refused.
func examplesOf(slots []slot) (sum uint64) {
	for i := range slots {
		if !slots[i].verdict.refused() {
			sum += uint64(slots[i].examples)
		}
	}
	return sum
}

// learningRate returns the rate on which the contributions agree.
func (r *round) learningRate() wire.RoundRate {
	if r.rate == nil {
		return wire.RoundRate{}
	}
	return *r.rate
}

func (r *round) setRate(x wire.RoundRate) {
	switch {
	case r.rate != nil:
		*r.rate = x
	case x != wire.RoundRate{}:
		r.rate = new(wire.RoundRate)
		*r.rate = x
	}
}

// checkRate returns an error if a contribution of another rate has come before: a round has one
// update, so it has one rate.
func (r *round) checkRate(cfg *Config, c *Contribution, rank uint32) error {
	have := r.learningRate()
	if r.present == 0 || have == c.Step.Rate {
		return nil
	}
	first := slices.IndexFunc(r.slots, func(x slot) bool { return x.seq != 0 })
	return cfg.refuse(wire.CodeConflict, "push %d of rank %d: round %d: got %s, but rank %d gave %s; all workers must give the same",
		c.Seq, rank, c.Round, rateText(&c.Step.Rate), r.slots[first].rank, rateText(&have))
}

// rateText describes a rate for messages.
func rateText(r *wire.RoundRate) string {
	factor, at := 1.0, "the round"
	if r.Scaled {
		factor = r.Factor
	}
	if r.ByProgress {
		at = fmt.Sprintf("progress %v", r.Progress)
	}
	text := fmt.Sprintf("learning-rate factor %v with the schedule read at %s", factor, at)
	if r.Gain != 0 {
		text += fmt.Sprintf(" and gain %v", r.Gain)
	}
	return text
}

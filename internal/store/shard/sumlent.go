package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// toAdd returns the claimed contributions that are still to be added.
func (t *sum) toAdd() []slot {
	if t.lending == nil {
		return nil
	}
	return t.lending.claimed
}

func (t *sum) lends() *lending {
	if t.lending == nil {
		t.lending = &lending{}
	}
	return t.lending
}

// addLent makes claimed contributions of one group part of the sum. With inParts nothing is added
// yet if that can be done when the value is made: the value then goes to each of its places as it
// is made, part by part, and no sum of the whole round is written.
func (t *sum) addLent(slots []slot, a *addition, inParts bool) {
	group := slots[0].group
	grouped := group != 0 && !a.anyOrder
	if t.host.begun() && (!grouped || t.host.group != group) {
		t.addHost(a)
	}
	into := &t.partialSum
	if grouped {
		into = t.hostOf(group)
	}
	t.claim(slots)
	switch {
	case !inParts || grouped && t.data != nil:
		t.addClaimed(into)
	case grouped:
		// It is the only group, so its sum is the round's.
		t.partialSum, *t.host = *into, hostSum{}
	}
}

// claim counts claimed contributions in the sum without adding them. They are not measured.
func (t *sum) claim(slots []slot) {
	if t.norms != nil {
		t.norms.phase = measureSpoiled
	}
	for i := range slots {
		t.weight += float64(slots[i].weight)
	}
	t.lends().claimed = slots
}

// addClaimed adds the claimed contributions to a sum and releases them.
func (t *sum) addClaimed(into *partialSum) {
	l, n := t.lending, t.cfg.values()
	parts := l.partsWith(into.data, n)
	if into.data == nil {
		into.data = t.cfg.Pool.Get(4 * n)
	}
	l.outs = append(l.outs[:0], into.data.Float32s(n))
	f32.SumTo(l.outs, parts)
	l.release()
}

// claimOuts claims the places for the value that the workers of these contributions have lent, as
// far as they are not claimed. A place of another length is left alone: its worker gets the value
// in the answer.
func (t *sum) claimOuts(slots []slot) [][]float32 {
	var outs [][]float32
	if t.lending != nil {
		outs = t.lending.outs[:0]
	}
	for i := range slots {
		x := &slots[i]
		if x.loan == nil {
			continue
		}
		out := x.loan.Out()
		if len(out) != t.cfg.values() || !x.payload.lent && !x.loan.Claim() {
			continue
		}
		x.placing = true
		outs = append(outs, out)
		t.lends().outs = outs
	}
	return outs
}

// place writes a value of so many rounds to the places that the workers of these contributions have
// lent.
func (t *sum) place(slots []slot, value *Version, rounds uint64) {
	outs := t.claimOuts(slots)
	if len(outs) == 0 {
		return
	}
	l := t.lending
	l.parts = append(l.parts[:0], value.Float32s())
	f32.SumTo(outs, l.parts)
	l.releaseOuts(slots, rounds)
	clear(l.parts)
}

// addTo adds up the claimed contributions, with the sum so far, in new memory and in all outs,
// claims of which the caller holds; or makes their mean there if that is the rule. The new memory
// is written first: a worker may want its value where its gradient is.
func (t *sum) addTo(outs [][]float32) *Buffer {
	l, n := t.lending, t.cfg.values()
	value := t.cfg.Pool.Get(4 * n)
	l.outs = append(outs, nil)
	copy(l.outs[1:], l.outs)
	l.outs[0] = value.Float32s(n)
	parts := l.partsWith(t.data, n)
	if t.cfg.Rule == wire.RuleAverage {
		f32.MeanTo(l.outs, parts, float32(t.weight))
	} else {
		f32.SumTo(l.outs, parts)
	}
	return value
}

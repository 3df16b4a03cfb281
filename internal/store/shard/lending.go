package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/optim"
)

// addTogether lent contributions that are next in order are added before the round closes. Those of
// fewer are added when it closes, all in one pass: each is read once, and the value is written
// once. With many workers the last one would wait long for that.
const addTogether = 4

// lentPart values of a lent contribution are added at a time; they stay in the first-level cache
// until they are written out.
const lentPart = 4096

// A lending is what a shard needs to use memory that its workers have lent. It is empty between
// calls: while a loan is claimed its worker cannot take the memory back, so no claim outlives the
// call that made it.
type lending struct {
	// claimed are contributions that are part of the sum and still to be added; the round is
	// closing.
	claimed []slot
	// parts, outs and part are scratch: what is added up, where the value goes, and a part of
	// the optimizer's state.
	parts, outs [][]float32
	part        optim.State
}

// partsWith returns a sum of n values, unless it is nil, and the claimed contributions, in the
// order in which they are added.
func (l *lending) partsWith(sum *Buffer, n int) [][]float32 {
	l.parts = l.parts[:0]
	if sum != nil {
		l.parts = append(l.parts, sum.Float32s(n))
	}
	for i := range l.claimed {
		l.parts = append(l.parts, l.claimed[i].loan.Values())
	}
	return l.parts
}

// added returns values from to to of the sum of parts, which it adds up in scratch if there are
// several.
func (l *lending) added(parts [][]float32, scratch []float32, from, to int) []float32 {
	total := parts[0][from:to]
	for _, x := range parts[1:] {
		f32.Add(scratch, total, x[from:to])
		total = scratch
	}
	return total
}

// release releases the contributions that were added.
func (l *lending) release() {
	for i := range l.claimed {
		x := &l.claimed[i]
		x.loan.Release()
		x.payload = payload{}
	}
	l.claimed = nil
	clear(l.parts)
	clear(l.outs)
}

// releaseOuts releases what claimOuts has claimed, with the value of so many rounds in it.
func (l *lending) releaseOuts(slots []slot, rounds uint64) {
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
	clear(l.outs)
}

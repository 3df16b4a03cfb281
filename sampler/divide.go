package sampler

import (
	"fmt"
	"math/rand/v2"
)

// A Cut says how far an epoch had come when the number of parts changed: what then remained of it
// was shared by Parts parts, and part i had used the first Used[i] examples of its share, in the
// order in which the share is read. More than there are in a share stands for all of it.
type Cut struct {
	Parts int   `json:"parts"`
	Used  []int `json:"used"`
}

// Divide returns part number part, from 0, of parts over what remains of an epoch of length
// examples after some cuts. Without cuts it is Split.
//
// What remains after a cut are the unused ends of the shares, in the order of parts. A share is a
// contiguous run of what remains. With Permutation and Blocks that are positions in the epoch's
// order, and a share is read as it stands there. With Contiguous they are examples, and a share is
// shuffled inside by (seed, epoch, number of cuts, part). So all who know order, seed, epoch and
// cuts find the same shares.
//
// With Spread, what the parts of all cuts have used and the shares after the last one are together
// each example exactly once. With Drop fewer examples are left out than there are parts after the
// last cut: those that an earlier division left out come behind the unused ends. With Pad no
// example is left out, and each division adds fewer repeated ones than it has parts.
//
// Each use of Epoch, From or Cursor finds the shares anew: with Contiguous in three lists of at
// most length numbers (with Pad, a few more), else as runs of positions, of which each cut makes at
// most one more than it has parts.
func Divide(length int, cuts []Cut, parts, part int, opts ...Option) (*Sampler, error) {
	s, err := Split(length, parts, part, opts...)
	if err != nil || len(cuts) == 0 {
		return s, err
	}
	remain := length
	for c, cut := range cuts {
		if cut.Parts < 1 || len(cut.Used) != cut.Parts {
			return nil, fmt.Errorf("sampler: divide %d examples: cut %d: got %d parts and counts of used examples for %d of them, want at least one part and a count for each", length, c, cut.Parts, len(cut.Used))
		}
		next := 0
		for part, used := range cut.Used {
			if used < 0 {
				return nil, fmt.Errorf("sampler: divide %d examples: cut %d: part %d of %d used %d, want at least 0", length, c, part, cut.Parts, used)
			}
			_, size := share(remain, cut.Parts, part, s.policy)
			next += size - min(used, size)
		}
		remain = next + dropped(remain, cut.Parts, s.policy)
	}
	s.whole, s.cuts, s.remain = length, cuts, remain
	s.start, s.size = share(remain, parts, part, s.policy)
	return s, nil
}

// share returns where the share of a part begins among n examples, and how long it is. With Pad it
// may go on at the start.
func share(n, parts, part int, policy Policy) (start, size int) {
	whole, rest := n/parts, n%parts
	switch policy {
	case Drop:
		return whole * part, whole
	case Pad:
		if rest > 0 {
			whole++
		}
		return whole * part, whole
	}
	if part < rest {
		return (whole + 1) * part, whole + 1
	}
	return whole*part + rest, whole
}

// dropped returns how many of n examples are in nobody's share.
func dropped(n, parts int, policy Policy) int {
	if policy == Drop {
		return n % parts
	}
	return 0
}

// left returns what remains of an epoch after the cuts; nil stands for all examples in their order.
func (s *Sampler) left(e int) []int {
	var list []int
	n := s.whole
	for c, cut := range s.cuts {
		var next []int
		for part, used := range cut.Used {
			start, size := share(n, cut.Parts, part, s.policy)
			used = min(used, size)
			if next == nil {
				next = make([]int, 0, n)
			}
			order := s.shuffled(e, c, part, size)
			for _, i := range order[used:] {
				next = append(next, at(list, (start+i)%n))
			}
		}
		for i := n - dropped(n, cut.Parts, s.policy); i < n; i++ {
			next = append(next, at(list, i))
		}
		list, n = next, len(next)
	}
	return list
}

func at(list []int, i int) int {
	if list == nil {
		return i
	}
	return list[i]
}

// contiguous returns the indices of an epoch in the order Contiguous.
func (s *Sampler) contiguous(e int) []int {
	left, order := s.left(e), s.shuffled(e, len(s.cuts), s.part, s.size)
	for k, i := range order {
		order[k] = at(left, (s.start+i)%s.remain)
	}
	return order
}

// shuffled returns the order in which a share of some size is read after so many cuts, in the order
// Contiguous.
func (s *Sampler) shuffled(e, cuts, part, size int) []int {
	order := make([]int, size)
	for i := range order {
		order[i] = i
	}
	// Without cuts the order is the one of versions that knew none.
	seed := s.seed
	if cuts > 0 {
		seed = mix(seed, uint64(cuts))
	}
	r := rand.New(rand.NewPCG(seed, mix(uint64(s.first+e), uint64(part))))
	for i := len(order) - 1; i > 0; i-- {
		j := int(r.Uint64N(uint64(i + 1)))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

package text

import "math"

// A pair is two tokens that stand side by side.
type pair struct{ left, right int32 }

// A merge makes one token of a pair. Those of lower rank come first.
type merge struct{ rank, token int32 }

// noRank is the rank of a pair that is not merged.
const noRank = math.MaxInt32

// shortPiece is the most bytes of a piece whose pairs are looked through for each merge. With more
// a heap is faster: a text may have 100,000 spaces in a row.
const shortPiece = 96

// A merger has the memory in which pieces are merged.
type merger struct {
	tokens []int32
	found  []merge // of the token and the next one

	// heap, before and after are of long pieces alone.
	heap          []uint64
	before, after []int32
}

// merge appends the tokens of a piece to dst.
func (m *merger) merge(v *vocabulary, dst []int32, piece string) []int32 {
	m.tokens, m.found = m.tokens[:0], m.found[:0]
	for i := range len(piece) {
		m.tokens = append(m.tokens, v.ofByte[piece[i]])
	}
	for i := range len(piece) - 1 {
		m.found = append(m.found, v.merge(m.tokens[i], m.tokens[i+1]))
	}
	if len(piece) > shortPiece {
		return m.mergeLong(v, dst)
	}
	return append(dst, m.mergeShort(v)...)
}

// mergeShort looks for the lowest rank, the leftmost first, until there is none.
func (m *merger) mergeShort(v *vocabulary) []int32 {
	tokens, found := m.tokens, m.found
	for {
		best, at := int32(noRank), -1
		for i := range found {
			if found[i].rank < best {
				best, at = found[i].rank, i
			}
		}
		if at < 0 {
			return tokens
		}
		tokens[at] = found[at].token
		tokens = append(tokens[:at+1], tokens[at+2:]...)
		found = append(found[:at], found[at+1:]...)
		if at > 0 {
			found[at-1] = v.merge(tokens[at-1], tokens[at])
		}
		if at < len(found) {
			found[at] = v.merge(tokens[at], tokens[at+1])
		}
	}
}

// mergeLong does the same with a heap of (rank, place), and neighbours that are linked. An entry of
// the heap whose pair is no more there is passed over when it comes.
func (m *merger) mergeLong(v *vocabulary, dst []int32) []int32 {
	n := int32(len(m.tokens))
	m.found = append(m.found, merge{rank: noRank})
	m.heap, m.before, m.after = m.heap[:0], m.before[:0], m.after[:0]
	for i := range n {
		m.before, m.after = append(m.before, i-1), append(m.after, i+1)
		if rank := m.found[i].rank; rank != noRank {
			m.heap = append(m.heap, uint64(rank)<<32|uint64(i))
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		top := m.heap[0]
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.down(0)
		if at := int32(uint32(top)); m.found[at].rank == int32(top>>32) {
			m.join(v, at, n)
		}
	}
	for i := int32(0); i < n; i = m.after[i] {
		dst = append(dst, m.tokens[i])
	}
	return dst
}

// join merges the token at a place with the next one, of n places.
func (m *merger) join(v *vocabulary, at, n int32) {
	gone := m.after[at]
	next := m.after[gone]
	m.tokens[at] = m.found[at].token
	m.found[gone].rank = noRank
	m.after[at] = next
	m.found[at].rank = noRank
	if next < n {
		m.before[next] = at
		m.look(v, at, next)
	}
	if previous := m.before[at]; previous >= 0 {
		m.look(v, previous, at)
	}
}

// look finds the merge of two neighbours.
func (m *merger) look(v *vocabulary, left, right int32) {
	m.found[left] = v.merge(m.tokens[left], m.tokens[right])
	if rank := m.found[left].rank; rank != noRank {
		m.heap = append(m.heap, uint64(rank)<<32|uint64(left))
		m.up(len(m.heap) - 1)
	}
}

func (m *merger) up(i int) {
	h := m.heap
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent] <= h[i] {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (m *merger) down(i int) {
	h := m.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

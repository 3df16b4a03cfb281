package sampler

import (
	"errors"
	"fmt"
	"sort"
)

// blocks are what an Order of Blocks was made of.
type blocks struct {
	firsts []int
	window int
	// sum is that of firsts.
	sum uint64
	// falls is the first block that begins before the one before it; 0: none does.
	falls int
}

func (b *blocks) check(length int) error {
	switch n := len(b.firsts); {
	case b.window < 1:
		return fmt.Errorf("blocks: got a window of %d blocks, want at least 1", b.window)
	case n == 0 && length > 0:
		return errors.New("blocks: got no blocks, want their first examples")
	case n == 0:
		return nil
	case b.firsts[0] != 0:
		return fmt.Errorf("blocks: block 0 begins with example %d, want 0", b.firsts[0])
	case b.falls > 0:
		return fmt.Errorf("blocks: block %d begins with example %d, want at least %d as the block before it", b.falls, b.firsts[b.falls], b.firsts[b.falls-1])
	case b.firsts[n-1] > length:
		return fmt.Errorf("blocks: block %d begins with example %d, want at most %d, the number of examples", n-1, b.firsts[n-1], length)
	}
	return nil
}

// blockPlaces are the places of an epoch that is read in blocks.
type blockPlaces struct {
	blocks *blocks
	key    uint64
	// order are the blocks as they are permuted, and starts the position at which each of them
	// starts, and the end of the last one.
	order  []int
	starts []int

	// The rest is of the window that was asked for last: its positions, the starts of its
	// blocks, the first of them in order, and how its examples are mixed.
	from, to int
	within   []int
	first    int
	mixed    permutation
}

func (b *blocks) places(length int, key uint64) *blockPlaces {
	p := &blockPlaces{blocks: b, key: key, order: make([]int, len(b.firsts)), starts: make([]int, len(b.firsts)+1)}
	mixed := makePermutation(len(b.firsts), key)
	for k := range p.order {
		block := mixed.at(k)
		end := length
		if block+1 < len(b.firsts) {
			end = b.firsts[block+1]
		}
		p.order[k] = block
		p.starts[k+1] = p.starts[k] + end - b.firsts[block]
	}
	return p
}

// at implements places.
func (p *blockPlaces) at(position int) int {
	if position < p.from || position >= p.to {
		p.enter(position)
	}
	position = p.from + p.mixed.at(position-p.from)
	k := blockOf(p.within, position)
	return p.blocks.firsts[p.order[p.first+k]] + position - p.within[k]
}

// enter makes the window of a position the current one.
func (p *blockPlaces) enter(position int) {
	number := blockOf(p.starts, position) / p.blocks.window
	p.first = number * p.blocks.window
	p.within = p.starts[p.first : min(p.first+p.blocks.window, len(p.order))+1]
	p.from, p.to = p.within[0], p.within[len(p.within)-1]
	p.mixed = makePermutation(p.to-p.from, mix(p.key, uint64(number)+1))
}

// blockOf returns the block that holds a position: the last one that starts there or before. Blocks
// without examples hold none.
func blockOf(starts []int, position int) int {
	return sort.Search(len(starts), func(k int) bool { return starts[k] > position }) - 1
}

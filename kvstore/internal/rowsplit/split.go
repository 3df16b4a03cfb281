// Package rowsplit sorts the rows of one call by the shard that holds each, sends each row once however
// often it is named, and brings what comes back to the rows that asked.
package rowsplit

import (
	"math/bits"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// A Split sorts the rows of one call by shard and, within a shard, in increasing order without
// duplicates. Its memory is reused by the next call.
type Split struct {
	Shards []Rows
	// rows are unique row numbers within their shards, shard after shard, and values are theirs.
	rows   []int64
	values []float32
	// For a pull: place has, for each of the caller's rows, its index in rows.
	place []int64
	// For a push: first has, for each of rows, the index of the caller's first row with that
	// number. The caller's row again[i] is a duplicate of row twice[i].
	first        []int64
	twice, again []int64

	order sorting
}

// Rows are one shard's rows of a call.
type Rows struct {
	// Rows are a part of the split's, and Values theirs.
	Rows   []int64
	Values []float32
	// Code is memory for their numbers and their values, where these are not sent as they lie.
	Code [2]buffer.Aligned
	// first is the index of the first one in the split's rows.
	first int
}

// Divide splits rows over the n shards of a spread, for a pull or a push.
func (s *Split) Divide(spread *shard.Spread, n int, rows []int64, push bool) {
	if s.Shards == nil {
		s.Shards = make([]Rows, n)
	}
	s.order.sort(spread, n, rows)
	s.rows, s.first, s.twice, s.again = s.rows[:0], s.first[:0], s.twice[:0], s.again[:0]
	if !push {
		buffer.Grow(&s.place, len(rows))
	}
	last, i := sortedRow{shard: -1}, 0
	for r, at := range s.order.each {
		fresh := r != last
		if fresh {
			for ; i <= r.shard; i++ {
				s.Shards[i].first = len(s.rows)
			}
			s.rows = append(s.rows, r.row)
			last = r
		}
		switch {
		case !push:
			s.place[at] = int64(len(s.rows) - 1)
		case fresh:
			s.first = append(s.first, int64(at))
		default:
			s.twice, s.again = append(s.twice, int64(len(s.rows)-1)), append(s.again, int64(at))
		}
	}
	for ; i < n; i++ {
		s.Shards[i].first = len(s.rows)
	}
	for i := range s.Shards {
		x, to := &s.Shards[i], len(s.rows)
		if i+1 < n {
			to = s.Shards[i+1].first
		}
		x.Rows = s.rows[x.first:to:to]
	}
}

// MakeValues allocates the values of all unique rows.
func (s *Split) MakeValues(rowLen int) {
	values := buffer.Grow(&s.values, len(s.rows)*rowLen)
	for i := range s.Shards {
		x := &s.Shards[i]
		from, to := x.first*rowLen, (x.first+len(x.Rows))*rowLen
		x.Values = values[from:to:to]
	}
}

// Add fills every shard's values from grad. Rows with the same number are added up, in the caller's
// order.
func (s *Split) Add(rowLen int, grad []float32) {
	s.MakeValues(rowLen)
	f32.GatherRows(s.values, grad, s.first, rowLen)
	f32.AddRows(s.values, s.twice, grad, s.again, rowLen)
}

// Scatter copies every shard's values to the rows of out that the caller named.
func (s *Split) Scatter(rowLen int, out []float32) {
	f32.GatherRows(out, s.values, s.place, rowLen)
}

// A sorting orders rows by shard, then by number (unsigned), then in the caller's order.
type sorting struct {
	// starts has the first of each shard's rows, when rows are numbered shard after shard. An
	// open vocabulary has none.
	starts []int64

	// Rows of a table are sorted as one number each: that row number, and in the low atBits the
	// index in the caller's rows.
	packed, sparePacked []uint64
	atBits              int

	// Rows of an open vocabulary are sorted by their 64-bit IDs.
	open, spareOpen []openPlace
	usesOpen        bool
}

// An openPlace is a row of an open vocabulary: its ID, its shard, and its index in the caller's
// rows.
type openPlace struct {
	id    uint64
	shard uint32
	at    uint32
}

// sort orders rows of n shards. Where a shard's row and the index fit one number it sorts
// numbers, of half the size. Rows that are in order already, as those of most lists that repeat,
// cost one pass.
func (s *sorting) sort(spread *shard.Spread, n int, rows []int64) {
	s.atBits = bits.Len(uint(len(rows)))
	if s.usesOpen = spread.Open() || bits.Len64(spread.Rows())+s.atBits > 64; s.usesOpen {
		s.sortOpen(spread, n, rows)
		return
	}
	if s.starts == nil {
		s.starts = make([]int64, n+1)
		for i := range n {
			s.starts[i+1] = s.starts[i] + int64(spread.Len(i))
		}
	}
	order := buffer.Grow(&s.packed, len(rows))
	all, sorted := uint64(0), true
	for i, r := range rows {
		to, row := spread.Of(r)
		p := uint64(s.starts[to]+row)<<s.atBits | uint64(i)
		order[i] = p
		all |= p ^ order[0]
		sorted = sorted && (i == 0 || order[i-1] < p)
	}
	switch {
	case sorted:
	case len(order) < smallSort:
		slices.Sort(order)
	default:
		spare := buffer.Grow(&s.sparePacked, len(order))
		for low := s.atBits; all>>low != 0; low += digit {
			if all>>low&(1<<digit-1) != 0 {
				sortPacked(spare, order, low)
				order, spare = spare, order
			}
		}
		s.packed, s.sparePacked = order, spare
	}
}

// sortOpen orders by ID and then, because a pass keeps the order of equal digits, by shard. The
// caller's order needs no pass: it is the one that the rows come in.
func (s *sorting) sortOpen(spread *shard.Spread, n int, rows []int64) {
	order := buffer.Grow(&s.open, len(rows))
	all, sorted := uint64(0), true
	for i, r := range rows {
		to, row := spread.Of(r)
		p := openPlace{uint64(row), uint32(to), uint32(i)}
		order[i] = p
		all |= p.id ^ order[0].id
		if sorted && i > 0 {
			last := &order[i-1]
			sorted = last.shard < p.shard || last.shard == p.shard && last.id <= p.id
		}
	}
	if sorted {
		return
	}
	spare := buffer.Grow(&s.spareOpen, len(order))
	for low := 0; all>>low != 0; low += digit {
		if all>>low&(1<<digit-1) != 0 {
			sortOpen(spare, order, low)
			order, spare = spare, order
		}
	}
	for low := 0; (n-1)>>low != 0; low += digit {
		sortShards(spare, order, low)
		order, spare = spare, order
	}
	s.open, s.spareOpen = order, spare
}

// A sortedRow is where a row is.
type sortedRow struct {
	shard int
	// row is the row's number within the shard.
	row int64
}

// each yields the rows in order, each with its index in the caller's rows.
func (s *sorting) each(yield func(r sortedRow, at int) bool) {
	if s.usesOpen {
		for i := range s.open {
			p := &s.open[i]
			if !yield(sortedRow{int(p.shard), int64(p.id)}, int(p.at)) {
				return
			}
		}
		return
	}
	shard, at := 0, uint64(1)<<s.atBits-1
	for _, p := range s.packed {
		row := int64(p >> s.atBits)
		for row >= s.starts[shard+1] {
			shard++
		}
		if !yield(sortedRow{shard, row - s.starts[shard]}, int(p&at)) {
			return
		}
	}
}

// smallSort is the number of rows below which a sort by comparison is faster than the counts of
// a pass.
const smallSort = 128

// digit is the number of bits that one pass of the radix sort sorts by: the counts of a pass fit
// the first-level cache. A pass is stable.
const digit = 10

// counts are, by digit, how many elements there are, and then where the next of them goes.
type counts [1 << digit]uint32

// begin turns counts into the index of each digit's first element.
func (c *counts) begin() {
	first := uint32(0)
	for i, n := range c {
		c[i] = first
		first += n
	}
}

// sortPacked moves from's elements into to, by the digit that begins at bit low.
func sortPacked(to, from []uint64, low int) {
	var ends counts
	for _, p := range from {
		ends[p>>(low&63)&(1<<digit-1)]++
	}
	ends.begin()
	for _, p := range from {
		d := p >> (low & 63) & (1<<digit - 1)
		to[ends[d]] = p
		ends[d]++
	}
}

// sortOpen is sortPacked for IDs.
func sortOpen(to, from []openPlace, low int) {
	var ends counts
	for i := range from {
		ends[from[i].id>>(low&63)&(1<<digit-1)]++
	}
	ends.begin()
	for i := range from {
		d := from[i].id >> (low & 63) & (1<<digit - 1)
		to[ends[d]] = from[i]
		ends[d]++
	}
}

// sortShards is sortPacked for the numbers of shards.
func sortShards(to, from []openPlace, low int) {
	var ends counts
	for i := range from {
		ends[from[i].shard>>(low&31)&(1<<digit-1)]++
	}
	ends.begin()
	for i := range from {
		d := from[i].shard >> (low & 31) & (1<<digit - 1)
		to[ends[d]] = from[i]
		ends[d]++
	}
}

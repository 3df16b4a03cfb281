package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/wire"
	"github.com/paragon-train/paragon/optim"
)

// An open is the rows of an open vocabulary: each is named by an ID, made when it is first pushed to, and found by a hash of
// its ID. A row keeps the number that it was made with. Rows lie in pages, each with its values, its state and its IDs, so that
// nothing is copied when there are more; only the index is made anew at each doubling.
type open struct {
	rowLen int
	limit  int // rows; 0: none but what the index can count
	init   Initializer
	key    uint64                  // hash of the key's name
	grow   func(bytes int64) error // asks for memory before it is taken; nil: it is there
	shift  int                     // a page has 1<<shift rows
	slots  []optim.Slot            // one value each: what a new row's state begins with
	index  []uint32                // by the low bits of Mix(ID), then onwards: 1 + row, or 0. At most three quarters are used
	rows   int
	pages  []*page
	found  []int64 // scratch
}

// A page is room for some rows.
type page struct {
	ids  []int64
	data [][]float32 // the value, then the slots
}

const (
	pageValues = 64 << 10 // about: 256 KB
	maxPage    = 12       // 4096 rows
	firstIndex = 1024
	mostRows   = min(1<<32-2, uint64(^uint(0)>>1)) // that an index can count
)

func newOpen(cfg *Config) *open {
	o := &open{rowLen: int(cfg.RowLen), init: cfg.Table.Initializer, key: hashOf(cfg.Name), grow: cfg.Grow}
	if most := cfg.Table.MaxRows; most > 0 {
		o.limit = int(min((most-1)/uint64(cfg.Shards)+1, mostRows))
	}
	for o.shift < maxPage && o.rowLen<<(o.shift+1) <= pageValues {
		o.shift++
	}
	return o
}

func (o *open) page(row int) (*page, int) { return o.pages[row>>o.shift], row & (1<<o.shift - 1) }

func (o *open) id(row int) int64 {
	p, i := o.page(row)
	return p.ids[i]
}

// Row is optim.Table's.
func (o *open) Row(row int64, slot int) []float32 {
	p, i := o.page(int(row))
	return p.data[1+slot][i*o.rowLen : (i+1)*o.rowLen : (i+1)*o.rowLen]
}

// find returns the row of an ID, or -1.
func (o *open) find(id int64) int64 {
	if len(o.index) == 0 {
		return -1
	}
	mask := uint64(len(o.index) - 1)
	for i := Mix(uint64(id)) & mask; ; i = (i + 1) & mask {
		k := o.index[i]
		if k == 0 {
			return -1
		}
		if row := int(k - 1); o.id(row) == id {
			return int64(row)
		}
	}
}

// pull copies rows, those that were not made as they would be.
func (o *open) pull(ids []int64, out []float32) {
	for i, id := range ids {
		to := out[i*o.rowLen : (i+1)*o.rowLen]
		if row := o.find(id); row >= 0 {
			copy(to, o.Row(row, -1))
		} else {
			o.init.fill(o.key, id, to)
		}
	}
}

// take puts the rows of IDs, which come once each, in the place of the IDs, and makes those that are new. On an error nothing
// has changed.
func (o *open) take(ids []int64) error {
	if cap(o.found) < len(ids) {
		o.found = make([]int64, len(ids))
	}
	found := o.found[:len(ids)]
	fresh := 0
	for i, id := range ids {
		found[i] = o.find(id)
		if found[i] < 0 {
			fresh++
		}
	}
	if fresh > 0 {
		if err := o.reserve(fresh); err != nil {
			return err
		}
		for i, row := range found {
			if row < 0 {
				found[i] = o.add(ids[i])
			}
		}
	}
	copy(ids, found)
	return nil
}

// reserve makes room for more rows, or returns an error and changes nothing.
func (o *open) reserve(fresh int) error {
	total := o.rows + fresh
	if o.limit > 0 && total > o.limit || total > int(mostRows) {
		most := o.limit
		if most == 0 {
			most = int(mostRows)
		}
		return &Error{Code: wire.CodeFull, Text: fmt.Sprintf("got %d new rows with the %d that are here, want at most %d together, this shard's share", fresh, o.rows, most)}
	}
	size := max(len(o.index), firstIndex)
	for total > size/4*3 {
		size *= 2
	}
	pages := (total + 1<<o.shift - 1) >> o.shift
	bytes := int64(pages-len(o.pages)) * o.pageBytes()
	if size > len(o.index) {
		bytes += 4 * int64(size-len(o.index))
	}
	if bytes > 0 && o.grow != nil {
		if err := o.grow(bytes); err != nil {
			return &Error{Code: wire.CodeFull, Text: fmt.Sprintf("got %d new rows with the %d that are here: %v", fresh, o.rows, err)}
		}
	}
	for len(o.pages) < pages {
		p := &page{ids: make([]int64, 1<<o.shift)}
		for range 1 + len(o.slots) {
			p.data = append(p.data, make([]float32, o.rowLen<<o.shift))
		}
		o.pages = append(o.pages, p)
	}
	if size > len(o.index) {
		o.index = make([]uint32, size)
		for row := range o.rows {
			o.enter(row)
		}
	}
	return nil
}

// pageBytes is what grow is asked for a page: values and IDs, without state.
func (o *open) pageBytes() int64 { return int64(4*o.rowLen+8) << o.shift }

// enter puts a row into the index.
func (o *open) enter(row int) {
	mask := uint64(len(o.index) - 1)
	i := Mix(uint64(o.id(row))) & mask
	for o.index[i] != 0 {
		i = (i + 1) & mask
	}
	o.index[i] = uint32(row + 1)
}

// add makes a row, for which there is room.
func (o *open) add(id int64) int64 {
	row := o.rows
	o.rows++
	p, i := o.page(row)
	p.ids[i] = id
	o.enter(row)
	o.init.fill(o.key, id, o.Row(int64(row), -1))
	for k := range o.slots {
		o.begin(k, o.Row(int64(row), k))
	}
	return int64(row)
}

// begin sets a row's state in a slot to what it begins with.
func (o *open) begin(slot int, values []float32) {
	if first := o.slots[slot].Values[0]; first != 0 {
		for j := range values {
			values[j] = first
		}
	}
}

// setSlots gives all rows a new state.
func (o *open) setSlots(slots []optim.Slot) {
	o.slots = slots
	for n, p := range o.pages {
		p.data = p.data[:1:1]
		used := min(o.rows-n<<o.shift, 1<<o.shift)
		for k := range slots {
			values := make([]float32, o.rowLen<<o.shift)
			o.begin(k, values[:used*o.rowLen])
			p.data = append(p.data, values)
		}
	}
}

// forget drops all rows.
func (o *open) forget() {
	if o.grow != nil {
		_ = o.grow(-int64(len(o.pages))*o.pageBytes() - 4*int64(len(o.index)))
	}
	o.rows, o.pages, o.index = 0, nil, nil
}

// checkOpen looks at a contribution to a shard of an open vocabulary. Its IDs rise strictly, as numbers without sign.
func (s *Shard) checkOpen(c *Contribution) error {
	if c.Codec != wire.CodecFloat32 {
		return s.refuse(wire.CodeUnsupported, "push rows: got codec %d, want float32", c.Codec)
	}
	if c.Rows < 0 || c.Rows > wire.MaxPayload/8 || c.Rows > 0 && c.Data == nil {
		return s.refuse(wire.CodeSize, "push rows: got %d rows, want at most %d, with their values", c.Rows, wire.MaxPayload/8)
	}
	if c.Rows == 0 {
		return nil
	}
	ids := c.Data.Int64s(c.Rows)
	if i := notRising(ids); i > 0 {
		return s.refuse(wire.CodeMalformed, "push rows: rows[%d]: got ID %d after %d, want increasing IDs, compared as unsigned numbers", i, uint64(ids[i]), uint64(ids[i-1]))
	}
	return nil
}

// notRising returns the first index of an ID that does not rise, or 0.
func notRising(ids []int64) int {
	for i := 1; i < len(ids); i++ {
		if uint64(ids[i]) <= uint64(ids[i-1]) {
			return i
		}
	}
	return 0
}

// takeRows makes a contribution that is about to be held one of row numbers. A new row has its first value, so that nobody can
// tell when it was made.
func (s *Shard) takeRows(c *Contribution) error {
	if s.vocabulary == nil || c.Rows == 0 {
		return nil
	}
	if err := s.vocabulary.take(c.Data.Int64s(c.Rows)); err != nil {
		return s.full("push rows", err)
	}
	return nil
}

// full puts the shard's name before an error of the vocabulary.
func (s *Shard) full(verb string, err error) error {
	if e, ok := err.(*Error); ok {
		return s.refuse(e.Code, "%s: %s", verb, e.Text)
	}
	return err
}

package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A vocabulary holds the rows of an open vocabulary. A row is named by an ID, made by the first
// push to it, and found by a hash of its ID. Rows are numbered as they are made. They are stored in
// pages, each with values, optimizer state and IDs, so that growth copies nothing but the index,
// which is rebuilt at each doubling.
type vocabulary struct {
	rowLen int
	// limit is the most rows; 0: as many as the index can count.
	limit int
	init  Initializer
	// key is the hash of the key's name.
	key uint64
	// grow asks for memory before it is allocated. Nil: there is no limit.
	grow func(bytes int64) error
	// shift: a page has 1<<shift rows.
	shift int
	// slots have one value each: the first value of a new row's state.
	slots []optim.Slot
	// index is a hash table with linear probing by the low bits of Mix(ID), at most three
	// quarters full. It holds 1 + row, or 0.
	index []uint32
	rows  int
	pages []*rowPage
	// found is scratch.
	found []int64
}

// A rowPage holds 1<<shift rows.
type rowPage struct {
	ids []int64
	// data has the values, then one array for each slot.
	data [][]float32
}

// A page has about pageValues values, 256 KB, so that small tables stay small and large ones have
// few pages. It has at most 1<<maxPage rows.
const (
	pageValues = 64 << 10
	maxPage    = 12
	firstIndex = 1024
)

// mostRows is how many rows an index can count.
const mostRows = min(1<<32-2, uint64(^uint(0)>>1))

func newVocabulary(cfg *Config) *vocabulary {
	o := &vocabulary{rowLen: int(cfg.RowLen), init: cfg.TableOf().Initializer, key: hashOf(cfg.Name), grow: cfg.Grow}
	if most := cfg.TableOf().MaxRows; most > 0 {
		o.limit = int(min((most-1)/uint64(cfg.Shards)+1, mostRows))
	}
	for o.shift < maxPage && o.rowLen<<(o.shift+1) <= pageValues {
		o.shift++
	}
	return o
}

func (o *vocabulary) page(row int) (*rowPage, int) {
	return o.pages[row>>o.shift], row & (1<<o.shift - 1)
}

func (o *vocabulary) id(row int) int64 {
	p, i := o.page(row)
	return p.ids[i]
}

// Row implements optim.Table.
func (o *vocabulary) Row(row int64, slot int) []float32 {
	p, i := o.page(int(row))
	return p.data[1+slot][i*o.rowLen : (i+1)*o.rowLen : (i+1)*o.rowLen]
}

// find returns the row of an ID, or -1.
func (o *vocabulary) find(id int64) int64 {
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

// pull copies rows. A row that does not exist yet is copied with its first values, and is not made:
// a job that only reads, or asks for IDs that no example has, takes no memory.
func (o *vocabulary) pull(ids []int64, out []float32) {
	for i, id := range ids {
		to := out[i*o.rowLen : (i+1)*o.rowLen]
		if row := o.find(id); row >= 0 {
			copy(to, o.Row(row, -1))
		} else {
			o.init.fill(o.key, id, to)
		}
	}
}

// rowsOf replaces IDs, which are unique, by row numbers, and makes new rows. On an error nothing
// has changed: all IDs are looked up, and memory is reserved for all new rows, before the first one
// is made.
func (o *vocabulary) rowsOf(ids []int64) error {
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

// reserve allocates room for more rows, or returns an error and changes nothing.
func (o *vocabulary) reserve(fresh int) error {
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
		p := &rowPage{ids: make([]int64, 1<<o.shift)}
		for range 1 + len(o.slots) {
			p.data = append(p.data, make([]float32, o.rowLen<<o.shift))
		}
		o.pages = append(o.pages, p)
	}
	if size > len(o.index) {
		o.index = make([]uint32, size)
		for row := range o.rows {
			o.addToIndex(row)
		}
	}
	return nil
}

// pageBytes is the size of a page that grow is asked for: values and IDs, without optimizer state.
func (o *vocabulary) pageBytes() int64 { return int64(4*o.rowLen+8) << o.shift }

// addToIndex puts a row into the index.
func (o *vocabulary) addToIndex(row int) {
	mask := uint64(len(o.index) - 1)
	i := Mix(uint64(o.id(row))) & mask
	for o.index[i] != 0 {
		i = (i + 1) & mask
	}
	o.index[i] = uint32(row + 1)
}

// add makes a row. There must be room for it. Row numbers are never used again, because slots of
// open rounds name rows by them.
func (o *vocabulary) add(id int64) int64 {
	row := o.rows
	o.rows++
	p, i := o.page(row)
	p.ids[i] = id
	o.addToIndex(row)
	o.init.fill(o.key, id, o.Row(int64(row), -1))
	for k := range o.slots {
		o.resetSlot(k, o.Row(int64(row), k))
	}
	return int64(row)
}

// resetSlot sets a row's state in a slot to its first value.
func (o *vocabulary) resetSlot(slot int, values []float32) {
	if first := o.slots[slot].Values[0]; first != 0 {
		for j := range values {
			values[j] = first
		}
	}
}

// setSlots gives all rows the state of a new optimizer. Pages keep their values and IDs; only the
// arrays of state are made anew.
func (o *vocabulary) setSlots(slots []optim.Slot) {
	o.slots = slots
	for n, p := range o.pages {
		p.data = p.data[:1:1]
		used := min(o.rows-n<<o.shift, 1<<o.shift)
		for k := range slots {
			values := make([]float32, o.rowLen<<o.shift)
			o.resetSlot(k, values[:used*o.rowLen])
			p.data = append(p.data, values)
		}
	}
}

// clear drops all rows.
func (o *vocabulary) clear() {
	if o.grow != nil {
		_ = o.grow(-int64(len(o.pages))*o.pageBytes() - 4*int64(len(o.index)))
	}
	o.rows, o.pages, o.index = 0, nil, nil
}

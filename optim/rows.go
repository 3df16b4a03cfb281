package optim

import (
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// blockValues is how many values of some rows are updated at once: with their state they stay in
// the first-level cache.
const blockValues = 1024

// A block is room for the values and the state of some rows, side by side. The rules' loops are
// made for long arrays; most tables have short rows.
type block struct {
	value [blockValues]float32
	slots [3][blockValues]float32
	state State

	// row is the state of one row, where it lies.
	row State
}

// blocks are those that no update uses at the moment.
var blocks struct {
	sync.Mutex
	free []*block
}

func takeBlock() *block {
	blocks.Lock()
	defer blocks.Unlock()
	if n := len(blocks.free); n > 0 {
		b := blocks.free[n-1]
		blocks.free = blocks.free[:n-1]
		return b
	}
	b := &block{}
	for i := range b.slots {
		b.state.Slots = append(b.state.Slots, Slot{Values: b.slots[i][:]})
		b.row.Slots = append(b.row.Slots, Slot{})
	}
	return b
}

func (b *block) release() {
	// The slots view somebody's table.
	clear(b.row.Slots)
	blocks.Lock()
	defer blocks.Unlock()
	blocks.free = append(blocks.free, b)
}

// applyRows runs the rule on rows of a table, one block of them after the other.
func (p Pass) applyRows(rows []int64, rowLen int, value, grad []float32, state *State) {
	each := blockValues / rowLen
	var b *block
	for len(rows) > 0 {
		part := rows[:min(len(rows), max(each, 1))]
		rows = rows[len(part):]
		n := len(part) * rowLen
		// Rows are long, or one may come twice.
		if each < 4 || !rising(part) {
			for i, r := range part {
				from := int(r) * rowLen
				p.apply(value[from:from+rowLen], grad[i*rowLen:(i+1)*rowLen], state, from, from+rowLen)
			}
			grad = grad[n:]
			continue
		}
		if b == nil {
			b = takeBlock()
		}
		f32.GatherRows(b.value[:n], value, part, rowLen)
		for k := range p.o.slots {
			f32.GatherRows(b.slots[k][:n], state.Slots[k].Values, part, rowLen)
		}
		p.apply(b.value[:n], grad[:n], &b.state, 0, n)
		f32.ScatterRows(value, b.value[:n], part, rowLen)
		for k := range p.o.slots {
			f32.ScatterRows(state.Slots[k].Values, b.slots[k][:n], part, rowLen)
		}
		grad = grad[n:]
	}
	if b != nil {
		b.release()
	}
}

// A Table is a table of rows that lie anywhere.
type Table interface {
	// Row returns a row of the value where slot is -1, else of that slot of the state.
	Row(row int64, slot int) []float32
}

// UpdateTable is UpdateRows of a Table, with its state. No row may be named twice. The slots are
// those of SlotNames.
func (p Pass) UpdateTable(rows []int64, rowLen int, table Table, grad []float32) error {
	if rowLen <= 0 || len(grad)%rowLen != 0 || len(grad)/rowLen != len(rows) {
		return fmt.Errorf("optim: %s: update table: got %d gradients for %d rows of %d", p.o.cfg.Name, len(grad), len(rows), rowLen)
	}
	if err := p.checkClip(); err != nil {
		return err
	}
	b := takeBlock()
	defer b.release()
	if !p.shrinkKnown {
		p = p.WithGradientSquares(p.GradientSquares(grad))
	}
	if !p.trustKnown {
		var n Norms
		for i, r := range rows {
			n = n.Add(p.norms(table.Row(r, -1), grad[i*rowLen:(i+1)*rowLen], b.rowState(p.o, table, r), 0, rowLen))
		}
		p = p.WithNorms(n)
	}
	each := blockValues / rowLen
	for len(rows) > 0 {
		part := rows[:min(len(rows), max(each, 1))]
		rows = rows[len(part):]
		n := len(part) * rowLen
		if each < 4 {
			for i, r := range part {
				p.apply(table.Row(r, -1), grad[i*rowLen:(i+1)*rowLen], b.rowState(p.o, table, r), 0, rowLen)
			}
			grad = grad[n:]
			continue
		}
		for i, r := range part {
			copy(b.value[i*rowLen:], table.Row(r, -1))
			for k := range p.o.slots {
				copy(b.slots[k][i*rowLen:], table.Row(r, k))
			}
		}
		p.apply(b.value[:n], grad[:n], &b.state, 0, n)
		for i, r := range part {
			copy(table.Row(r, -1), b.value[i*rowLen:])
			for k := range p.o.slots {
				copy(table.Row(r, k), b.slots[k][i*rowLen:])
			}
		}
		grad = grad[n:]
	}
	return nil
}

// rowState views one row of a table's state.
func (b *block) rowState(o *Optimizer, table Table, row int64) *State {
	for k := range o.slots {
		b.row.Slots[k].Values = table.Row(row, k)
	}
	return &b.row
}

func rising(rows []int64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i-1] >= rows[i] {
			return false
		}
	}
	return true
}

package optim

import (
	"sync"

	"github.com/paragon-train/paragon/internal/f32"
)

// blockValues is how many values of some rows are updated at once: with their state they stay in the first-level cache.
const blockValues = 1024

// A block is room for the values and the state of some rows, side by side. The rules' loops are made for long arrays; most
// tables have short rows.
type block struct {
	value [blockValues]float32
	slots [3][blockValues]float32
	state State
}

var blocks = sync.Pool{New: func() any {
	b := &block{}
	for i := range b.slots {
		b.state.Slots = append(b.state.Slots, Slot{Values: b.slots[i][:]})
	}
	return b
}}

// applyRows runs the rule on rows of a table, one block of them after the other.
func (p Pass) applyRows(rows []int64, rowLen int, value, grad []float32, state *State) {
	each := blockValues / rowLen
	var b *block
	for len(rows) > 0 {
		part := rows[:min(len(rows), max(each, 1))]
		rows = rows[len(part):]
		n := len(part) * rowLen
		if each < 4 || !rising(part) { // long rows, or one may come twice
			for i, r := range part {
				from := int(r) * rowLen
				p.apply(value[from:from+rowLen], grad[i*rowLen:(i+1)*rowLen], state, from, from+rowLen)
			}
			grad = grad[n:]
			continue
		}
		if b == nil {
			b = blocks.Get().(*block)
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
		blocks.Put(b)
	}
}

func rising(rows []int64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i-1] >= rows[i] {
			return false
		}
	}
	return true
}

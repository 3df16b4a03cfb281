package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// Memory says what a plan needs, in bytes.
type Memory struct {
	// Arena is the bytes of temporaries and scratch, placed over each other.
	Arena int64

	// Unplaced is what the arena would be if nothing shared memory.
	Unplaced int64

	// Live is the most that is alive at once: no arena can be smaller.
	Live int64

	Inputs     int64
	Parameters int64
	Gradients  int64
	Outputs    int64

	// Copies and Workspace are what a device with memory of its own takes besides: parameters
	// and statistics in the types that its kernels read, and memory that libraries use within
	// an operation. Host is what it keeps in the host's memory for copies.
	Copies    int64
	Workspace int64
	Host      int64
}

// Total is all of it but Host.
func (m Memory) Total() int64 {
	return m.Arena + m.Inputs + m.Parameters + m.Gradients + m.Outputs + m.Copies + m.Workspace
}

func (m Memory) String() string {
	mb := func(n int64) float64 { return float64(n) / 1e6 }
	s := fmt.Sprintf("%.1f MB: arena %.1f (%.1f without sharing), inputs %.1f, parameters %.1f, gradients %.1f, outputs %.1f",
		mb(m.Total()), mb(m.Arena), mb(m.Unplaced), mb(m.Inputs), mb(m.Parameters), mb(m.Gradients), mb(m.Outputs))
	if m.Copies+m.Workspace > 0 {
		s += fmt.Sprintf(", copies %.1f, workspace %.1f; on the host %.1f", mb(m.Copies), mb(m.Workspace), mb(m.Host))
	}
	return s
}

// align is what offsets are multiples of: a cache line.
const align = 64

// An allocation is a piece of the arena and its lifetime, from op first to op last.
type allocation struct {
	size        int64
	first, last int
	offset      int64

	// values are none for the scratch of op.
	values []*Value

	op *Op
}

// Place gives every temporary value and every op's scratch an offset in one arena. Values that are
// never alive at the same time share memory. The result of an op that may overwrite its argument
// gets the argument's allocation, if that is the argument's last use.
func (p *Plan) Place() {
	allocations := p.allocations()
	live := make([]int64, len(p.Ops)+1)
	p.Memory = Memory{}
	for _, r := range allocations {
		p.Memory.Unplaced += max(r.size, int64(0))
		for _, v := range r.values[min(1, len(r.values)):] {
			p.Memory.Unplaced += v.Size()
		}
		for t := r.first; t <= r.last; t++ {
			live[t] += r.size
		}
	}
	p.Memory.Live = slices.Max(live)
	p.Memory.Arena = pack(allocations)
	for _, r := range allocations {
		for _, v := range r.values {
			v.Offset = r.offset
		}
		if r.op != nil {
			r.op.ScratchOffset = r.offset
		}
	}
	p.countPersistent()
}

// allocations finds when each temporary is alive, and joins those that may be written over their
// argument.
func (p *Plan) allocations() []*allocation {
	lastUse := make(map[*Value]int)
	for i, o := range p.Ops {
		for _, v := range o.In {
			if v != nil {
				lastUse[v.Root()] = i
			}
		}
	}
	byValue := make(map[*Value]*allocation)
	var allocations []*allocation
	for i, o := range p.Ops {
		for k, v := range o.Out {
			if v == nil || v.Source != Temporary || v.Boxed {
				continue
			}
			last := max(i, lastUse[v])
			if r := overwritten(o, i, k, byValue, lastUse); r != nil {
				r.values, r.last = append(r.values, v), last
				byValue[v] = r
				continue
			}
			r := &allocation{size: roundUp(v.Size()), first: i, last: last, values: []*Value{v}}
			allocations = append(allocations, r)
			byValue[v] = r
		}
		if o.Scratch > 0 {
			allocations = append(allocations, &allocation{size: roundUp(o.Scratch), first: i, last: i, op: o})
		}
	}
	return allocations
}

// overwritten is the room of an argument of o, op i, that its result k may be written over.
func overwritten(o *Op, i, k int, byValue map[*Value]*allocation, lastUse map[*Value]int) *allocation {
	allowed := o.mayWriteOver(k)
	for _, a := range allowed {
		if a >= len(o.In) || o.In[a] == nil {
			continue
		}
		arg := o.In[a].Root()
		if readOtherwise(o, arg, allowed) {
			continue
		}
		r := byValue[arg]
		if r == nil || lastUse[arg] != i || r.last != i || arg.Size() != o.Out[k].Size() {
			continue
		}
		return r
	}
	return nil
}

// readOtherwise is true if arg is also an argument of o that must not be written over.
func readOtherwise(o *Op, arg *Value, allowed []int) bool {
	for i, v := range o.In {
		if v != nil && v.Root() == arg && !slices.Contains(allowed, i) {
			return true
		}
	}
	return false
}

func roundUp(n int64) int64 { return (n + align - 1) / align * align }

// pack places allocations, largest first, each at the lowest offset where it meets no other room
// alive with it, and returns the end.
func pack(allocations []*allocation) int64 {
	order := slices.Clone(allocations)
	slices.SortStableFunc(order, func(a, b *allocation) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})

	// placed is by offset.
	var placed []*allocation
	var end int64
	for _, r := range order {
		var at int64
		for _, q := range placed {
			if q.last < r.first || r.last < q.first {
				continue
			}
			if q.offset >= at+r.size {
				break
			}
			at = max(at, q.offset+q.size)
		}
		r.offset = at
		end = max(end, at+r.size)
		i, _ := slices.BinarySearchFunc(placed, r, func(a, b *allocation) int { return cmp.Compare(a.offset, b.offset) })
		placed = slices.Insert(placed, i, r)
	}
	return end
}

func (p *Plan) countPersistent() {
	seen := make(map[*Value]bool)
	add := func(to *int64, v *Value) {
		if v != nil && !seen[v.Root()] {
			seen[v.Root()] = true
			*to += v.Root().Size()
		}
	}
	for _, v := range p.Inputs {
		add(&p.Memory.Inputs, v)
	}
	for _, v := range p.Params {
		add(&p.Memory.Parameters, v)
	}
	for _, v := range p.Grads {
		add(&p.Memory.Gradients, v)
	}
	add(&p.Memory.Outputs, p.Loss)
	for _, v := range p.Outputs {
		add(&p.Memory.Outputs, v)
	}
}

package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A pieceCopies has the kernels that copy pieces of an axis: into a tensor that is made of them, and
// out of one.
type pieceCopies struct {
	mem     *memory
	threads threads
}

func (p *pieceCopies) builders() builders {
	return builders{plan.Join: p.join, plan.Slice: p.slice}
}

// A cut is a piece of an axis of a tensor: in each of the rows that the axes before it make, run
// numbers from the offset from on.
type cut struct{ stride, from, run int }

// cutOf is the piece of size indices from lo on along an axis of a tensor of this shape.
func cutOf(shape tensor.Shape, axis, lo, size int) cut {
	inner := 1
	for _, n := range shape[axis+1:] {
		inner *= n
	}
	return cut{stride: shape[axis] * inner, from: lo * inner, run: size * inner}
}

// in is the piece in row i of the whole tensor.
func (c cut) in(whole []float32, i int) []float32 {
	return whole[i*c.stride+c.from:][:c.run]
}

// join puts the arguments where they belong, and zeros where none is.
func (p *pieceCopies) join(o *plan.Op) (kernel, error) {
	shape := o.Out[0].Shape
	cuts := make([]cut, len(o.In))
	covered := make([]bool, shape[o.Axis])
	for k, v := range o.In {
		lo, size := o.At[k], v.Shape[o.Axis]
		cuts[k] = cutOf(shape, o.Axis, lo, size)
		for i := range size {
			covered[lo+i] = true
		}
	}
	var gaps []cut
	for lo := 0; lo < len(covered); lo++ {
		if covered[lo] {
			continue
		}
		size := 1
		for lo+size < len(covered) && !covered[lo+size] {
			size++
		}
		gaps = append(gaps, cutOf(shape, o.Axis, lo, size))
		lo += size
	}
	return kernel{bind: func() func() error {
		y, pieces := p.mem.floats(o.Out[0]), make([][]float32, len(o.In))
		for k, v := range o.In {
			pieces[k] = p.mem.floats(v)
		}
		return then(p.threads.split(len(y)/cuts[0].stride, rowGrain(cuts[0].stride), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				for k, c := range cuts {
					copy(c.in(y, i), rowAt(pieces[k], i, c.run))
				}
				for _, c := range gaps {
					clear(c.in(y, i))
				}
			}
		}))
	}}, nil
}

// slice copies one piece out.
func (p *pieceCopies) slice(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Slice)
	c := cutOf(o.In[0].Shape, a.Axis, a.Lo, a.Hi-a.Lo)
	return kernel{bind: func() func() error {
		y, x := p.mem.floats(o.Out[0]), p.mem.floats(o.In[0])
		return then(p.threads.split(len(x)/c.stride, rowGrain(c.run), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(rowAt(y, i, c.run), c.in(x, i))
			}
		}))
	}}, nil
}

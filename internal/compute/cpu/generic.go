package cpu

import (
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A generic has the kernel of ops that are gorgonia's.
type generic struct{ mem *memory }

func (g *generic) builders() builders { return builders{plan.Generic: g.op} }

// op runs a gorgonia op by its Do, on fresh headers over our memory, since some ops reshape
// their arguments for a while.
func (g *generic) op(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		args := make([]func() gorgonia.Value, len(o.In))
		for i, v := range o.In {
			args[i] = g.value(v)
		}
		store := g.store(o.Out[0])
		values := make([]gorgonia.Value, len(args))
		return func() error {
			for i, arg := range args {
				values[i] = arg()
			}
			result, err := o.Attr.Do(values...)
			if err != nil {
				return fmt.Errorf("do %v: %w", o.Attr, err)
			}
			return store(result)
		}
	}}, nil
}

// value returns a function that gives v as gorgonia knows it.
func (g *generic) value(v *plan.Value) func() gorgonia.Value {
	if v.Boxed {
		b, shape := g.mem.box(v), v.Shape
		return func() gorgonia.Value { return reshaped(*b, shape) }
	}
	m, shape := g.mem.floats(v), v.Shape
	if len(shape) == 0 {
		scalar := (*gorgonia.F32)(unsafe.Pointer(&m[0]))
		return func() gorgonia.Value { return scalar }
	}
	return func() gorgonia.Value { return tensor.New(tensor.WithShape(shape.Clone()...), tensor.WithBacking(m)) }
}

// reshaped is b in the shape of an alias; b itself where it has that shape already.
func reshaped(b gorgonia.Value, shape tensor.Shape) gorgonia.Value {
	d, ok := b.(*tensor.Dense)
	if !ok || d.Shape().Eq(shape) || d.Shape().TotalSize() != shape.TotalSize() {
		return b
	}
	c := d.ShallowClone()
	if err := c.Reshape(shape...); err != nil {
		return b
	}
	return c
}

// store returns a function that keeps the result of a Do.
func (g *generic) store(v *plan.Value) func(gorgonia.Value) error {
	if v.Boxed {
		b := g.mem.box(v)
		return func(x gorgonia.Value) error { *b = x; return nil }
	}
	m := g.mem.floats(v)
	return func(x gorgonia.Value) error { return copyNumbers(m, x) }
}

// copyNumbers copies the numbers of x to m in row-major order.
func copyNumbers(m []float32, x gorgonia.Value) error {
	if d, ok := x.(*tensor.Dense); ok && !d.IsScalar() {
		if d.RequiresIterator() || d.DataOrder().IsColMajor() || d.IsMaterializable() {
			x = d.Materialize().(*tensor.Dense)
		}
	}
	var d []float32
	switch data := x.Data().(type) {
	case []float32:
		d = data
	case float32:
		m[0] = data
		d = m[:1]
	default:
		return fmt.Errorf("result is %v, want float32", x.Dtype())
	}
	if len(d) != len(m) {
		return fmt.Errorf("result has %d values, want %d", len(d), len(m))
	}
	copy(m, d)
	return nil
}

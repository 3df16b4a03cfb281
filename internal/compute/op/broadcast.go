package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Broadcast is a + b, or with Mul a·b, of tensors whose shapes differ, by numpy's rule: shapes are
// aligned at their last axes, and an axis of size 1, or that is not there, is repeated.
//
// Arguments: a of shape A, b of shape B. Result: y of their common shape. Gradients: dy, or dy times
// the other argument, summed over what was repeated (SumTo).
type Broadcast struct {
	traits
	Mul  bool
	A, B tensor.Shape
}

func (o *Broadcast) Arity() int { return 2 }
func (o *Broadcast) Type() hm.Type {
	return fn(len(o.A), len(o.B), max(len(o.A), len(o.B)))
}
func (o *Broadcast) String() string {
	name := "Add"
	if o.Mul {
		name = "Mul"
	}
	return fmt.Sprintf("Broadcast%s{%v %v}", name, o.A, o.B)
}
func (o *Broadcast) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Broadcast) Hashcode() uint32      { return hashcode(o) }
func (o *Broadcast) DiffWRT(int) []bool    { return []bool{true, true} }

// CommonShape is the shape of a and b under numpy's rule of broadcasting; ok is false if there is
// none.
func CommonShape(a, b tensor.Shape) (shape tensor.Shape, ok bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := a.Clone()
	for i, n := range b {
		m := &out[len(a)-len(b)+i]
		switch {
		case *m == 1:
			*m = n
		case n != 1 && n != *m:
			return nil, false
		}
	}
	return out, true
}

func (o *Broadcast) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, len(o.A), len(o.B))
	if err != nil {
		return nil, err
	}
	out, ok := CommonShape(o.A, o.B)
	if !ok || !s[0].Eq(o.A) || !s[1].Eq(o.B) {
		return nil, fmt.Errorf("op: %v: arguments are %v, want sizes that are equal or 1, from the last axis on", o, s)
	}
	return out, nil
}

func (o *Broadcast) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, broadcast[float32], broadcast[float64])
}

func broadcast[T float](o *Broadcast, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	a, b := numbers[T](in[0]), numbers[T](in[1])
	for i := range y {
		p, q := a[smallIndex(i, shape, o.A)], b[smallIndex(i, shape, o.B)]
		if o.Mul {
			y[i] = p * q
		} else {
			y[i] = p + q
		}
	}
	return out, nil
}

// smallIndex is the index in a tensor of shape small of what is repeated to element i of shape.
func smallIndex(i int, shape, small tensor.Shape) int {
	at, stride := 0, 1
	for d := len(shape) - 1; d >= len(shape)-len(small); d-- {
		n := small[d-len(shape)+len(small)]
		if n > 1 {
			at += i % shape[d] * stride
		}
		stride *= n
		i /= shape[d]
	}
	return at
}

func (o *Broadcast) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	grads := make(gorgonia.Nodes, 2)
	for i, n := range in {
		d := grad
		if o.Mul {
			other := in[1-i]
			var err error
			if d, err = Apply(&Broadcast{Mul: true, A: out.Shape().Clone(), B: other.Shape().Clone()}, grad, other); err != nil {
				return nil, err
			}
		}
		if !n.Shape().Eq(out.Shape()) {
			var err error
			if d, err = Apply(&SumTo{From: out.Shape().Clone(), To: n.Shape().Clone()}, d); err != nil {
				return nil, err
			}
		}
		grads[i] = d
	}
	return grads, nil
}

// SumTo sums what Broadcast repeats: over the axes that To does not have, or has with size 1.
//
// Arguments: x of shape From. Result: y of shape To.
type SumTo struct {
	gradient
	From, To tensor.Shape
}

func (o *SumTo) Arity() int            { return 1 }
func (o *SumTo) Type() hm.Type         { return fn(len(o.From), len(o.To)) }
func (o *SumTo) String() string        { return fmt.Sprintf("SumTo{%v to %v}", o.From, o.To) }
func (o *SumTo) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SumTo) Hashcode() uint32      { return hashcode(o) }

func (o *SumTo) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, len(o.From))
	if err != nil {
		return nil, err
	}
	if common, ok := CommonShape(o.From, o.To); !ok || !common.Eq(o.From) || !s[0].Eq(o.From) {
		return nil, fmt.Errorf("op: %v: x is %v", o, s[0])
	}
	return o.To.Clone(), nil
}

func (o *SumTo) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, sumTo[float32], sumTo[float64])
}

func sumTo[T float](o *SumTo, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	for i, v := range numbers[T](in[0]) {
		y[smallIndex(i, o.From, o.To)] += v
	}
	return out, nil
}

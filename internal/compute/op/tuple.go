package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Tuple is the value of a node with several results. To gorgonia it looks like
// its first one.
type Tuple struct {
	Values []*tensor.Dense
}

func (t *Tuple) Shape() tensor.Shape { return t.Values[0].Shape() }
func (t *Tuple) Size() int           { return t.Values[0].Size() }
func (t *Tuple) Data() interface{}   { return t.Values[0].Data() }
func (t *Tuple) Dtype() tensor.Dtype { return t.Values[0].Dtype() }
func (t *Tuple) Uintptr() uintptr    { return t.Values[0].Uintptr() }
func (t *Tuple) MemSize() uintptr    { return t.Values[0].MemSize() }
func (t *Tuple) Type() hm.Type       { return gorgonia.TypeOf(t.Values[0]) }

// Format prints the shapes.
func (t *Tuple) Format(s fmt.State, _ rune) {
	fmt.Fprint(s, "Tuple(")
	for i, v := range t.Values {
		if i > 0 {
			fmt.Fprint(s, ", ")
		}
		fmt.Fprint(s, v.Shape())
	}
	fmt.Fprint(s, ")")
}

// Clone copies all results; gorgonia calls it when a graph is copied.
func (t *Tuple) Clone() (interface{}, error) {
	c := &Tuple{Values: make([]*tensor.Dense, len(t.Values))}
	for i, v := range t.Values {
		c.Values[i] = v.Clone().(*tensor.Dense)
	}
	return c, nil
}

// Take is result Index of a node whose value is a Tuple.
//
// Arguments: tuple. Result: its Index-th tensor, of shape Shape.
// Gradient: for Index 0 the gradient of the whole tuple node; no other result
// of a forward op is differentiable (batch mean and scale are not).
type Take struct {
	traits
	Index int
	Shape tensor.Shape
	From  int // dimensions of the tuple's first result
}

func (o *Take) Arity() int            { return 1 }
func (o *Take) Type() hm.Type         { return fn(o.From, o.Shape.Dims()) }
func (o *Take) String() string        { return fmt.Sprintf("Take{%d %v from %d}", o.Index, o.Shape, o.From) }
func (o *Take) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Take) Hashcode() uint32      { return hashcode(o) }

func (o *Take) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if _, err := argShapes(o, ds, o.From); err != nil {
		return nil, err
	}
	return o.Shape.Clone(), nil
}

// Do copies the result out, since gorgonia's own ops may write over it.
func (o *Take) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	t, ok := in[0].(*Tuple)
	if !ok {
		return nil, fmt.Errorf("op: do %v: argument is %T, want *op.Tuple", o, in[0])
	}
	if o.Index >= len(t.Values) || !t.Values[o.Index].Shape().Eq(o.Shape) {
		return nil, fmt.Errorf("op: do %v: the tuple is %v", o, t)
	}
	return t.Values[o.Index].Clone().(*tensor.Dense), nil
}

func (o *Take) DiffWRT(int) []bool { return []bool{o.Index == 0} }

func (o *Take) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Index != 0 {
		return nil, fmt.Errorf("op: differentiate %v: only result 0 has a gradient", o)
	}
	return gorgonia.Nodes{grad}, nil
}

// take applies Take to node n, which has a Tuple of the given shapes.
func take(n *gorgonia.Node, index int, shape tensor.Shape) (*gorgonia.Node, error) {
	return Apply(&Take{Index: index, Shape: shape.Clone(), From: n.Shape().Dims()}, n)
}

// takeEach picks the first len(like) results of n, each shaped like one of like.
func takeEach(n *gorgonia.Node, like gorgonia.Nodes) (gorgonia.Nodes, error) {
	out := make(gorgonia.Nodes, len(like))
	for i, l := range like {
		var err error
		if out[i], err = take(n, i, l.Shape()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

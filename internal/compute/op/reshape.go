package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Reshape gives the same numbers, in row-major order, another shape. Flatten is
// a Reshape to two dimensions. The numbers may be integers, such as labels.
//
// Arguments: x of shape From. Result: y of shape To. Gradient: dy reshaped back.
type Reshape struct {
	traits
	From, To tensor.Shape
}

func (o *Reshape) Arity() int            { return 1 }
func (o *Reshape) Type() hm.Type         { return fn(o.From.Dims(), o.To.Dims()) }
func (o *Reshape) String() string        { return fmt.Sprintf("Reshape{%v to %v}", o.From, o.To) }
func (o *Reshape) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Reshape) Hashcode() uint32      { return hashcode(o) }
func (o *Reshape) DiffWRT(int) []bool    { return []bool{true} }

func (o *Reshape) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.From.Dims())
	if err != nil {
		return nil, err
	}
	if !s[0].Eq(o.From) || o.From.TotalSize() != o.To.TotalSize() {
		return nil, fmt.Errorf("op: %v: x is %v", o, s[0])
	}
	return o.To.Clone(), nil
}

func (o *Reshape) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if d, ok := in[0].(*tensor.Dense); ok && d.Dtype() != tensor.Float32 && d.Dtype() != tensor.Float64 {
		return o.integers(d)
	}
	return run(o, 0, in, reshape[float32], reshape[float64])
}

// integers is Do for labels and ids.
func (o *Reshape) integers(x *tensor.Dense) (gorgonia.Value, error) {
	if _, err := o.InferShape(x.Shape()); err != nil {
		return nil, err
	}
	y := rowMajor(x).Clone().(*tensor.Dense)
	if err := y.Reshape(o.To...); err != nil {
		return nil, fmt.Errorf("op: do %v: %w", o, err)
	}
	return y, nil
}

func reshape[T float](_ *Reshape, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	copy(y, numbers[T](in[0]))
	return out, nil
}

func (o *Reshape) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&Reshape{From: o.To, To: o.From}, grad)
	return gorgonia.Nodes{dx}, err
}

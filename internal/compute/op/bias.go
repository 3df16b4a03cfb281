package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BiasAdd adds one number to each channel: y[n,c,...] = x[n,c,...] + b[c].
//
// Arguments: x (N,C,...) of Dims dimensions, b (C). Result: y like x.
// Gradients: dx = dy, db by BiasGrad.
type BiasAdd struct {
	traits

	// Dims is that of x, at least 2.
	Dims int
}

func (o *BiasAdd) Arity() int            { return 2 }
func (o *BiasAdd) Type() hm.Type         { return fn(o.Dims, 1, o.Dims) }
func (o *BiasAdd) String() string        { return fmt.Sprintf("BiasAdd{%d}", o.Dims) }
func (o *BiasAdd) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *BiasAdd) Hashcode() uint32      { return hashcode(o) }
func (o *BiasAdd) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *BiasAdd) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims, 1)
	if err != nil {
		return nil, err
	}
	if o.Dims < 2 || s[0][1] != s[1][0] {
		return nil, fmt.Errorf("op: %v: x is %v and b %v, want (N,C,...) and (C)", o, s[0], s[1])
	}
	return s[0].Clone(), nil
}

func (o *BiasAdd) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, biasAdd[float32], biasAdd[float64])
}

func biasAdd[T float](_ *BiasAdd, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, b := numbers[T](in[0]), numbers[T](in[1])
	c, inner := shape[1], shape[2:].TotalSize()
	for i := range y {
		y[i] = x[i] + b[i/inner%c]
	}
	return out, nil
}

func (o *BiasAdd) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	db, err := Apply(&BiasGrad{Dims: o.Dims}, grad)
	if err != nil {
		return nil, err
	}
	return gorgonia.Nodes{grad, db}, nil
}

// BiasGrad is db[c] = Σ over all but channel of dy[n,c,...].
//
// Arguments: dy (N,C,...) of Dims dimensions. Result: db (C).
type BiasGrad struct {
	gradient
	Dims int
}

func (o *BiasGrad) Arity() int            { return 1 }
func (o *BiasGrad) Type() hm.Type         { return fn(o.Dims, 1) }
func (o *BiasGrad) String() string        { return fmt.Sprintf("BiasGrad{%d}", o.Dims) }
func (o *BiasGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *BiasGrad) Hashcode() uint32      { return hashcode(o) }

func (o *BiasGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims)
	if err != nil {
		return nil, err
	}
	if o.Dims < 2 {
		return nil, fmt.Errorf("op: %v: dy is %v, want (N,C,...)", o, s[0])
	}
	return tensor.Shape{s[0][1]}, nil
}

func (o *BiasGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, biasGrad[float32], biasGrad[float64])
}

func biasGrad[T float](_ *BiasGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, db := dense[T](shape)
	dy, inner := numbers[T](in[0]), in[0].Shape()[2:].TotalSize()
	for i, d := range dy {
		db[i/inner%len(db)] += d
	}
	return out, nil
}

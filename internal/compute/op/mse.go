package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MSE is the mean squared error over all elements: loss = 1/n · Σ (x − t)².
//
// With a Mode, rows of examples that are not there add nothing, have gradient zero, and n is the
// number of elements of the others. If there is none the loss is 0.
//
// Arguments: x, t of one shape with Dims dimensions. Result: a scalar.
// Gradients: dx by MSEGrad(x, t), dt by MSEGrad(t, x).
type MSE struct {
	traits
	Dims int

	// Mode is nil if the rows are no examples, as those of a parameter.
	Mode *Mode
}

func (o *MSE) Arity() int            { return 2 }
func (o *MSE) Type() hm.Type         { return fn(o.Dims, o.Dims, 0) }
func (o *MSE) String() string        { return fmt.Sprintf("MSE{%d}", o.Dims) }
func (o *MSE) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *MSE) Hashcode() uint32      { return hashcode(o) }
func (o *MSE) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *MSE) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if _, err := likeAll(o, ds, 2); err != nil {
		return nil, err
	}
	return tensor.ScalarShape(), nil
}

func (o *MSE) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, mse[float32], mse[float64])
}

func mse[T float](o *MSE, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	x, t := numbers[T](in[0]), numbers[T](in[1])
	x = x[:there(o.Mode, in[0].Shape(), len(x))]
	var sum float64
	for i := range x {
		d := float64(x[i]) - float64(t[i])
		sum += d * d
	}
	return scalar(T(sum / float64(max(len(x), 1)))), nil
}

// there is how many of a value's n numbers belong to examples that are there.
func there(m *Mode, shape tensor.Shape, n int) int {
	if len(shape) == 0 {
		return n
	}
	return n / shape[0] * m.Rows(shape[0])
}

func (o *MSE) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&MSEGrad{Dims: o.Dims, Mode: o.Mode}, in[0], in[1], grad)
	if err != nil {
		return nil, err
	}
	dt, err := Apply(&MSEGrad{Dims: o.Dims, Mode: o.Mode}, in[1], in[0], grad)
	return gorgonia.Nodes{dx, dt}, err
}

// MSEGrad is dx = dloss · 2/n · (x − t), n and rows that are not there as in MSE.
//
// Arguments: x, t of one shape with Dims dimensions, dloss (a scalar). Result: dx like x.
type MSEGrad struct {
	gradient
	Dims int
	Mode *Mode
}

func (o *MSEGrad) Arity() int            { return 3 }
func (o *MSEGrad) Type() hm.Type         { return fn(o.Dims, o.Dims, 0, o.Dims) }
func (o *MSEGrad) String() string        { return fmt.Sprintf("MSEGrad{%d}", o.Dims) }
func (o *MSEGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *MSEGrad) Hashcode() uint32      { return hashcode(o) }

func (o *MSEGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if len(ds) != 3 {
		return nil, fmt.Errorf("op: %v: got %d arguments, want 3", o, len(ds))
	}
	return likeAll(o, ds[:2], 2)
}

func (o *MSEGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, mseGrad[float32], mseGrad[float64])
}

func mseGrad[T float](o *MSEGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dx = dx[:there(o.Mode, shape, len(dx))]
	x, t, scale := numbers[T](in[0]), numbers[T](in[1]), 2*number[T](in[2])/T(max(len(dx), 1))
	for i := range dx {
		dx[i] = scale * (x[i] - t[i])
	}
	return out, nil
}

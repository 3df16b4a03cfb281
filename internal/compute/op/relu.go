package op

import (
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ReLU is y = max(x, 0); a NaN stays.
//
// Arguments: x of any shape. Result: y like x.
// Gradient: ReLUGrad of the result y, so that x need not be kept.
type ReLU struct{ traits }

func (o *ReLU) Arity() int            { return 1 }
func (o *ReLU) Type() hm.Type         { return same(1) }
func (o *ReLU) String() string        { return "ReLU{}" }
func (o *ReLU) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ReLU) Hashcode() uint32      { return hashcode(o) }
func (o *ReLU) DiffWRT(int) []bool    { return []bool{true} }

func (o *ReLU) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) { return likeAll(o, ds, 1) }

func (o *ReLU) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, relu[float32], relu[float64])
}

func relu[T float](_ *ReLU, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	for i, v := range numbers[T](in[0]) {
		if v > 0 || v != v {
			y[i] = v
		}
	}
	return out, nil
}

func (o *ReLU) SymDiff(_ gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&ReLUGrad{}, out, grad)
	return gorgonia.Nodes{dx}, err
}

// ReLUGrad is dx = dy where y > 0, else 0; the gradient at x = 0 is 0. Where y or dy is a NaN, dx
// is one.
//
// Arguments: y (the ReLU's result), dy like y. Result: dx like y.
type ReLUGrad struct{ gradient }

func (o *ReLUGrad) Arity() int            { return 2 }
func (o *ReLUGrad) Type() hm.Type         { return same(2) }
func (o *ReLUGrad) String() string        { return "ReLUGrad{}" }
func (o *ReLUGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ReLUGrad) Hashcode() uint32      { return hashcode(o) }

func (o *ReLUGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAll(o, ds, 2)
}

func (o *ReLUGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, reluGrad[float32], reluGrad[float64])
}

func reluGrad[T float](_ *ReLUGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dy := numbers[T](in[1])
	for i, v := range numbers[T](in[0]) {
		switch {
		case v > 0:
			dx[i] = dy[i]
		case !(v <= 0) || dy[i] != dy[i]:
			dx[i] = v + dy[i]
		}
	}
	return out, nil
}

package op

import (
	"fmt"
	"hash"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Add is y = a + b, the residual sum; both have one shape, nothing is broadcast.
//
// Arguments: a, b of one shape. Result: y like a. Gradients: da = db = dy, the
// very same node.
type Add struct{ traits }

func (o *Add) Arity() int            { return 2 }
func (o *Add) Type() hm.Type         { return same(2) }
func (o *Add) String() string        { return "Add{}" }
func (o *Add) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Add) Hashcode() uint32      { return hashcode(o) }
func (o *Add) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *Add) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) { return likeAll(o, ds, 2) }

func (o *Add) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, add[float32], add[float64])
}

func add[T float](_ *Add, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	a, b := numbers[T](in[0]), numbers[T](in[1])
	for i := range y {
		y[i] = a[i] + b[i]
	}
	return out, nil
}

func (o *Add) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	return gorgonia.Nodes{grad, grad}, nil
}

// likeAll is the shape that all n arguments have.
func likeAll(o gorgonia.Op, ds []gorgonia.DimSizer, n int) (tensor.Shape, error) {
	dims := make([]int, n)
	for i := range dims {
		dims[i] = -1
	}
	s, err := argShapes(o, ds, dims...)
	if err != nil {
		return nil, err
	}
	for _, t := range s[1:] {
		if !slices.Equal(t, s[0]) {
			return nil, fmt.Errorf("op: %v: arguments have shapes %v, want one shape", o, s)
		}
	}
	return s[0].Clone(), nil
}

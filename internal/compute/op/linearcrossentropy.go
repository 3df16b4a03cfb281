package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LinearCrossEntropy is SoftmaxCrossEntropy of the logits x·Wᵀ, in one op, so that an executor need
// not keep logits of all rows: with many classes they are the largest arrays of a language model.
// Smoothing, labels of −1 and Mode are those of SoftmaxCrossEntropy.
//
// Arguments: x (N,C), W (K,C), labels (N) with −1 ≤ label < K. Result: a scalar.
// Gradients: dx and dW by LinearCrossEntropyGrad; labels have none.
type LinearCrossEntropy struct {
	traits
	Smoothing float64 // 0 ≤ Smoothing < 1
	Mode      *Mode
}

func (o *LinearCrossEntropy) Arity() int { return 3 }
func (o *LinearCrossEntropy) Type() hm.Type {
	return hm.NewFnType(tensorType(2, 'a'), tensorType(2, 'a'), tensorType(1, 'i'), tensorType(0, 'a'))
}
func (o *LinearCrossEntropy) String() string {
	return smoothed("LinearCrossEntropy", o.Smoothing, nil)
}
func (o *LinearCrossEntropy) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *LinearCrossEntropy) Hashcode() uint32      { return hashcode(o) }
func (o *LinearCrossEntropy) DiffWRT(int) []bool    { return []bool{true, true, false} }

func (o *LinearCrossEntropy) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if !(o.Smoothing >= 0 && o.Smoothing < 1) {
		return nil, fmt.Errorf("op: %v: smoothing is %g, want 0 ≤ smoothing < 1", o, o.Smoothing)
	}
	s, err := argShapes(o, ds, 2, 2, 1)
	if err != nil {
		return nil, err
	}
	return tensor.ScalarShape(), checkHead(o, s)
}

// checkHead is an error if arguments of a head with its loss do not fit.
func checkHead(o gorgonia.Op, s []tensor.Shape) error {
	if s[0][1] != s[1][1] || s[0][0] != s[2][0] {
		return fmt.Errorf("op: %v: x is %v, W %v and labels %v, want (N,C), (K,C) and (N)", o, s[0], s[1], s[2])
	}
	return nil
}

func (o *LinearCrossEntropy) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, linearCrossEntropy[float32], linearCrossEntropy[float64])
}

func linearCrossEntropy[T float](o *LinearCrossEntropy, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	logits, err := linear[T](&Linear{}, in[:2], tensor.Shape{in[0].Shape()[0], in[1].Shape()[0]})
	if err != nil {
		return nil, err
	}
	return softmaxCrossEntropy[T](&SoftmaxCrossEntropy{Smoothing: o.Smoothing, Mode: o.Mode}, []gorgonia.Value{logits, in[2]}, shape)
}

func (o *LinearCrossEntropy) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&LinearCrossEntropyGrad{Smoothing: o.Smoothing, Mode: o.Mode}, in[0], in[1], in[2], grad)
	if err != nil {
		return nil, err
	}
	each, err := takeEach(d, in[:2])
	return append(each, nil), err
}

// LinearCrossEntropyGrad is the backward pass of LinearCrossEntropy: with dlogits as
// SoftmaxCrossEntropyGrad has it, dx = dlogits·W and dW = dlogitsᵀ·x.
//
// Arguments: x (N,C), W (K,C), labels (N), dloss (a scalar, usually the constant 1).
// Result: Tuple{dx (N,C), dW (K,C)}.
type LinearCrossEntropyGrad struct {
	gradient
	Smoothing float64
	Mode      *Mode
}

func (o *LinearCrossEntropyGrad) Arity() int { return 4 }
func (o *LinearCrossEntropyGrad) Type() hm.Type {
	return hm.NewFnType(tensorType(2, 'a'), tensorType(2, 'a'), tensorType(1, 'i'), tensorType(0, 'a'), tensorType(2, 'a'))
}
func (o *LinearCrossEntropyGrad) String() string {
	return smoothed("LinearCrossEntropyGrad", o.Smoothing, nil)
}
func (o *LinearCrossEntropyGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *LinearCrossEntropyGrad) Hashcode() uint32      { return hashcode(o) }

func (o *LinearCrossEntropyGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 2, 2, 1, 0)
	if err != nil {
		return nil, err
	}
	return s[0].Clone(), checkHead(o, s)
}

func (o *LinearCrossEntropyGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, linearCrossEntropyGrad[float32], linearCrossEntropyGrad[float64])
}

func linearCrossEntropyGrad[T float](o *LinearCrossEntropyGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	rows := tensor.Shape{shape[0], in[1].Shape()[0]}
	logits, err := linear[T](&Linear{}, in[:2], rows)
	if err != nil {
		return nil, err
	}
	dlogits, err := softmaxCrossEntropyGrad[T](&SoftmaxCrossEntropyGrad{Smoothing: o.Smoothing, Mode: o.Mode}, []gorgonia.Value{logits, in[2], in[3]}, rows)
	if err != nil {
		return nil, err
	}
	return linearGrad[T](&LinearGrad{}, []gorgonia.Value{in[0], in[1], dlogits}, shape)
}

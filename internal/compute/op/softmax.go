package op

import (
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Softmax is y[b,k] = exp(x[b,k]) / Σ_j exp(x[b,j]), the class probabilities.
//
// Arguments: x (N,K). Result: y like x. Gradient: by SoftmaxGrad.
type Softmax struct{ traits }

func (o *Softmax) Arity() int            { return 1 }
func (o *Softmax) Type() hm.Type         { return fn(2, 2) }
func (o *Softmax) String() string        { return "Softmax{}" }
func (o *Softmax) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Softmax) Hashcode() uint32      { return hashcode(o) }
func (o *Softmax) DiffWRT(int) []bool    { return []bool{true} }

func (o *Softmax) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAll(o, ds, 1)
}

func (o *Softmax) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmax[float32], softmax[float64])
}

func softmax[T float](_ *Softmax, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, classes := numbers[T](in[0]), shape[1]
	for b := range shape[0] {
		row := x[b*classes : (b+1)*classes]
		lse := logSumExp(row)
		for k, v := range row {
			y[b*classes+k] = T(math.Exp(float64(v) - lse))
		}
	}
	return out, nil
}

func (o *Softmax) SymDiff(_ gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&SoftmaxGrad{}, out, grad)
	return gorgonia.Nodes{dx}, err
}

// SoftmaxGrad is dx[b,k] = y[b,k]·(dy[b,k] − Σ_j dy[b,j]·y[b,j]).
//
// Arguments: y (N,K, the Softmax's result), dy like y. Result: dx like y.
type SoftmaxGrad struct{ gradient }

func (o *SoftmaxGrad) Arity() int            { return 2 }
func (o *SoftmaxGrad) Type() hm.Type         { return fn(2, 2, 2) }
func (o *SoftmaxGrad) String() string        { return "SoftmaxGrad{}" }
func (o *SoftmaxGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SoftmaxGrad) Hashcode() uint32      { return hashcode(o) }

func (o *SoftmaxGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAll(o, ds, 2)
}

func (o *SoftmaxGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmaxGrad[float32], softmaxGrad[float64])
}

func softmaxGrad[T float](_ *SoftmaxGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	y, dy, classes := numbers[T](in[0]), numbers[T](in[1]), shape[1]
	for b := range shape[0] {
		var dot T
		for i := b * classes; i < (b+1)*classes; i++ {
			dot += dy[i] * y[i]
		}
		for i := b * classes; i < (b+1)*classes; i++ {
			dx[i] = y[i] * (dy[i] - dot)
		}
	}
	return out, nil
}

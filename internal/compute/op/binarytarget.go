package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BinaryCrossEntropy is the mean cross-entropy of sigmoid(x) against targets, each number for
// itself, computed together so that it cannot overflow:
//
//	loss = 1/n · Σ_b Σ_k −(p[k]·t[b,k]·log σ(x[b,k]) + (1−t[b,k])·log(1−σ(x[b,k])))
//	     = 1/n · Σ_b Σ_k (1−t)·x + (1+(p−1)·t)·(log(1+exp(−|x|)) + max(−x, 0))
//
// p are the weights of positive targets, one for each column, or all 1. It is PyTorch's
// BCEWithLogitsLoss with pos_weight and the mean.
//
// A target below 0, usually −1, is not known: it adds nothing, has gradient zero, and n is the
// number of the others. A row of them leaves an example out. If all are so the loss is 0. With a
// Mode, rows of examples that are not there are left out in the same way, whatever their targets
// are.
//
// Arguments: x, t (N,K). Result: a scalar. Gradient: dx by BinaryCrossEntropyGrad; targets have
// none.
type BinaryCrossEntropy struct {
	traits
	// PosWeights are p, finite and at least 0; nil: all are 1.
	PosWeights []float32
	Mode       *Mode
}

func (o *BinaryCrossEntropy) Arity() int    { return 2 }
func (o *BinaryCrossEntropy) Type() hm.Type { return fn(2, 2, 0) }
func (o *BinaryCrossEntropy) String() string {
	return smoothed("BinaryCrossEntropy", 0, o.PosWeights)
}
func (o *BinaryCrossEntropy) WriteHash(h hash.Hash) {
	writeHash(h, o)
	fmt.Fprint(h, o.PosWeights)
}
func (o *BinaryCrossEntropy) Hashcode() uint32   { return hashcode(o) }
func (o *BinaryCrossEntropy) DiffWRT(int) []bool { return []bool{true, false} }

func (o *BinaryCrossEntropy) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := targetShape(o, ds, 2, 2)
	if err != nil {
		return nil, err
	}
	return tensor.ScalarShape(), checkWeights(o, o.PosWeights, s[1])
}

// CountsBinary reports whether a target of BinaryCrossEntropy counts. One that is not a number
// does, so that it is not hidden.
func CountsBinary[T float](target T) bool { return !(target < 0) }

// CountBinary is the number of targets that count.
func CountBinary[T float](targets []T) (count float64) {
	for _, t := range targets {
		if CountsBinary(t) {
			count++
		}
	}
	return count
}

// PosWeight is that of column k.
func PosWeight(weights []float32, k int) float64 {
	if weights == nil {
		return 1
	}
	return float64(weights[k])
}

// BinaryTerm is the term of one number in the sum of BinaryCrossEntropy, of logit x, target t and
// weight p.
func BinaryTerm(x, t, p float64) float64 {
	return (1-t)*x + (1+(p-1)*t)*(math.Log1p(math.Exp(-math.Abs(x)))+math.Max(-x, 0))
}

// BinarySlope is the derivative of BinaryTerm by x: 1−t − (1+(p−1)·t)·σ(−x).
func BinarySlope(x, t, p float64) float64 { return 1 - t - (1+(p-1)*t)/(1+math.Exp(x)) }

func (o *BinaryCrossEntropy) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, binaryCrossEntropy[float32], binaryCrossEntropy[float64])
}

func binaryCrossEntropy[T float](o *BinaryCrossEntropy, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	x, t, columns := numbers[T](in[0]), numbers[T](in[1]), in[0].Shape()[1]
	var sum, count float64
	for i, target := range t[:columns*o.Mode.Rows(in[0].Shape()[0])] {
		if CountsBinary(target) {
			count++
			sum += BinaryTerm(float64(x[i]), float64(target), PosWeight(o.PosWeights, i%columns))
		}
	}
	return scalar(T(sum / math.Max(count, 1))), nil
}

func (o *BinaryCrossEntropy) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&BinaryCrossEntropyGrad{PosWeights: o.PosWeights, Mode: o.Mode}, in[0], in[1], grad)
	return gorgonia.Nodes{dx, nil}, err
}

// BinaryCrossEntropyGrad is dx = dloss/n · (1−t − (1+(p−1)·t)·σ(−x)), which is σ(x)−t without
// weights; zero where the target is left out, n as in BinaryCrossEntropy.
//
// Arguments: x, t (N,K), dloss (a scalar, usually the constant 1). Result: dx like x.
type BinaryCrossEntropyGrad struct {
	gradient
	PosWeights []float32
	Mode       *Mode
}

func (o *BinaryCrossEntropyGrad) Arity() int    { return 3 }
func (o *BinaryCrossEntropyGrad) Type() hm.Type { return fn(2, 2, 0, 2) }
func (o *BinaryCrossEntropyGrad) String() string {
	return smoothed("BinaryCrossEntropyGrad", 0, o.PosWeights)
}
func (o *BinaryCrossEntropyGrad) WriteHash(h hash.Hash) {
	writeHash(h, o)
	fmt.Fprint(h, o.PosWeights)
}
func (o *BinaryCrossEntropyGrad) Hashcode() uint32 { return hashcode(o) }

func (o *BinaryCrossEntropyGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := targetShape(o, ds, 2, 2, 0)
	if err != nil {
		return nil, err
	}
	return s, checkWeights(o, o.PosWeights, s[1])
}

func (o *BinaryCrossEntropyGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, binaryCrossEntropyGrad[float32], binaryCrossEntropyGrad[float64])
}

func binaryCrossEntropyGrad[T float](o *BinaryCrossEntropyGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	x, t, columns, dloss := numbers[T](in[0]), numbers[T](in[1]), shape[1], float64(number[T](in[2]))
	t = t[:columns*o.Mode.Rows(shape[0])]
	count := CountBinary(t)
	for i, target := range t {
		if CountsBinary(target) {
			dx[i] = T(dloss / count * BinarySlope(float64(x[i]), float64(target), PosWeight(o.PosWeights, i%columns)))
		}
	}
	return out, nil
}

package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// SoftCrossEntropy is the mean over the batch of the cross-entropy of softmax(x) against
// probabilities of classes, computed together so that it cannot overflow:
//
//	loss = 1/B · Σ_b Σ_k t[b,k] · (log Σ_j exp(x[b,j]) − x[b,k])
//
// It is PyTorch's CrossEntropyLoss with probabilities as target, for targets as Mixup makes them
// (Zhang et al. 2018). A class of target 0 adds nothing, whatever its logit is.
//
// With Divergence the targets' own entropy is left out, and what is left is their divergence
// (Kullback-Leibler) from softmax(x), which PyTorch's KLDivLoss gives with the reduction
// "batchmean": each t[b,k]·log t[b,k] is added. The gradient stays as it is.
//
// A row without a target above 0, such as one of zeros or of −1, is left out: it adds nothing, has
// gradient zero, and B is the number of other rows. If there is none the loss is 0. With a Mode,
// rows of examples that are not there are left out in the same way, whatever their targets are.
//
// Arguments: x, t (N,K). Result: a scalar. Gradient: dx by SoftCrossEntropyGrad; targets have none.
type SoftCrossEntropy struct {
	traits
	Divergence bool
	Mode       *Mode
}

func (o *SoftCrossEntropy) Arity() int    { return 2 }
func (o *SoftCrossEntropy) Type() hm.Type { return fn(2, 2, 0) }
func (o *SoftCrossEntropy) String() string {
	if o.Divergence {
		return "SoftCrossEntropy{divergence}"
	}
	return "SoftCrossEntropy{}"
}
func (o *SoftCrossEntropy) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SoftCrossEntropy) Hashcode() uint32      { return hashcode(o) }
func (o *SoftCrossEntropy) DiffWRT(int) []bool    { return []bool{true, false} }

func (o *SoftCrossEntropy) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if _, err := targetShape(o, ds, 2, 2); err != nil {
		return nil, err
	}
	return tensor.ScalarShape(), nil
}

// targetShape is the one shape that logits and targets have, the first two of arguments with such
// numbers of dimensions.
func targetShape(o gorgonia.Op, ds []gorgonia.DimSizer, dims ...int) (tensor.Shape, error) {
	s, err := argShapes(o, ds, dims...)
	if err != nil {
		return nil, err
	}
	if !s[0].Eq(s[1]) {
		return nil, fmt.Errorf("op: %v: logits are %v and targets %v, want (N,K) both", o, s[0], s[1])
	}
	return s[0].Clone(), nil
}

// CountsSoft reports whether a row of soft targets counts: one of them is above 0, or is not a
// number, which must not be hidden.
func CountsSoft[T float](row []T) bool {
	for _, v := range row {
		if !(v <= 0) {
			return true
		}
	}
	return false
}

// CountSoft is the number of rows of soft targets that count. It looks at one number of most rows.
func CountSoft[T float](targets []T, classes int) (count float64) {
	for ; len(targets) > 0; targets = targets[classes:] {
		if CountsSoft(targets[:classes]) {
			count++
		}
	}
	return count
}

func (o *SoftCrossEntropy) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softCrossEntropy[float32], softCrossEntropy[float64])
}

func softCrossEntropy[T float](o *SoftCrossEntropy, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	x, t, classes := numbers[T](in[0]), numbers[T](in[1]), in[0].Shape()[1]
	there := o.Mode.Rows(in[0].Shape()[0])
	var sum, count float64
	for b := range there {
		row, targets := x[b*classes:(b+1)*classes], t[b*classes:(b+1)*classes]
		if !CountsSoft(targets) {
			continue
		}
		count++
		lse := logSumExp(row)
		for k, v := range targets {
			if v != 0 {
				sum += float64(v) * (lse - float64(row[k]))
			}
			if o.Divergence && v > 0 {
				sum += float64(v) * math.Log(float64(v))
			}
		}
	}
	return scalar(T(sum / math.Max(count, 1))), nil
}

func (o *SoftCrossEntropy) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&SoftCrossEntropyGrad{Mode: o.Mode}, in[0], in[1], grad)
	return gorgonia.Nodes{dx, nil}, err
}

// SoftCrossEntropyGrad is dx[b,k] = dloss/B · (Σ_j t[b,j] · softmax(x)[b,k] − t[b,k]), zero in rows
// that are left out, B as in SoftCrossEntropy.
//
// Arguments: x, t (N,K), dloss (a scalar, usually the constant 1). Result: dx like x.
type SoftCrossEntropyGrad struct {
	gradient
	Mode *Mode
}

func (o *SoftCrossEntropyGrad) Arity() int            { return 3 }
func (o *SoftCrossEntropyGrad) Type() hm.Type         { return fn(2, 2, 0, 2) }
func (o *SoftCrossEntropyGrad) String() string        { return "SoftCrossEntropyGrad{}" }
func (o *SoftCrossEntropyGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SoftCrossEntropyGrad) Hashcode() uint32      { return hashcode(o) }

func (o *SoftCrossEntropyGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return targetShape(o, ds, 2, 2, 0)
}

func (o *SoftCrossEntropyGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softCrossEntropyGrad[float32], softCrossEntropyGrad[float64])
}

func softCrossEntropyGrad[T float](o *SoftCrossEntropyGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	x, t, classes, dloss := numbers[T](in[0]), numbers[T](in[1]), shape[1], float64(number[T](in[2]))
	there := o.Mode.Rows(shape[0])
	count := CountSoft(t[:there*classes], classes)
	for b := range there {
		row, targets := x[b*classes:(b+1)*classes], t[b*classes:(b+1)*classes]
		if !CountsSoft(targets) {
			continue
		}
		lse, all := logSumExp(row), 0.0
		for _, v := range targets {
			all += float64(v)
		}
		for k, v := range row {
			dx[b*classes+k] = T(dloss / count * (all*math.Exp(float64(v)-lse) - float64(targets[k])))
		}
	}
	return out, nil
}

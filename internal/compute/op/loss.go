package op

import (
	"fmt"
	"hash"
	"math"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// SoftmaxCrossEntropy is the mean over the batch of the cross-entropy of
// softmax(x) against class labels, computed together so that it cannot overflow:
//
//	loss = 1/B · Σ_b (log Σ_k exp(x[b,k]−max_b) + max_b − (1−s)·x[b, label_b] − s/K · Σ_k x[b,k])
//
// s is Smoothing: a share s of each label is spread over all K classes (Szegedy et
// al. 2016, section 7). 0 is none.
//
// With Weights w, one for each class, a term of class k has the factor w[k], and B is
// the sum of the weights of the labels, as in PyTorch (CrossEntropyLoss, weight and
// label_smoothing):
//
//	loss = 1/Σ_b w[label_b] · Σ_b ((1−s)·w[label_b]·l[b,label_b] + s/K · Σ_k w[k]·l[b,k]), l[b,k] = log Σ_j exp(x[b,j]) − x[b,k]
//
// A label of −1 marks a row that is ignored: it adds nothing, has gradient zero,
// and B is the number of other rows. If there is none the loss is 0. With a Mode,
// rows of examples that are not there are left out in the same way, whatever
// their labels are.
//
// Arguments: x (N,K), labels (N) with −1 ≤ label < K. Result: a scalar.
// Gradient: dx by SoftmaxCrossEntropyGrad; labels have none.
type SoftmaxCrossEntropy struct {
	traits
	Smoothing float64 // 0 ≤ Smoothing < 1
	// Weights are those of the classes, finite and at least 0; nil: all are 1.
	Weights []float32
	Mode    *Mode
}

func (o *SoftmaxCrossEntropy) Arity() int { return 2 }
func (o *SoftmaxCrossEntropy) Type() hm.Type {
	return hm.NewFnType(tensorType(2, 'a'), tensorType(1, 'i'), tensorType(0, 'a'))
}
func (o *SoftmaxCrossEntropy) String() string {
	return smoothed("SoftmaxCrossEntropy", o.Smoothing, o.Weights)
}
func (o *SoftmaxCrossEntropy) WriteHash(h hash.Hash) {
	writeHash(h, o)
	fmt.Fprint(h, o.Weights)
}
func (o *SoftmaxCrossEntropy) Hashcode() uint32   { return hashcode(o) }
func (o *SoftmaxCrossEntropy) DiffWRT(int) []bool { return []bool{true, false} }

// smoothed is the name of an op with its attributes, if they are not zero.
func smoothed(name string, s float64, weights []float32) string {
	var list []string
	if s != 0 {
		list = append(list, fmt.Sprintf("smoothing %g", s))
	}
	if weights != nil {
		list = append(list, fmt.Sprintf("weights of %d classes", len(weights)))
	}
	return name + "{" + strings.Join(list, ", ") + "}"
}

// checkWeights is an error if a cross-entropy cannot have such weights of classes.
func checkWeights(o gorgonia.Op, weights []float32, classes int) error {
	if weights == nil {
		return nil
	}
	if len(weights) != classes {
		return fmt.Errorf("op: %v: got %d weights of classes, want the %d of the logits", o, len(weights), classes)
	}
	for k, w := range weights {
		if !(w >= 0) || math.IsInf(float64(w), 0) {
			return fmt.Errorf("op: %v: weight of class %d is %g, want a finite number of at least 0", o, k, w)
		}
	}
	return nil
}

// LabelWeight is what a label weighs in a mean: 1, or the weight of its class; 0 for −1.
func LabelWeight(weights []float32, label int) float64 {
	switch {
	case label < 0:
		return 0
	case weights == nil:
		return 1
	}
	return float64(weights[label])
}

// Sum is the sum of numbers, in their order.
func Sum(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(v)
	}
	return sum
}

func (o *SoftmaxCrossEntropy) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if !(o.Smoothing >= 0 && o.Smoothing < 1) {
		return nil, fmt.Errorf("op: %v: smoothing is %g, want 0 ≤ smoothing < 1", o, o.Smoothing)
	}
	s, err := argShapes(o, ds, 2, 1)
	if err != nil {
		return nil, err
	}
	if s[0][0] != s[1][0] {
		return nil, fmt.Errorf("op: %v: logits are %v and labels %v, want (N,K) and (N)", o, s[0], s[1])
	}
	if err := checkWeights(o, o.Weights, s[0][1]); err != nil {
		return nil, err
	}
	return tensor.ScalarShape(), nil
}

func (o *SoftmaxCrossEntropy) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmaxCrossEntropy[float32], softmaxCrossEntropy[float64])
}

func softmaxCrossEntropy[T float](o *SoftmaxCrossEntropy, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	x, classes := numbers[T](in[0]), in[0].Shape()[1]
	labels, count, err := classLabels(o, o.Mode, in[1], classes, o.Weights)
	if err != nil || count == 0 {
		return scalar(T(0)), err
	}
	var sum float64
	for b, label := range labels {
		if label < 0 {
			continue
		}
		row := x[b*classes : (b+1)*classes]
		lse := logSumExp(row)
		sum += (1 - o.Smoothing) * LabelWeight(o.Weights, label) * (lse - float64(row[label]))
		if o.Smoothing != 0 {
			for k, v := range row {
				sum += o.Smoothing / float64(classes) * LabelWeight(o.Weights, k) * (lse - float64(v))
			}
		}
	}
	return scalar(T(sum / count)), nil
}

// classLabels reads the labels of examples that are there, and adds up what those weigh that are
// not −1.
func classLabels(o gorgonia.Op, m *Mode, v gorgonia.Value, classes int, weights []float32) (labels []int, count float64, err error) {
	if labels, err = Indices(v); err != nil {
		return nil, 0, err
	}
	labels = labels[:m.Rows(len(labels))]
	for i, l := range labels {
		if l < -1 || l >= classes {
			return nil, 0, fmt.Errorf("op: do %v: label of example %d is %d, want -1 to %d", o, i, l, classes-1)
		}
		count += LabelWeight(weights, l)
	}
	return labels, count, nil
}

func logSumExp[T float](row []T) float64 {
	top := float64(row[0])
	for _, v := range row[1:] {
		top = math.Max(top, float64(v))
	}
	var sum float64
	for _, v := range row {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top
}

func (o *SoftmaxCrossEntropy) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&SoftmaxCrossEntropyGrad{Smoothing: o.Smoothing, Weights: o.Weights, Mode: o.Mode}, in[0], in[1], grad)
	return gorgonia.Nodes{dx, nil}, err
}

// SoftmaxCrossEntropyGrad is dx[b,k] = dloss/B · (softmax(x)[b,k] − (1−s)·[k = label_b] − s/K),
// zero in rows that are left out, B and s as in SoftmaxCrossEntropy. With Weights w it is
//
//	dx[b,k] = dloss/B · (((1−s)·w[label_b] + s/K·Σ_j w[j])·softmax(x)[b,k] − (1−s)·w[label_b]·[k = label_b] − s/K·w[k])
//
// Arguments: x (N,K), labels (N), dloss (a scalar, usually the constant 1).
// Result: dx like x.
type SoftmaxCrossEntropyGrad struct {
	gradient
	Smoothing float64
	Weights   []float32
	Mode      *Mode
}

func (o *SoftmaxCrossEntropyGrad) Arity() int { return 3 }
func (o *SoftmaxCrossEntropyGrad) Type() hm.Type {
	return hm.NewFnType(tensorType(2, 'a'), tensorType(1, 'i'), tensorType(0, 'a'), tensorType(2, 'a'))
}
func (o *SoftmaxCrossEntropyGrad) String() string {
	return smoothed("SoftmaxCrossEntropyGrad", o.Smoothing, o.Weights)
}
func (o *SoftmaxCrossEntropyGrad) WriteHash(h hash.Hash) {
	writeHash(h, o)
	fmt.Fprint(h, o.Weights)
}
func (o *SoftmaxCrossEntropyGrad) Hashcode() uint32 { return hashcode(o) }

func (o *SoftmaxCrossEntropyGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 2, 1, 0)
	if err != nil {
		return nil, err
	}
	if s[0][0] != s[1][0] {
		return nil, fmt.Errorf("op: %v: logits are %v and labels %v, want (N,K) and (N)", o, s[0], s[1])
	}
	if err := checkWeights(o, o.Weights, s[0][1]); err != nil {
		return nil, err
	}
	return s[0].Clone(), nil
}

func (o *SoftmaxCrossEntropyGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, softmaxCrossEntropyGrad[float32], softmaxCrossEntropyGrad[float64])
}

func softmaxCrossEntropyGrad[T float](o *SoftmaxCrossEntropyGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	x, classes, dloss := numbers[T](in[0]), shape[1], float64(number[T](in[2]))
	labels, count, err := classLabels(o, o.Mode, in[1], classes, o.Weights)
	if err != nil || count == 0 {
		return out, err
	}
	all := float64(classes)
	if o.Weights != nil {
		all = Sum(o.Weights)
	}
	spread := o.Smoothing / float64(classes)
	for b, label := range labels {
		if label < 0 {
			continue
		}
		w := (1 - o.Smoothing) * LabelWeight(o.Weights, label)
		row := x[b*classes : (b+1)*classes]
		lse := logSumExp(row)
		for k, v := range row {
			p := (w+spread*all)*math.Exp(float64(v)-lse) - spread*LabelWeight(o.Weights, k)
			if k == label {
				p -= w
			}
			dx[b*classes+k] = T(dloss / count * p)
		}
	}
	return out, nil
}

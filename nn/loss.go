package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// SoftmaxCrossEntropy is the mean cross-entropy of softmax(logits) (N,K) against
// labels (N), a scalar. Rows with label −1 and rows of padding (see
// Program.SetExamples) are left out, of the mean too; if there
// are no others the loss is 0.
func SoftmaxCrossEntropy(logits, labels *gorgonia.Node) *gorgonia.Node {
	return apply("SoftmaxCrossEntropy", &op.SoftmaxCrossEntropy{Mode: modeOf(logits)}, logits, labels)
}

// SmoothedCrossEntropy is SoftmaxCrossEntropy with label smoothing: a share of each label, 0 to
// below 1, is spread over all classes. 0.1 is usual. The loss of a certain and right answer is
// above 0.
func SmoothedCrossEntropy(logits, labels *gorgonia.Node, share float64) *gorgonia.Node {
	return apply("SmoothedCrossEntropy", &op.SoftmaxCrossEntropy{Smoothing: share, Mode: modeOf(logits)}, logits, labels)
}

// CrossEntropyConfig configures CrossEntropy.
type CrossEntropyConfig struct {
	// ClassWeights has a weight for each class, finite and at least 0, as for classes of which
	// there are few examples; nil: all are 1. The loss is divided by the sum of the weights of
	// the labels that count. Scaling all weights changes nothing. A GPU cannot take them.
	ClassWeights []float32
	// Smoothing is the share of each label that is spread over all classes, each with its
	// weight: 0 to below 1.
	Smoothing float64
}

// CrossEntropy is SoftmaxCrossEntropy with weights of classes and label smoothing, as PyTorch's
// CrossEntropyLoss defines them together. The loss is 0, and its gradients are, where all labels
// are −1 or have the weight 0.
func CrossEntropy(logits, labels *gorgonia.Node, cfg CrossEntropyConfig) *gorgonia.Node {
	return apply("CrossEntropy", &op.SoftmaxCrossEntropy{Smoothing: cfg.Smoothing, Weights: slices.Clone(cfg.ClassWeights), Mode: modeOf(logits)}, logits, labels)
}

// SoftCrossEntropy is the mean cross-entropy of softmax(logits) (N,K) against probabilities of
// classes, targets (N,K), usually an Input, a scalar:
//
//	1/B · Σ_b Σ_k targets[b,k] · −log softmax(logits[b])[k]
//
// It is PyTorch's CrossEntropyLoss with probabilities in place of class numbers, for labels that
// are mixed (Mixup, Zhang et al. 2018; CutMix, Yun et al. 2019), smoothed or a teacher's. Targets
// of a row usually have the sum 1. A row without a target above 0, such as one of zeros or of −1,
// is left out, of the mean B too, as rows of padding are (see Program.SetExamples); if there are no
// others the loss is 0. Targets have no gradient: they are as constants. A GPU cannot take this
// loss.
func SoftCrossEntropy(logits, targets *gorgonia.Node) *gorgonia.Node {
	return apply("SoftCrossEntropy", &op.SoftCrossEntropy{Mode: modeOf(logits)}, logits, targets)
}

// BinaryCrossEntropyConfig configures BinaryCrossEntropy.
type BinaryCrossEntropyConfig struct {
	// PosWeights has a weight for each column, finite and at least 0, by which its targets of 1
	// count more than those of 0, as for labels that few examples have: PyTorch's pos_weight.
	// It does not change what the mean divides by. nil: all are 1.
	PosWeights []float32
}

// BinaryCrossEntropy is the mean over all numbers of the cross-entropy of sigmoid(logits) (N,K)
// against targets (N,K), usually an Input, a scalar, for examples that may have several labels: a
// target is 1 where the example has the label, 0 where it has not, or between:
//
//	1/n · Σ_b Σ_k −(PosWeights[k]·t·log σ(x) + (1−t)·log(1−σ(x))), x = logits[b,k], t = targets[b,k]
//
// It is PyTorch's BCEWithLogitsLoss. A target below 0, usually −1, is not known and left out, of
// the mean too; a row of them leaves out an example, as rows of padding are (see
// Program.SetExamples). If there are no others the loss is 0. Targets have no gradient. A GPU
// cannot take this loss.
func BinaryCrossEntropy(logits, targets *gorgonia.Node, cfg BinaryCrossEntropyConfig) *gorgonia.Node {
	return apply("BinaryCrossEntropy", &op.BinaryCrossEntropy{PosWeights: slices.Clone(cfg.PosWeights), Mode: modeOf(logits)}, logits, targets)
}

// KLDivergence is the mean over rows of the divergence (Kullback-Leibler) of softmax(logits) from
// targets, a scalar, as in the distillation of a teacher's probabilities (Hinton et al. 2015):
//
//	1/B · Σ_b Σ_k targets[b,k] · (log targets[b,k] − log softmax(logits[b])[k])
//
// It is PyTorch's KLDivLoss(reduction="batchmean") of log-softmax(logits); a target of 0 adds
// nothing. Both have the shape (…,K). It is SoftCrossEntropy less the entropy of the targets: its
// gradient is the same, and the same rows are left out. A GPU cannot take this loss.
func KLDivergence(logits, targets *gorgonia.Node) *gorgonia.Node {
	o := &op.SoftCrossEntropy{Divergence: true, Mode: modeOf(logits)}
	return apply("KLDivergence", o, matrix(logits), matrix(targets))
}

// matrix joins all dimensions but the last.
func matrix(x *gorgonia.Node) *gorgonia.Node {
	s := x.Shape()
	if s.Dims() <= 2 {
		return x
	}
	k := s[s.Dims()-1]
	return Reshape(x, s.TotalSize()/k, k)
}

// Softmax is exp(x) / Σ exp(x), the sum along an axis of x, of any shape with one: the last one, if
// none is given. For logits (N,K) it gives class probabilities. An axis below 0 counts from the end.
// A GPU can take that of logits (N,K) alone.
func Softmax(x *gorgonia.Node, axis ...int) *gorgonia.Node {
	return apply("Softmax", &op.Softmax{Axis: softmaxAxis("Softmax", x, axis)}, x)
}

// LogSoftmax is x − log Σ exp(x), the logarithm of Softmax, which cannot overflow. A GPU cannot take
// it. For a loss use CrossEntropy of the logits.
func LogSoftmax(x *gorgonia.Node, axis ...int) *gorgonia.Node {
	return apply("LogSoftmax", &op.Softmax{Axis: softmaxAxis("LogSoftmax", x, axis), Log: true}, x)
}

// softmaxAxis is the axis that is given, or the last one of x.
func softmaxAxis(layer string, x *gorgonia.Node, given []int) int {
	switch len(given) {
	case 0:
		return axisOf(layer, x, -1)
	case 1:
		return axisOf(layer, x, given[0])
	}
	panic(fmt.Sprintf("nn: %s: axes are %v, want one", layer, given))
}

// MSE is the mean of (x − target)² over all elements, a scalar. Rows of padding are left out, of
// the mean, too; see Program.SetExamples.
func MSE(x, target *gorgonia.Node) *gorgonia.Node {
	return apply("MSE", &op.MSE{Dims: x.Shape().Dims(), Mode: batchMode(x, target)}, x, target)
}

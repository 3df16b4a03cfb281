package nn

import (
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

// SmoothedCrossEntropy is SoftmaxCrossEntropy with label smoothing: a share of each label, 0 to below 1, is spread over all classes. 0.1 is usual.
// The loss of a certain and right answer is above 0.
func SmoothedCrossEntropy(logits, labels *gorgonia.Node, share float64) *gorgonia.Node {
	return apply("SmoothedCrossEntropy", &op.SoftmaxCrossEntropy{Smoothing: share, Mode: modeOf(logits)}, logits, labels)
}

// CrossEntropyConfig configures CrossEntropy.
type CrossEntropyConfig struct {
	// ClassWeights has a weight for each class, finite and at least 0, as for classes of which there are few examples; nil: all are 1. The loss is divided
	// by the sum of the weights of the labels that count. Scaling all weights changes nothing. A GPU cannot take them.
	ClassWeights []float32
	// Smoothing is the share of each label that is spread over all classes, each with its weight: 0 to below 1.
	Smoothing float64
}

// CrossEntropy is SoftmaxCrossEntropy with weights of classes and label smoothing, as PyTorch's CrossEntropyLoss defines them together. The
// loss is 0, and its gradients are, where all labels are −1 or have the weight 0.
func CrossEntropy(logits, labels *gorgonia.Node, cfg CrossEntropyConfig) *gorgonia.Node {
	return apply("CrossEntropy", &op.SoftmaxCrossEntropy{Smoothing: cfg.Smoothing, Weights: slices.Clone(cfg.ClassWeights), Mode: modeOf(logits)}, logits, labels)
}

// Softmax gives class probabilities for logits (N,K).
func Softmax(logits *gorgonia.Node) *gorgonia.Node {
	return apply("Softmax", &op.Softmax{}, logits)
}

// MSE is the mean of (x − target)² over all elements, a scalar. Rows of padding are left out, of the mean, too; see Program.SetExamples.
func MSE(x, target *gorgonia.Node) *gorgonia.Node {
	return apply("MSE", &op.MSE{Dims: x.Shape().Dims(), Mode: batchMode(x, target)}, x, target)
}

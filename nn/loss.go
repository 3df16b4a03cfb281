package nn

import (
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

// Softmax gives class probabilities for logits (N,K).
func Softmax(logits *gorgonia.Node) *gorgonia.Node {
	return apply("Softmax", &op.Softmax{}, logits)
}

// MSE is the mean of (x − target)² over all elements, a scalar. Rows of padding are left out, of the mean, too; see Program.SetExamples.
func MSE(x, target *gorgonia.Node) *gorgonia.Node {
	return apply("MSE", &op.MSE{Dims: x.Shape().Dims(), Mode: batchMode(x, target)}, x, target)
}

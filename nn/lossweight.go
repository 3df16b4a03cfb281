package nn

import (
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// LossWeight is what the loss of the next run divides by, in the inputs as they are now: of a
// cross-entropy the number of labels among the examples that are not −1, which may be far more than
// the examples where each has several rows, or the sum of the weights of their classes; of a
// SoftCrossEntropy the rows with a target above 0; of a BinaryCrossEntropy the targets that are
// known; and else the number of examples. The mean loss times it is the sum of the losses, and
// gradients of several devices or workers, each multiplied by its own (SetGradScale), add up to
// those of one batch, however labels of −1 are spread.
//
// Of several losses the first cross-entropy decides. Labels that the graph computes are not known
// before the run: then it is the number of examples, as with Config.OwnMask.
func (p *Program) LossWeight() float64 {
	if p.weighs == nil || p.there == 0 {
		return float64(p.there)
	}
	switch labels := p.weighs.Data.(type) {
	case []int32:
		return labelled(labels[:p.plan.Rows(len(labels), p.there)], p.classWeights)
	case []int64:
		return labelled(labels[:p.plan.Rows(len(labels), p.there)], p.classWeights)
	case []int:
		return labelled(labels[:p.plan.Rows(len(labels), p.there)], p.classWeights)
	case []float32:
		if p.weighTargets != nil {
			return p.weighTargets(labels[:len(labels)/p.weighsRows*p.plan.Rows(p.weighsRows, p.there)])
		}
		return labelled(labels[:p.plan.Rows(len(labels), p.there)], p.classWeights)
	}
	return float64(p.there)
}

// ClassWeights are the weights of the classes in the first cross-entropy of the loss
// (CrossEntropyConfig); nil: all are 1.
func (p *Program) ClassWeights() []float32 { return slices.Clone(p.classWeights) }

// labelled adds up what labels weigh. One that is no class fails the run, and weighs nothing.
func labelled[T int32 | int64 | int | float32](labels []T, weights []float32) (sum float64) {
	for _, l := range labels {
		if k := int(l); l > -1 && (weights == nil || k < len(weights)) {
			sum += op.LabelWeight(weights, k)
		}
	}
	return sum
}

// findLabels finds the input of the first cross-entropy's labels or targets.
func (p *Program) findLabels() {
	if p.plan.Batch == 0 {
		return
	}
	// An output may be another loss than the root: the gradient is the root's.
	kinds := []plan.Kind{plan.CrossEntropyGrad, plan.SoftCrossEntropyGrad, plan.BinaryCrossEntropyGrad, plan.LinearCrossEntropyGrad}
	if p.plan.Inference {
		kinds = []plan.Kind{plan.CrossEntropy, plan.SoftCrossEntropy, plan.BinaryCrossEntropy, plan.LinearCrossEntropy}
	}
	for _, o := range p.plan.Ops {
		if !slices.Contains(kinds, o.Kind) {
			continue
		}
		// at is where the labels or targets are among the arguments.
		at := 1
		switch a := o.Attr.(type) {
		case *op.LinearCrossEntropy, *op.LinearCrossEntropyGrad:
			at = 2
		case *op.SoftmaxCrossEntropy:
			p.classWeights = a.Weights
		case *op.SoftmaxCrossEntropyGrad:
			p.classWeights = a.Weights
		case *op.SoftCrossEntropy, *op.SoftCrossEntropyGrad:
			classes := o.In[1].Shape[1]
			p.weighTargets = func(targets []float32) float64 { return op.CountSoft(targets, classes) }
		case *op.BinaryCrossEntropy, *op.BinaryCrossEntropyGrad:
			p.weighTargets = op.CountBinary[float32]
		}
		p.weighsRows = o.In[at].Shape[0]
		labels := o.In[at].Root()
		for i, v := range p.plan.Inputs {
			if v == labels {
				p.weighs = &p.host.Inputs[i]
			}
		}
		return
	}
}

package nn

import (
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// LossWeight is what the loss of the next run divides by, in the inputs as they are now: of a cross-entropy the number of labels among the examples
// that are not −1, which may be far more than the examples where each has several rows, and else the number of examples. The mean loss times it is
// the sum of the losses, and gradients of several devices or workers, each multiplied by its own (SetGradScale), add up to those of one batch, however
// labels of −1 are spread.
//
// Of several losses the first cross-entropy decides. Labels that the graph computes are not known before the run: then it is the number of examples,
// as with Config.OwnMask.
func (p *Program) LossWeight() int {
	if p.weighs == nil || p.there == 0 {
		return p.there
	}
	switch labels := p.weighs.Data.(type) {
	case []int32:
		return labelled(labels, p.plan.Rows(len(labels), p.there))
	case []int64:
		return labelled(labels, p.plan.Rows(len(labels), p.there))
	case []int:
		return labelled(labels, p.plan.Rows(len(labels), p.there))
	case []float32:
		return labelled(labels, p.plan.Rows(len(labels), p.there))
	}
	return p.there
}

func labelled[T int32 | int64 | int | float32](labels []T, there int) (n int) {
	for _, l := range labels[:there] {
		if l > -1 {
			n++
		}
	}
	return n
}

// findLabels finds the input of the first cross-entropy's labels.
func (p *Program) findLabels() {
	if p.plan.Batch == 0 {
		return
	}
	kind := plan.CrossEntropyGrad // of the root; an output may be another loss
	if p.plan.Inference {
		kind = plan.CrossEntropy
	}
	for _, o := range p.plan.Ops {
		if o.Kind != kind {
			continue
		}
		labels := o.In[1].Root()
		for i, v := range p.plan.Inputs {
			if v == labels {
				p.weighs = &p.host.Inputs[i]
			}
		}
		return
	}
}

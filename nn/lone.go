package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// checkLone is an error if a batch normalisation has one value of a channel in each step: its
// variance is 0 whatever the value is, so the layer would learn nothing from its input.
func checkLone(p *plan.Plan) error {
	if o := p.Lone(p.Batch); o != nil {
		return fmt.Errorf("%v of an argument of shape %v: expected more than 1 value per channel when training; take a larger batch, or images that are larger where this layer is", o.Attr, o.In[0].Shape)
	}
	return nil
}

// sayLone logs once that a short batch has one value of a channel.
func (p *Program) sayLone() {
	if p.there == 0 || p.there == p.plan.Batch || p.shared.lone {
		return
	}
	if o := p.plan.Lone(p.there); o != nil {
		p.shared.lone = true
		joblog.Process().Info("a short batch has one value of each channel, which has no variance; batch normalisations use their running statistics in such a step",
			"examples", p.there, "first", fmt.Sprint(o.Attr))
	}
}

package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A convolutions has the kernels of convolutions and of their gradients, over channels last.
type convolutions struct {
	mem     *memory
	threads threads
	newPlan func(conv.Shape, *pool.Pool) (*conv.Plan, error)

	// plans has one for all ops of a shape.
	plans map[conv.Shape]*conv.Plan
}

func (c *convolutions) builders() builders {
	return builders{plan.Conv2D: c.conv, plan.ConvBackwardData: c.conv, plan.ConvBackwardWeight: c.conv}
}

// convPlan is the plan of a convolution, one for all ops of its shape.
func (c *convolutions) convPlan(s conv.Shape) (*conv.Plan, error) {
	if p, ok := c.plans[s]; ok {
		return p, nil
	}
	p, err := c.newPlan(s, c.threads.pool)
	if err != nil {
		return nil, err
	}
	c.plans[s] = p
	return p, nil
}

// conv is a convolution or one of its gradients.
func (c *convolutions) conv(o *plan.Op) (kernel, error) {
	s, groups := convShape(o)
	switch {
	case groups > 1 && groups == s.C:
		return c.depthwise(o, s)
	case groups > 1:
		return c.grouped(o, s, groups)
	}
	p, err := c.convPlan(s)
	if err != nil {
		return kernel{}, err
	}
	for _, v := range append(o.Out[:1:1], o.In...) {
		if v.BFloat16() {
			return c.convStored(o, p), nil
		}
	}
	return kernel{scratch: 4 * int64(p.ScratchLen()), bind: func() func() error {
		out, a, b, scratch := c.mem.floats(o.Out[0]), c.mem.floats(o.In[0]), c.mem.floats(o.In[1]), c.mem.scratch(o)

		// The sum is in the argument's memory if no op needs that later.
		if len(o.In) > 2 {
			add := c.mem.floats(o.In[2])
			steps := []func(){func() {
				p.SetScratch(scratch)
				p.BackwardDataAdd(out, b, a)
			}}
			if &add[0] != &out[0] {
				steps = append([]func(){c.threads.split(len(out), grain, func(lo, hi int) { copy(out[lo:hi], add[lo:hi]) })}, steps...)
			}
			return then(steps...)
		}
		return then(func() {
			p.SetScratch(scratch)
			switch o.Kind {
			case plan.Conv2D:
				p.Forward(out, a, b)
			case plan.ConvBackwardData:
				p.BackwardData(out, b, a)
			default:
				p.BackwardWeight(out, a, b)
			}
		})
	}}, nil
}

// convStored is conv with images that are stored as bfloat16.
func (c *convolutions) convStored(o *plan.Op, p *conv.Plan) kernel {
	n := p.BackwardWeightScratchLen(o.In[0].BFloat16() || o.In[1].BFloat16())
	switch o.Kind {
	case plan.Conv2D:
		n = p.ForwardScratchLen(o.In[0].BFloat16())
	case plan.ConvBackwardData:
		n = p.BackwardDataScratchLen(o.In[1].BFloat16())
	}
	return kernel{scratch: 4 * int64(n), bind: func() func() error {
		out, a, b, scratch := c.mem.array(o.Out[0]), c.mem.array(o.In[0]), c.mem.array(o.In[1]), c.mem.scratch(o)
		switch {
		case o.Kind == plan.Conv2D:
			return then(func() { p.ForwardStored(out, a, b.F32, scratch) })
		case o.Kind == plan.ConvBackwardWeight:
			return then(func() { p.BackwardWeightStored(out.F32, a, b, scratch) })
		case len(o.In) < 3:
			return then(func() { p.BackwardDataStored(out, b, a.F32, scratch, false) })
		}
		add := func() { p.BackwardDataStored(out, b, a.F32, scratch, true) }
		rest := c.mem.array(o.In[2])
		if rest.Same(out) {
			return then(add)
		}
		return then(c.threads.split(out.Len(), grain, func(lo, hi int) { f32.Move(out.Part(lo, hi), rest.Part(lo, hi)) }), add)
	}}
}

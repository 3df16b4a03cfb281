package cuda

import "github.com/paragon-train/paragon/internal/compute/plan"

// cutPlan cuts the ops of a plan, or those that loss and outputs need, into segments. A new one
// begins where enough gradients are final to leave together, where enough parameters are needed
// next to have come, and behind the last output.
//
// Enough is a bucket of bytes, but less in the first layers: their gradients are the last to leave
// and their values the first that the next step wants, so that nothing is computed meanwhile. There
// the forward pass begins with an eighth of it, and may then wait for as much as has come already;
// and gradients leave as soon as they are half of what is left.
//
// Where neither travels, since the device changes the parameters, the only cut is behind the last
// output: one launch brings all gradients to the order of the parameters and one all parameters to
// their second form.
func cutPlan(p *plan.Plan, bucket int64, travel, forward bool) *schedule {
	var ops []int
	for i := range p.Ops {
		if !forward || p.Forward[i] {
			ops = append(ops, i)
		}
	}
	outputs := lastOutput(p, ops)
	c := &cutter{plan: p, bucket: bucket, least: bucket / 8, travel: travel, grads: !forward && p.Grads != nil,
		seen: make([]bool, len(p.Params)), schedule: &schedule{}, now: &segment{}}
	if c.grads {
		for _, v := range p.Params {
			c.left += v.Size()
		}
	}
	for k, i := range ops {
		c.add(i)
		if i == outputs {
			c.schedule.outputs = len(c.schedule.segments)
		}
		if k == len(ops)-1 || i == outputs || c.gradsSuffice() {
			c.cut()
		}
	}
	if len(c.schedule.segments) == 0 {
		c.cut()
	}
	return c.schedule
}

// A cutter is a plan that is being cut, op by op.
type cutter struct {
	plan          *plan.Plan
	bucket, least int64

	// travel is true if parameters come from the host and gradients go there.
	travel bool

	// grads is true if the ops make gradients.
	grads bool

	// seen says of each parameter whether an op has read it.
	seen []bool

	schedule *schedule
	now      *segment

	// The bytes are those of this segment's parameters, of earlier ones', of its gradients, and of
	// those to come.
	waiting, waited, finished, left int64
}

// add adds an op to the segment under way, or to a new one if this one waits for enough already.
func (c *cutter) add(i int) {
	first, bytes := c.firstReads(c.plan.Ops[i])
	if most := min(max(c.least, c.waited), c.bucket); c.travel && bytes > 0 && c.waiting >= most/2 && c.waiting+bytes > most {
		c.cut()
	}
	c.waiting += bytes
	c.now.waits = append(c.now.waits, first...)
	c.now.ops = append(c.now.ops, i)
	if !c.grads {
		return
	}
	for _, n := range c.plan.Ready[i] {
		c.now.ready = append(c.now.ready, n)
		c.finished += c.plan.Params[n].Size()
		c.left -= c.plan.Params[n].Size()
	}
}

// firstReads are the parameters that an op is the first to read, and their bytes.
func (c *cutter) firstReads(o *plan.Op) (params []int, bytes int64) {
	for _, v := range o.In {
		if v == nil || v.Root().Source != plan.Parameter || c.seen[v.Root().Index] {
			continue
		}
		n := v.Root().Index
		c.seen[n] = true
		params = append(params, n)
		bytes += c.plan.Params[n].Size()
	}
	return params, bytes
}

// gradsSuffice reports whether the segment's gradients are enough to leave.
func (c *cutter) gradsSuffice() bool {
	return c.travel && (c.finished >= c.bucket || c.finished >= max(c.least, c.left))
}

// cut ends the segment under way.
func (c *cutter) cut() {
	c.schedule.segments = append(c.schedule.segments, c.now)
	c.now, c.waited, c.waiting, c.finished = &segment{}, c.waited+c.waiting, 0, 0
}

// lastOutput is the last op that makes the loss or an output, or moves a running statistic.
func lastOutput(p *plan.Plan, ops []int) int {
	outputs := map[*plan.Value]bool{p.Loss.Root(): true}
	for _, v := range p.Outputs {
		outputs[v.Root()] = true
	}
	last := -1
	for _, i := range ops {
		o := p.Ops[i]
		if o.Kind == plan.BatchNorm && !p.Inference {
			last = i
		}
		for _, v := range o.Out {
			if v != nil && outputs[v.Root()] {
				last = i
			}
		}
	}
	return last
}

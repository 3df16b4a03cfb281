package plan

// Lone is the first batch normalisation that in training with n examples has one value of each
// channel; nil: there is none. Such a step uses the running statistics, as those of frozen layers
// always do.
func (p *Plan) Lone(n int) *Op {
	if p.Inference {
		return nil
	}
	for _, o := range p.Ops {
		if s := o.In; o.Kind == BatchNorm && !o.Frozen && p.Rows(s[0].Shape[0], n)*s[0].Shape[2:].TotalSize() == 1 {
			return o
		}
	}
	return nil
}

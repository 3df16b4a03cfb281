package plan

// hooks finds when parameters are first read, and when their gradients are final and neither is
// read any more.
func (p *Plan) hooks() {
	p.Ready = make([][]int, len(p.Ops))
	p.FirstUse = make([][]int, len(p.Ops))
	used := make([]bool, len(p.Params))
	ready := make([]int, len(p.Params))
	for i, o := range p.Ops {
		for _, v := range o.Out {
			if v != nil && v.Root().Source == Gradient {
				ready[v.Root().Index] = i
			}
		}
		for _, v := range o.In {
			if v == nil {
				continue
			}
			switch r := v.Root(); r.Source {
			case Gradient:
				// It is not ready before i, which makes another gradient of it.
				ready[r.Index] = i
			case Parameter:
				ready[r.Index] = i
				if !used[r.Index] {
					used[r.Index] = true
					p.FirstUse[i] = append(p.FirstUse[i], r.Index)
				}
			}
		}
	}
	if p.Grads == nil {
		return
	}
	for k, i := range ready {
		p.Ready[i] = append(p.Ready[i], k)
	}
}

// markForward finds the ops that loss and outputs depend on.
func (p *Plan) markForward() {
	p.Forward = make([]bool, len(p.Ops))
	wanted := map[*Value]bool{p.Loss.Root(): true}
	for _, v := range p.Outputs {
		wanted[v.Root()] = true
	}
	for i := len(p.Ops) - 1; i >= 0; i-- {
		for _, v := range p.Ops[i].Out {
			if v != nil && wanted[v.Root()] {
				p.Forward[i] = true
			}
		}
		if !p.Forward[i] {
			continue
		}
		for _, v := range p.Ops[i].In {
			if v != nil {
				wanted[v.Root()] = true
			}
		}
	}
}

// gradientsEarly moves each op that makes a parameter's gradient up to just after the last op it
// depends on, but not past another op that makes one: order among gradients stays.
func (p *Plan) gradientsEarly() {
	for i, o := range p.Ops {
		if !makesGradientOnly(o) {
			continue
		}
		j := i
		for j > 0 && !makesGradientOnly(p.Ops[j-1]) && !dependsOn(o, p.Ops[j-1]) {
			p.Ops[j] = p.Ops[j-1]
			j--
		}
		p.Ops[j] = o
	}
}

// makesGradientOnly is true if all results of o are gradients of parameters.
func makesGradientOnly(o *Op) bool {
	some := false
	for _, v := range o.Out {
		if v != nil {
			if v.Root().Source != Gradient {
				return false
			}
			some = true
		}
	}
	return some
}

func dependsOn(o, before *Op) bool {
	for _, in := range o.In {
		for _, out := range before.Out {
			if in != nil && out != nil && in.Root() == out.Root() {
				return true
			}
		}
	}
	return false
}

package plan

import "slices"

// recompute lets the backward pass compute results of cheap ops again that it would otherwise have
// to keep from the forward pass: normalisations of rows and activations in front of a linear layer,
// whose gradient alone reads them. The arguments are kept anyway, for the op's own gradient, so that
// of two arrays of each such op one goes. The numbers are the same, to the bit.
func (p *Plan) recompute() {
	p.markForward()
	for i := 0; i < len(p.Ops); i++ {
		o := p.Ops[i]
		if !p.Forward[i] {
			continue
		}
		again := o.again()
		if again == nil {
			continue
		}
		at, ok := p.readBackward(o.Out[0])
		if !ok || !p.aliveAt(again.In, at) {
			continue
		}
		y := o.Out[0]
		copied := *y
		copied.ID, copied.Name = p.values, y.Name+", again"
		p.values++
		again.Out[0] = &copied
		for _, reader := range p.Ops[at:] {
			for k, in := range reader.In {
				if in != nil && in.Root() == y {
					reader.In[k] = p.renamed(in, &copied)
				}
			}
		}
		p.Ops = slices.Insert(p.Ops, at, again)
		p.Forward = slices.Insert(p.Forward, at, false)
	}
}

// again is an op that makes result 0 of o, and nothing else, from what o's gradient reads; nil: there
// is none that is cheap.
func (o *Op) again() *Op {
	switch o.Kind {
	case RowNorm, Activation, SwiGLU:
	default:
		return nil
	}
	if o.Out[0] == nil || o.Out[0].Source != Temporary || o.Out[0].Alias != nil {
		return nil
	}
	again := *o
	again.In, again.Out = slices.Clone(o.In), make([]*Value, len(o.Out))
	if o.Kind == RowNorm && len(o.In) > 3 && o.In[3] != nil {
		if len(o.Out) < 4 || o.Out[3] == nil {
			return nil
		}
		// The sum is there.
		again.In, again.Out = []*Value{o.Out[3], o.In[1], o.In[2]}, make([]*Value, 3)
	}
	return &again
}

// readBackward is the first op of the backward pass that reads v; false if there is none, or if
// another op than the gradient of a linear layer does.
func (p *Plan) readBackward(v *Value) (at int, ok bool) {
	at = -1
	for i, o := range p.Ops {
		if p.Forward[i] || !slices.ContainsFunc(o.In, func(in *Value) bool { return in != nil && in.Root() == v }) {
			continue
		}
		if o.Kind != LinearGrad {
			return 0, false
		}
		if at < 0 {
			at = i
		}
	}
	return at, at >= 0
}

// aliveAt reports whether all values are still kept when op at begins.
func (p *Plan) aliveAt(values []*Value, at int) bool {
	for _, v := range values {
		if v == nil || v.Root().Source != Temporary {
			continue
		}
		read := slices.ContainsFunc(p.Ops[at:], func(o *Op) bool {
			return slices.ContainsFunc(o.In, func(in *Value) bool { return in != nil && in.Root() == v.Root() })
		})
		if !read {
			return false
		}
	}
	return true
}

// renamed is to under the shape of name, another name of the value that to stands for.
func (p *Plan) renamed(name, to *Value) *Value {
	if name.Alias == nil {
		return to
	}
	alias := *name
	alias.ID, alias.Alias = p.values, to
	p.values++
	return &alias
}

package plan

import (
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
)

// fuse joins ops so that fewer passes over memory are made. An op that takes in the one behind it
// moves to that one's place, where all arguments exist.
func (p *Plan) fuse() {
	// A residual is added by the batch normalisation in front of it.
	p.fuseInto(func(first, second *Op) bool {
		if first.Kind != BatchNorm || first.ReLU || len(first.In) > 3 || second.Kind != Add || second.ReLU || second.In[0] == second.In[1] {
			return false
		}
		return first.addRest(second)
	})

	// So is a ReLU computed, behind the sum if there is one.
	p.fuseInto(func(first, second *Op) bool {
		switch first.Kind {
		case BatchNorm, Add, BiasAdd, Linear:
		default:
			return false
		}
		if first.ReLU || second.Kind != ReLU {
			return false
		}
		first.ReLU = true
		return true
	})

	// So are activations of images that keep their result for the gradient, such as MobileNet's.
	p.fuseInto(func(first, second *Op) bool {
		if first.Kind != BatchNorm || first.ReLU || first.Behind != nil || second.Kind != Activation {
			return false
		}
		a := second.Attr.(*op.Activation)
		if !a.Function.KeepsResult() {
			return false
		}
		first.Behind = a
		return true
	})

	// Gradients that meet at a residual are added by the convolution that makes one of them.
	p.fuseInto(func(first, second *Op) bool {
		if first.Kind != ConvBackwardData || len(first.In) > 2 || second.Kind != Add || second.ReLU || second.In[0] == second.In[1] {
			return false
		}
		return first.addRest(second)
	})
	p.fuseMask()
	p.fuseRows()
}

// addRest makes what second adds to o's result an argument of o, if it lies in the same layout.
func (o *Op) addRest(second *Op) bool {
	rest := second.In[0]
	if rest == o.Out[0] {
		rest = second.In[1]
	}
	if rest.Layout != o.Out[0].Layout {
		return false
	}
	o.In = append(o.In, rest)
	return true
}

// fuseInto joins first and second, a pair in which second alone reads result 0 of first, wherever
// join says yes. The joined op is first, changed by join, with the results of second. Of two that
// could be first, the later one is.
func (p *Plan) fuseInto(join func(first, second *Op) bool) {
	for j := 0; j < len(p.Ops); j++ {
		second := p.Ops[j]
		args := slices.Clone(second.In)
		slices.SortStableFunc(args, func(a, b *Value) int { return p.definer(b, j) - p.definer(a, j) })
		for _, arg := range args {
			if arg == nil || arg.Alias != nil || arg.Source != Temporary {
				continue
			}
			i := p.definer(arg, j)
			if i < 0 || p.Ops[i].Out[0] != arg || p.uses(arg) != 1 || p.readBetween(p.Ops[i], i, j) {
				continue
			}
			first := p.Ops[i]
			if !join(first, second) {
				continue
			}
			first.Out[0] = second.Out[0]
			p.Ops[j] = first
			p.Ops = append(p.Ops[:i], p.Ops[i+1:]...)
			j--
			break
		}
	}
}

// fuseMask lets BatchNormGrad apply the gradient of the ReLU, or of the activation that keeps its
// result, in front of it, if no other op reads that gradient.
func (p *Plan) fuseMask() {
	for j := 0; j < len(p.Ops); j++ {
		second := p.Ops[j]
		if second.Kind != BatchNormGrad || second.In[5] != nil {
			continue
		}
		dz := second.In[4]
		if dz.Alias != nil || dz.Source != Temporary || p.uses(dz) != 1 {
			continue
		}
		i := p.definer(dz, j)
		if i < 0 || p.Ops[i].In[0] == nil || p.Ops[i].In[0].Layout != dz.Layout {
			continue
		}
		switch p.Ops[i].Kind {
		case ReLUGrad:
		case ActivationGrad:
			a := p.Ops[i].Attr.(*op.ActivationGrad)
			if !a.Function.KeepsResult() {
				continue
			}
			second.Behind = &op.Activation{Function: a.Function, Slope: a.Slope}
		default:
			continue
		}
		second.In[5], second.In[4] = p.Ops[i].In[0], p.Ops[i].In[1]
		p.Ops = append(p.Ops[:i], p.Ops[i+1:]...)
		j--
	}
}

// fuseResiduals lets BatchNormGrad apply the gradient of the ReLU in front of it where others read
// that, too: it becomes a result. The ReLU's op disappears; the normalisation stands in its place,
// in front of the others.
func (p *Plan) fuseResiduals() {
	for i := 0; i < len(p.Ops); i++ {
		first := p.Ops[i]
		if first.Kind != ReLUGrad || first.Out[0].Source != Temporary || first.Out[0].Alias != nil {
			continue
		}
		dz := first.Out[0]
		for j := i + 1; j < len(p.Ops); j++ {
			o := p.Ops[j]
			if o.Kind == BatchNormGrad && o.In[4] == dz && o.In[5] == nil && len(o.Out) == 3 && first.In[0].Layout == dz.Layout && p.movable(o, i, j, dz) {
				o.In[4], o.In[5] = first.In[1], first.In[0]
				o.Out = append(o.Out, dz)
				p.Ops[i] = o
				p.Ops = slices.Delete(p.Ops, j, j+1)
				break
			}
		}
	}
}

// movable reports whether o, op j, can stand at place i, of an op that makes dz: nothing else that
// it reads is made between.
func (p *Plan) movable(o *Op, i, j int, dz *Value) bool {
	for _, in := range o.In {
		if in == nil || in == dz {
			continue
		}
		for _, between := range p.Ops[i:j] {
			for _, out := range between.Out {
				if out != nil && out.Root() == in.Root() {
					return false
				}
			}
		}
	}
	return true
}

// definer is the index of the op before before that makes v, or -1.
func (p *Plan) definer(v *Value, before int) int {
	for i := before - 1; i >= 0; i-- {
		for _, o := range p.Ops[i].Out {
			if o == v {
				return i
			}
		}
	}
	return -1
}

// uses counts the arguments that are v's memory, under any name.
func (p *Plan) uses(v *Value) int {
	n := 0
	for _, o := range p.Ops {
		for _, in := range o.In {
			if in != nil && in.Root() == v.Root() {
				n++
			}
		}
	}
	return n
}

// readBetween is true if an op between places i and j reads a result of o.
func (p *Plan) readBetween(o *Op, i, j int) bool {
	for _, between := range p.Ops[i+1 : j] {
		if dependsOn(between, o) {
			return true
		}
	}
	return false
}

// dropUnused removes results that no op reads, and ops without results.
func (p *Plan) dropUnused() {
	for {
		read := make(map[*Value]bool)
		for _, o := range p.Ops {
			for _, v := range o.In {
				if v != nil {
					read[v.Root()] = true
				}
			}
		}
		kept := p.Ops[:0]
		changed := false
		for _, o := range p.Ops {
			wanted := false
			for i, v := range o.Out {
				if v == nil {
					continue
				}
				if r := v.Root(); r.Source == Temporary && !read[r] {
					o.Out[i] = nil
					changed = true
				} else {
					wanted = true
				}
			}
			if wanted {
				kept = append(kept, o)
			}
		}
		p.Ops = kept
		if !changed {
			return
		}
	}
}

package plan

import "slices"

// fuseTables joins the gradients of a table that several ops read, such as the embedding of a
// language model whose head multiplies by it, too: rows of lookups are added to the dense part
// where it lies. A pass over the table takes the place of three: zeros, rows, and the sum.
func (p *Plan) fuseTables() {
	p.fuseInto(func(first, second *Op) bool {
		if first.Kind != EmbeddingGrad || len(first.In) > 2 || second.Kind != Add || second.ReLU || second.In[0] == second.In[1] {
			return false
		}
		return first.addRest(second)
	})
	for j, o := range p.Ops {
		if o.Kind != EmbeddingGrad || len(o.In) < 3 {
			continue
		}
		// The dense part is made in the memory of the sum.
		part, sum := o.In[2], o.Out[0].Root()
		if part.Alias != nil || part.Source != Temporary || sum.Source != Gradient || p.uses(part) != 1 || p.definer(part, j) < 0 {
			continue
		}
		part.Alias, part.Source, part.Index = sum, sum.Source, sum.Index
	}
}

// fuseHeads computes the gradient of a head with its loss where its loss is computed, if it depends
// on nothing that comes later: the loss' own gradient is the seed, or a constant. So logits are computed once and
// kept nowhere.
func (p *Plan) fuseHeads() {
	for i := 0; i < len(p.Ops); i++ {
		forward := p.Ops[i]
		if forward.Kind != LinearCrossEntropy {
			continue
		}
		j := slices.IndexFunc(p.Ops, func(o *Op) bool {
			return o.Kind == LinearCrossEntropyGrad && len(o.Out) == 2 && slices.Equal(o.In[:3], forward.In) && (o.In[3].Source == Seed || o.In[3].Source == Constant)
		})
		if j < i {
			continue
		}
		back := p.Ops[j]
		back.Out = append(back.Out, forward.Out[0])
		p.Ops[i] = back
		p.Ops = slices.Delete(p.Ops, j, j+1)
	}
}

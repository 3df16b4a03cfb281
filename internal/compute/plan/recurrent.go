package plan

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

// Places of Recurrent's results.
const (
	recurrentAll   = 0
	recurrentParts = 4
	recurrentOuts  = 7
)

// recurrent has what the gradient needs as further results, and places for y, h and c.
func (l *lowering) recurrent(o *op.Recurrent) error {
	w := l.in[1].Shape
	z := op.RecurrentSizes{B: l.in[0].Shape[0], T: l.in[0].Shape[1], H: w[1]}
	if err := l.emit(Recurrent, RowMajor, o.Saved(z)); err != nil {
		return err
	}
	r := l.last()
	r.Out = append(r.Out, make([]*Value, recurrentOuts-recurrentParts)...)
	return nil
}

// recurrentGrad takes gates, kept and before out of the tuple.
func (l *lowering) recurrentGrad(o *op.RecurrentGrad) error {
	n := o.Arguments()
	saved := l.b.nodes[l.children[n]]
	if len(saved) != recurrentParts {
		return fmt.Errorf("plan: node %q: %v: argument %d is %q, want a recurrent layer", l.n.Name(), l.n.Op(), n, l.children[n].Name())
	}
	ds := l.in[n+1]
	l.in = append(l.in[:n:n], saved[1], saved[2], saved[3], ds)
	var more []tensor.Shape
	for i := 1; i < n; i++ {
		if !o.Integers(i) {
			more = append(more, l.in[i].Shape)
		}
	}
	if err := l.emit(RecurrentGrad, RowMajor, more); err != nil {
		return err
	}
	g := l.last()
	g.In = append(g.In, nil, nil, nil)
	return nil
}

// fuseRecurrent lets recurrent layers write y, h and c where they are wanted, and read their
// gradients there, in place of one array with all of them.
func (p *Plan) fuseRecurrent() {
	for i := 0; i < len(p.Ops); i++ {
		switch o := p.Ops[i]; o.Kind {
		case Recurrent:
			p.fuseStates(o)
		case RecurrentGrad:
			if p.fuseStatesGrad(o, i) {
				i--
			}
		}
	}
}

// fuseStates replaces the Slices of a recurrent layer's result by results of its own, if nothing
// else reads it.
func (p *Plan) fuseStates(o *Op) {
	all := o.Out[recurrentAll]
	steps := o.In[0].Shape[1]
	parts := make([]*Value, recurrentOuts-recurrentParts)
	pieces := make(map[*Op]bool)
	for _, s := range p.Ops {
		if s.Kind != Slice || s.In[0] != all {
			continue
		}
		k := statesPart(s.Attr.(*op.Slice).Axis, s.Attr.(*op.Slice).Lo, s.Out[0], steps)
		if k < 0 || parts[k] != nil {
			return
		}
		parts[k], pieces[s] = s.Out[0], true
	}
	if all.Source != Temporary || p.uses(all) != len(pieces) {
		return
	}
	o.Out[recurrentAll] = nil
	copy(o.Out[recurrentParts:], parts)
	p.remove(pieces)
}

// statesPart says what a piece of a recurrent layer's result is, from index lo of an axis on: y is 0,
// h 1 and c 2; −1 for any other.
func statesPart(axis, lo int, piece *Value, steps int) int {
	size := piece.Shape[1]
	switch {
	case axis != 1:
	case lo == 0 && size == steps:
		return 0
	case lo >= steps && size == 1:
		return 1 + lo - steps
	}
	return -1
}

// fuseStatesGrad makes what is joined to the gradient of a recurrent layer's result arguments of the
// gradient's op, op i, and reports whether it did.
func (p *Plan) fuseStatesGrad(o *Op, i int) bool {
	n := len(o.In) - 4
	ds := o.In[n]
	steps := o.In[0].Shape[1]
	j := p.definer(ds, i)
	if j < 0 || p.Ops[j].Kind != Join || ds.Alias != nil || ds.Source != Temporary || p.uses(ds) != 1 {
		return false
	}
	join := p.Ops[j]
	parts := make([]*Value, 3)
	for k, v := range join.In {
		part := statesPart(join.Axis, join.At[k], v, steps)
		if part < 0 || parts[part] != nil {
			return false
		}
		parts[part] = v
	}
	o.In[n] = nil
	copy(o.In[n+1:], parts)
	p.Ops = slices.Delete(p.Ops, j, j+1)
	return true
}

// remove takes ops out.
func (p *Plan) remove(these map[*Op]bool) {
	p.Ops = slices.DeleteFunc(p.Ops, func(o *Op) bool { return these[o] })
}

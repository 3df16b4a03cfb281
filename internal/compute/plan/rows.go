package plan

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// rows lowers the ops of rows and of shapes; done is false for any other.
func (l *lowering) rows() (done bool, err error) {
	switch o := l.n.Op().(type) {
	case *op.RowNorm:
		return true, l.rowNorm(o)
	case *op.RowNormGrad:
		return true, l.rowNormGrad(o)
	case *op.GroupNorm:
		return true, l.groupNorm(o)
	case *op.GroupNormGrad:
		return true, l.groupNormGrad()
	case *op.MatMul:
		return true, l.matMul(o)
	case *op.Concat:
		return true, l.concat(o)
	case *op.SliceGrad:
		if err := l.emit(Join, RowMajor, nil); err != nil {
			return true, err
		}
		l.last().Axis, l.last().At = o.Axis, []int{o.Lo}
		return true, nil
	case *op.Permute:
		if o.Moves(l.in[0].Shape) {
			return true, l.emit(Permute, RowMajor, nil)
		}
		l.alias()
		return true, nil
	case *op.Broadcast:
		if !o.Mul && o.A.Eq(o.B) {
			return true, l.alike(Add)
		}
		return true, l.emit(Broadcast, RowMajor, nil)
	}
	return false, nil
}

// rowNorm has the mean and the scale of each row as further results. There is no mean with RMS.
func (l *lowering) rowNorm(o *op.RowNorm) error {
	n := tensor.Shape{l.in[0].Len() / l.in[1].Len()}
	if err := l.emit(RowNorm, RowMajor, []tensor.Shape{n, n}); err != nil {
		return err
	}
	if r := l.last(); o.RMS {
		r.Out = []*Value{r.Out[0], nil, r.Out[2]}
		l.b.nodes[l.n] = r.Out
	}
	if !o.Bias {
		l.last().In = append(l.last().In, nil)
	}
	return nil
}

// saved has mean and rstd of the node whose tuple is argument 2.
func (l *lowering) saved(what string) (mean, rstd *Value, err error) {
	saved := l.b.nodes[l.children[2]]
	if len(saved) != 3 {
		return nil, nil, fmt.Errorf("plan: node %q: %v: argument 2 is %q, want a %s", l.n.Name(), l.n.Op(), l.children[2].Name(), what)
	}
	return saved[1], saved[2], nil
}

// rowNormGrad takes mean and rstd out of the tuple.
func (l *lowering) rowNormGrad(o *op.RowNormGrad) error {
	mean, rstd, err := l.saved("normalisation of rows")
	if err != nil {
		return err
	}
	x, w, dy := l.in[0], l.in[1], l.in[3]
	l.in = []*Value{x, w, rstd, dy}
	more := []tensor.Shape{w.Shape, w.Shape}
	if !o.Bias {
		more = more[:1]
	}
	if err := l.emit(RowNormGrad, RowMajor, more); err != nil {
		return err
	}
	g := l.last()
	g.In = []*Value{g.In[0], g.In[1], mean, g.In[2], g.In[3]}
	return nil
}

func (l *lowering) groupNorm(o *op.GroupNorm) error {
	n := tensor.Shape{l.in[0].Shape[0] * o.Groups}
	return l.emit(GroupNorm, ChannelsLast, []tensor.Shape{n, n})
}

// groupNormGrad takes mean and rstd out of the tuple.
func (l *lowering) groupNormGrad() error {
	mean, rstd, err := l.saved("group normalisation")
	if err != nil {
		return err
	}
	x, w, dy := l.in[0], l.in[1], l.in[3]
	l.in = []*Value{x, w, mean, rstd, dy}
	return l.emit(GroupNormGrad, ChannelsLast, []tensor.Shape{w.Shape, w.Shape})
}

func (l *lowering) matMul(o *op.MatMul) error {
	kind := BatchMatMul
	if o.Dims == 2 {
		kind = MatMul
	}
	if err := l.emit(kind, RowMajor, nil); err != nil {
		return err
	}
	l.last().Attr, l.last().TransA, l.last().TransB = o, o.TransA, o.TransB
	return nil
}

func (l *lowering) concat(o *op.Concat) error {
	at := make([]int, len(l.in))
	for i := range at[1:] {
		at[i+1] = at[i] + l.in[i].Shape[o.Axis]
	}
	if err := l.emit(Join, RowMajor, nil); err != nil {
		return err
	}
	l.last().Axis, l.last().At = o.Axis, at
	return nil
}

// fuseRows joins the ops of rows and of shapes with their neighbours.
func (p *Plan) fuseRows() {
	// The gradients of pieces that do not overlap are one Join.
	for j := 0; j < len(p.Ops); j++ {
		p.fuseJoins(&j)
	}

	// Gradients that meet at a residual are added where the normalisation behind it makes one of them.
	p.fuseInto(func(first, second *Op) bool {
		if first.Kind != RowNormGrad || len(first.In) > 5 || second.Kind != Add || second.ReLU || second.In[0] == second.In[1] {
			return false
		}
		return first.addRest(second)
	})
	p.fuseSums()
	p.fuseRecurrent()
}

// fuseJoins replaces op j, the sum of two Joins that nothing else reads, by one.
func (p *Plan) fuseJoins(j *int) {
	sum := p.Ops[*j]
	if sum.Kind != Add || sum.ReLU || sum.In[0] == sum.In[1] {
		return
	}
	var at [2]int
	for k, v := range sum.In {
		at[k] = p.definer(v, *j)
		if v.Alias != nil || v.Source != Temporary || at[k] < 0 || p.Ops[at[k]].Kind != Join || p.uses(v) != 1 {
			return
		}
	}
	a, b := p.Ops[at[0]], p.Ops[at[1]]
	if a.Axis != b.Axis || !a.apart(b) {
		return
	}
	b.In, b.At, b.Out = append(b.In, a.In...), append(b.At, a.At...), sum.Out
	p.Ops[*j] = b
	first, last := min(at[0], at[1]), max(at[0], at[1])
	p.Ops = append(p.Ops[:last], p.Ops[last+1:]...)
	p.Ops = append(p.Ops[:first], p.Ops[first+1:]...)
	*j -= 2
}

// apart reports whether the pieces of two Joins do not overlap.
func (o *Op) apart(b *Op) bool {
	for i, lo := range o.At {
		for k, from := range b.At {
			if lo < from+b.In[k].Shape[b.Axis] && from < lo+o.In[i].Shape[o.Axis] {
				return false
			}
		}
	}
	return true
}

// fuseSums lets a RowNorm compute the sum that it normalises, which others may read, too. It stands
// in the sum's place then.
func (p *Plan) fuseSums() {
	for i := 0; i < len(p.Ops); i++ {
		sum := p.Ops[i]
		if sum.Kind != Add || sum.ReLU {
			continue
		}
		s := sum.Out[0]
		for j := i + 1; j < len(p.Ops); j++ {
			o := p.Ops[j]
			if o.Kind != RowNorm || len(o.In) > 3 || o.In[0] != s || sum.In[0].Layout != s.Layout || sum.In[1].Layout != s.Layout || !p.movable(o, i, j, s) {
				continue
			}
			o.In[0], o.In = sum.In[0], append(o.In, sum.In[1])
			o.Out = append(o.Out, s)
			p.Ops[i] = o
			p.Ops = append(p.Ops[:j], p.Ops[j+1:]...)
			break
		}
	}
}

// shapeKeepsRows is keepsRows of the ops that change shapes: rows of argument i are rows of n, one
// after the other, unless the op moves axis 0, cuts it or repeats it. ok is false for other ops.
func shapeKeepsRows(n *gorgonia.Node, i int) (keeps, ok bool) {
	switch o := n.Op().(type) {
	case *op.MatMul:
		return o.Dims > 2 || i == 0 && !o.TransA, true
	case *op.Concat:
		return o.Axis != 0, true
	case *op.Slice:
		return o.Axis != 0, true
	case *op.Permute:
		return o.Axes[0] == 0, true
	case *op.Broadcast:
		s := op.Children(n)[i].Shape()
		return len(s) == n.Shape().Dims() && s[0] == n.Shape()[0], true
	}
	return false, false
}

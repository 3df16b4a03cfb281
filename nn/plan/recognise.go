package plan

import (
	"fmt"
	"strings"

	"gorgonia.org/tensor"
)

// foreign lowers an op that is not ours: to an op of ours where it is known to compute the same, else to its Do.
//
// gorgonia's op types are not exported; they are told by type name and String. A name that changes with a version of gorgonia
// costs speed, not correctness: the op runs by its Do.
func (l *lowering) foreign() error {
	o := l.n.Op()
	text := fmt.Sprint(o)
	switch fmt.Sprintf("%T", o) {
	case "gorgonia.elemBinOp":
		// Sums of gradients that meet at a node are made of these.
		if strings.HasPrefix(text, "+ ") && l.sameFloats() {
			return l.alike(Add)
		}
	case "gorgonia.reshapeOp":
		if !l.in[0].Boxed && l.in[0].Len() == l.n.Shape().TotalSize() {
			l.alias()
			return nil
		}
	}
	for i, v := range l.in {
		l.in[i] = l.b.as(v, RowMajor, l.n.Name())
	}
	v := l.b.newValue(l.n.Name(), l.n.Shape(), l.n.Dtype())
	l.b.plan.Ops = append(l.b.plan.Ops, &Op{Kind: Generic, Node: l.n.Name(), Attr: o, In: l.in, Out: []*Value{v}})
	l.b.nodes[l.n] = []*Value{v}
	return nil
}

// sameFloats is true if all arguments are float32 tensors of the node's shape.
func (l *lowering) sameFloats() bool {
	s := l.n.Shape()
	for _, v := range l.in {
		if v.Dtype != tensor.Float32 || !v.Shape.Eq(s) {
			return false
		}
	}
	return l.n.Dtype() == tensor.Float32
}

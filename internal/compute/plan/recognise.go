package plan

import (
	"fmt"
	"strings"

	"gorgonia.org/tensor"
)

// foreign lowers an op that is not ours: to an op of ours where it is known to compute the same,
// else to its Do.
//
// gorgonia's op types are not exported; they are recognised by type name and String. A name that
// changes with a version of gorgonia costs speed, not correctness: the op runs by its Do.
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
	if fmt.Sprintf("%T", o) == "gorgonia.linAlgBinOp" && l.matrices() {
		if trans, ok := products[text]; ok {
			if err := l.emit(MatMul, RowMajor, nil); err != nil {
				return err
			}
			l.last().TransA, l.last().TransB = trans[0], trans[1]
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

// products are the texts of gorgonia's matrix product, and which arguments it transposes.
var products = map[string][2]bool{
	"A × B":   {false, false},
	"Aᵀ × B":  {true, false},
	"A × Bᵀ":  {false, true},
	"Aᵀ × Bᵀ": {true, true},
}

// matrices is true if arguments and result are float32 matrices.
func (l *lowering) matrices() bool {
	for _, v := range l.in {
		if v.Dtype != tensor.Float32 || len(v.Shape) != 2 {
			return false
		}
	}
	return l.n.Dtype() == tensor.Float32 && l.n.Shape().Dims() == 2
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

package plan

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
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
		if strings.HasPrefix(text, "⊙ ") && l.sameFloats() && l.n.Shape().Dims() > 0 {
			s := l.n.Shape()
			return l.emitAs(Broadcast, &op.Broadcast{Mul: true, A: s, B: s})
		}
	case "gorgonia.reshapeOp":
		if !l.in[0].Boxed && l.in[0].Len() == l.n.Shape().TotalSize() {
			l.alias()
			return nil
		}
	}
	if done, err := l.moved(); done {
		return err
	}
	for i, v := range l.in {
		l.in[i] = l.b.as(v, RowMajor, l.n.Name())
	}
	v := l.b.newValue(l.n.Name(), l.n.Shape(), l.n.Dtype())
	l.b.plan.Ops = append(l.b.plan.Ops, &Op{Kind: Generic, Node: l.n.Name(), Attr: o, In: l.in, Out: []*Value{v}})
	l.b.nodes[l.n] = []*Value{v}
	return nil
}

// products are the texts of gorgonia's matrix product, and which arguments it transposes. That of
// batches has the sign three times.
var products = map[string][2]bool{
	"A × B":   {false, false},
	"Aᵀ × B":  {true, false},
	"A × Bᵀ":  {false, true},
	"Aᵀ × Bᵀ": {true, true},
}

// moved lowers gorgonia's products of matrices, and what moves numbers alone; done is false for
// other ops. Their attributes are read by reflection: those of another version that are not found
// leave the op to its Do.
func (l *lowering) moved() (done bool, err error) {
	if !l.floats() {
		return false, nil
	}
	o, dims := l.n.Op(), l.n.Shape().Dims()
	switch fmt.Sprintf("%T", o) {
	case "gorgonia.linAlgBinOp":
		trans, ok := products[strings.Replace(fmt.Sprint(o), "×××", "×", 1)]
		if !ok || dims < 2 || len(l.in[0].Shape) != dims || len(l.in[1].Shape) != dims {
			return false, nil
		}
		product := &op.MatMul{Dims: dims, TransA: trans[0], TransB: trans[1]}
		if s, err := product.InferShape(l.in[0].Shape, l.in[1].Shape); err != nil || !s.Eq(l.n.Shape()) {
			return false, nil
		}
		return true, l.matMul(product)
	case "gorgonia.transposeOp":
		axes, ok := field(o, "pattern", reflect.Slice)
		if !ok || axes.Len() != dims {
			return false, nil
		}
		permute := &op.Permute{Axes: make([]int, dims)}
		for i := range dims {
			permute.Axes[i] = int(axes.Index(i).Int())
		}
		if s, err := permute.InferShape(l.in[0].Shape); err != nil || !s.Eq(l.n.Shape()) {
			return false, nil
		}
		if !permute.Moves(l.in[0].Shape) {
			l.alias()
			return true, nil
		}
		return true, l.emitAs(Permute, permute)
	case "gorgonia.concatOp":
		axis, ok := field(o, "axis", reflect.Int)
		if !ok {
			return false, nil
		}
		concat := &op.Concat{Axis: int(axis.Int()), Dims: dims, Count: len(l.in)}
		sizes := make([]gorgonia.DimSizer, len(l.in))
		for i, v := range l.in {
			sizes[i] = v.Shape
		}
		if s, err := concat.InferShape(sizes...); err != nil || !s.Eq(l.n.Shape()) {
			return false, nil
		}
		return true, l.concat(concat)
	case "*gorgonia.sliceOp":
		axis, lo, hi, ok := slice(fmt.Sprint(o))
		if !ok || axis >= len(l.in[0].Shape) || hi-lo != l.n.Shape().TotalSize()*l.in[0].Shape[axis]/l.in[0].Len() {
			return false, nil
		}
		return true, l.emitAs(Slice, &op.Slice{Axis: axis, Lo: lo, Hi: hi, Dims: len(l.in[0].Shape)})
	case "gorgonia.sliceIncrOp":
		axis, lo, hi, ok := slice(strings.TrimSuffix(fmt.Sprint(o), "+=..."))
		part := l.n.Shape().Clone()
		if !ok || axis >= dims {
			return false, nil
		}
		part[axis] = hi - lo
		if part.TotalSize() != l.in[1].Len() {
			return false, nil
		}
		// The slice of one index has lost its axis. Of what was sliced only the shape counts.
		piece := l.b.newValue(l.in[1].Name, part, tensor.Float32)
		piece.Alias = l.b.as(l.in[1], RowMajor, l.n.Name())
		piece.Source, piece.Index = piece.Alias.Source, piece.Alias.Index
		l.in = []*Value{piece}
		if err := l.emit(Join, RowMajor, nil); err != nil {
			return true, err
		}
		l.last().Axis, l.last().At = axis, []int{lo}
		return true, nil
	}
	return false, nil
}

// slice reads the text of gorgonia's slice of one axis, "T[:, 2:5:1...]".
func slice(text string) (axis, lo, hi int, ok bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "T["), "...]"), ", ")
	var step int
	n, err := fmt.Sscanf(parts[len(parts)-1], "%d:%d:%d", &lo, &hi, &step)
	return len(parts) - 1, lo, hi, err == nil && n == 3 && (step == 1 || hi-lo == 1) && lo >= 0 && lo < hi
}

// field is a field of an op of gorgonia's.
func field(o gorgonia.Op, name string, kind reflect.Kind) (v reflect.Value, ok bool) {
	if s := reflect.ValueOf(o); s.Kind() == reflect.Struct {
		v = s.FieldByName(name)
	}
	return v, v.IsValid() && v.Kind() == kind
}

// emitAs emits the node as an op of ours.
func (l *lowering) emitAs(kind Kind, attr gorgonia.Op) error {
	if err := l.emit(kind, RowMajor, nil); err != nil {
		return err
	}
	l.last().Attr = attr
	return nil
}

// floats is true if arguments and result are float32 tensors.
func (l *lowering) floats() bool {
	for _, v := range l.in {
		if v.Dtype != tensor.Float32 || len(v.Shape) == 0 {
			return false
		}
	}
	return l.n.Dtype() == tensor.Float32 && l.n.Shape().Dims() > 0
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

package plan

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// poolKey finds the forward op of a MaxPool2DGrad: the same pool over the same argument.
type poolKey struct {
	x                   *Value
	kernel, stride, pad [2]int
}

// lower appends the op of node n.
func (b *builder) lower(n *gorgonia.Node) error {
	if _, done := b.nodes[n]; done {
		return nil
	}
	children := op.Children(n)
	if n.Op() == nil || len(children) == 0 && n.Value() != nil {
		b.leaf(n)
		return nil
	}
	in := make([]*Value, len(children))
	for i, c := range children {
		in[i] = b.nodes[c][0]
	}
	l := lowering{b, n, children, in}
	return l.lower()
}

// lowering is the lowering of one node.
type lowering struct {
	b        *builder
	n        *gorgonia.Node
	children gorgonia.Nodes

	// in has the first result of each child.
	in []*Value
}

// imageKind, rowKind and valueKind have the kinds of ops that are lowered without a look at their
// attributes; false: the op is not one of theirs. They are functions and not maps, for a program that
// imports nn alone would link all that a map of the package names.

// imageKind is of what computes on images, which does so channel-last.
func imageKind(o gorgonia.Op) (Kind, bool) {
	switch o.(type) {
	case *op.BiasAdd:
		return BiasAdd, true
	case *op.BiasGrad:
		return BiasGrad, true
	case *op.Conv2D:
		return Conv2D, true
	case *op.Conv2DBackwardData:
		return ConvBackwardData, true
	case *op.Conv2DBackwardWeight:
		return ConvBackwardWeight, true
	case *op.AvgPool2D:
		return AvgPool, true
	case *op.AvgPool2DGrad:
		return AvgPoolGrad, true
	case *op.GlobalAvgPool2D:
		return GlobalAvgPool, true
	case *op.GlobalAvgPool2DGrad:
		return GlobalAvgPoolGrad, true
	case *op.Upsample2D:
		return Upsample, true
	case *op.Upsample2DGrad:
		return UpsampleGrad, true
	}
	return 0, false
}

// rowKind is of what computes on rows, which takes its arguments as they are in gorgonia.
func rowKind(o gorgonia.Op) (Kind, bool) {
	switch o.(type) {
	case *op.Linear:
		return Linear, true
	case *op.Embedding:
		return Embedding, true
	case *op.EmbeddingGrad:
		return EmbeddingGrad, true
	case *op.Positions:
		return Positions, true
	case *op.PositionsGrad:
		return PositionsGrad, true
	case *op.LinearCrossEntropy:
		return LinearCrossEntropy, true
	case *op.Softmax:
		return Softmax, true
	case *op.SoftmaxGrad:
		return SoftmaxGrad, true
	case *op.SoftmaxCrossEntropy:
		return CrossEntropy, true
	case *op.SoftmaxCrossEntropyGrad:
		return CrossEntropyGrad, true
	case *op.SoftCrossEntropy:
		return SoftCrossEntropy, true
	case *op.SoftCrossEntropyGrad:
		return SoftCrossEntropyGrad, true
	case *op.BinaryCrossEntropy:
		return BinaryCrossEntropy, true
	case *op.BinaryCrossEntropyGrad:
		return BinaryCrossEntropyGrad, true
	case *op.CachedAttention:
		return CachedAttention, true
	case *op.Rotary:
		return Rotary, true
	case *op.Slice:
		return Slice, true
	case *op.SumTo:
		return SumTo, true
	}
	return 0, false
}

// valueKind is of what computes on each value alone, which takes any layout.
func valueKind(o gorgonia.Op) (Kind, bool) {
	switch o.(type) {
	case *op.ReLU:
		return ReLU, true
	case *op.ReLUGrad:
		return ReLUGrad, true
	case *op.Add:
		return Add, true
	case *op.MSE:
		return MSE, true
	case *op.MSEGrad:
		return MSEGrad, true
	case *op.Activation:
		return Activation, true
	case *op.ActivationGrad:
		return ActivationGrad, true
	case *op.SwiGLU:
		return SwiGLU, true
	}
	return 0, false
}

func (l *lowering) lower() error {
	o := l.n.Op()
	if kind, ok := imageKind(o); ok {
		return l.emit(kind, ChannelsLast, nil)
	}
	if kind, ok := rowKind(o); ok {
		return l.emit(kind, RowMajor, nil)
	}
	if kind, ok := valueKind(o); ok {
		return l.alike(kind)
	}
	switch o := o.(type) {
	case *op.Take:
		return l.take(o)
	case *op.Reshape:
		l.alias()
		return nil
	case *op.Dropout:
		if l.b.req.Inference || o.Rate == 0 {
			l.b.nodes[l.n] = l.in[:1]
			return nil
		}
		return l.alike(Dropout)
	case *op.BatchNorm2D:
		return l.batchNorm(o)
	case *op.BatchNorm2DGrad:
		return l.batchNormGrad(l.b.req.Frozen[o.Name])
	case *op.MaxPool2D:
		return l.maxPool(o)
	case *op.MaxPool2DGrad:
		return l.maxPoolGrad(o)
	case *op.SwiGLUGrad:
		return l.alike(SwiGLUGrad, l.n.Shape())
	case *op.LinearGrad:
		more := []tensor.Shape{l.in[1].Shape}
		if o.Bias {
			more = append(more, tensor.Shape{l.in[1].Shape[0]})
		}
		return l.emit(LinearGrad, RowMajor, more)
	case *op.Attention:
		return l.attention(o)
	case *op.AttentionGrad:
		return l.attentionGrad(o)
	case *op.ConvTranspose2D:
		l.in = []*Value{l.in[1], l.in[0]}
		if err := l.emit(ConvBackwardData, ChannelsLast, nil); err != nil {
			return err
		}
		l.last().Attr = o.Data(l.n.Shape())
		return nil
	case *op.Recurrent:
		return l.recurrent(o)
	case *op.RecurrentGrad:
		return l.recurrentGrad(o)
	case *op.ClassToken:
		return l.emit(ClassToken, RowMajor, nil)
	case *op.ClassTokenGrad:
		return l.emit(ClassTokenGrad, RowMajor, []tensor.Shape{{1, 1, l.in[0].Shape[2]}})
	case *op.LinearCrossEntropyGrad:
		return l.emit(LinearCrossEntropyGrad, RowMajor, []tensor.Shape{l.in[1].Shape})
	}
	if done, err := l.rows(); done {
		return err
	}
	return l.foreign()
}

// take gives the node one result of its argument.
func (l *lowering) take(o *op.Take) error {
	all := l.b.nodes[l.children[0]]
	if o.Index >= len(all) {
		return fmt.Errorf("plan: node %q: %v of a node with %d results", l.n.Name(), o, len(all))
	}
	l.b.nodes[l.n] = all[o.Index : o.Index+1]
	return nil
}

// batchNorm has mean and invstd as further results in training.
func (l *lowering) batchNorm(o *op.BatchNorm2D) error {
	if l.b.req.Inference {
		return l.emit(BatchNorm, ChannelsLast, nil)
	}
	c := tensor.Shape{l.in[0].Channels()}
	if err := l.emit(BatchNorm, ChannelsLast, []tensor.Shape{c, c}); err != nil {
		return err
	}
	l.last().Frozen = l.b.req.Frozen[o.State.Name]
	return nil
}

// maxPool remembers the op, for its gradient's.
func (l *lowering) maxPool(o *op.MaxPool2D) error {
	if err := l.emit(MaxPool, ChannelsLast, nil); err != nil {
		return err
	}
	if l.b.pools == nil {
		l.b.pools = make(map[poolKey]*Op)
	}
	l.b.pools[poolKey{l.in[0].Root(), o.Kernel, o.Stride, o.Pad}] = l.last()
	return nil
}

// emit appends an op of ours. Arguments and results with four dimensions are in the given layout,
// except weights: arguments of convolutions that are OIHW and a convolution's weight gradient. more
// are the shapes of results from 1 on.
func (l *lowering) emit(kind Kind, layout Layout, more []tensor.Shape) error {
	o := &Op{Kind: kind, Node: l.n.Name(), Attr: l.n.Op()}
	for i, v := range l.in {
		if err := l.check(i, v); err != nil {
			return err
		}
		want := layout
		if kind == Conv2D && i == 1 || kind == ConvBackwardData && i == 0 {
			want = RowMajor
		}
		o.In = append(o.In, l.b.as(v, want, l.n.Name()))
	}
	shapes := append([]tensor.Shape{l.n.Shape()}, more...)
	for i, s := range shapes {
		v := l.b.newValue(l.n.Name(), s, tensor.Float32)
		if len(s) == 4 && kind != ConvBackwardWeight {
			v.Layout = layout
		}
		if i > 0 {
			v.Name = fmt.Sprintf("%s result %d", v.Name, i)
		}
		o.Out = append(o.Out, v)
	}
	l.b.plan.Ops = append(l.b.plan.Ops, o)
	l.b.nodes[l.n] = o.Out
	return nil
}

// alike emits an elementwise op: all arguments with four dimensions in one layout, channel-last if
// one of them is. more are the shapes of results from 1 on.
func (l *lowering) alike(kind Kind, more ...tensor.Shape) error {
	layout := RowMajor
	for _, v := range l.in {
		layout = max(layout, v.Layout)
	}
	return l.emit(kind, layout, more)
}

func (l *lowering) last() *Op { return l.b.plan.Ops[len(l.b.plan.Ops)-1] }

// check is an error if argument i is of a type that our ops do not compute with.
func (l *lowering) check(i int, v *Value) error {
	isIndex := false
	switch o := l.n.Op().(type) {
	case *op.Embedding, *op.SoftmaxCrossEntropy, *op.SoftmaxCrossEntropyGrad:
		isIndex = i == 1
	case *op.LinearCrossEntropy, *op.LinearCrossEntropyGrad:
		isIndex = i == 2
	case *op.EmbeddingGrad:
		isIndex = i == 0
	case *op.Positions:
		isIndex = i == 2
	case *op.Rotary:
		isIndex = i == 1
	case *op.CachedAttention:
		isIndex = i == o.Arguments()
	case *op.Attention:
		isIndex = o.Integers(i)
	case *op.AttentionGrad:
		isIndex = o.Forward.Integers(i)
	case *op.Recurrent:
		isIndex = o.Integers(i)
	case *op.RecurrentGrad:
		isIndex = o.Integers(i)
	}
	if v.Dtype == tensor.Float32 {
		return nil
	}
	if !isIndex {
		return fmt.Errorf("plan: node %q: %v: argument %d (%q) is %v; executors compute in float32", l.n.Name(), l.n.Op(), i, v.Name, v.Dtype)
	}
	switch v.Dtype {
	case tensor.Int, tensor.Int32, tensor.Int64:
		return nil
	}
	return fmt.Errorf("plan: node %q: %v: argument %d (%q) is %v, want int32, int64, int or float32", l.n.Name(), l.n.Op(), i, v.Name, v.Dtype)
}

// alias gives the node's argument another shape without moving it.
func (l *lowering) alias() {
	v := l.b.as(l.in[0], RowMajor, l.n.Name())
	a := l.b.newValue(l.n.Name(), l.n.Shape(), v.Dtype)
	a.Alias, a.Source, a.Index = v, v.Source, v.Index
	l.b.nodes[l.n] = []*Value{a}
}

// batchNormGrad takes mean and invstd out of the tuple.
func (l *lowering) batchNormGrad(frozen bool) error {
	saved := l.b.nodes[l.children[2]]
	if len(saved) != 3 {
		return fmt.Errorf("plan: node %q: %v: argument 2 is %q, want a batch normalisation in training", l.n.Name(), l.n.Op(), l.children[2].Name())
	}
	x, gamma, dy := l.in[0], l.in[1], l.in[3]
	l.in = []*Value{x, gamma, saved[1], saved[2], dy, nil}[:5]
	if err := l.emit(BatchNormGrad, ChannelsLast, []tensor.Shape{gamma.Shape, gamma.Shape}); err != nil {
		return err
	}
	o := l.last()
	o.In, o.Frozen = append(o.In, nil), frozen
	return nil
}

// maxPoolGrad makes the forward op keep which element it chose.
func (l *lowering) maxPoolGrad(o *op.MaxPool2DGrad) error {
	if area := o.Kernel[0] * o.Kernel[1]; area > 256 {
		return fmt.Errorf("plan: node %q: %v: a window of %d elements, want at most 256", l.n.Name(), o, area)
	}
	forward := l.b.pools[poolKey{l.in[0].Root(), o.Kernel, o.Stride, o.Pad}]
	if forward == nil {
		return fmt.Errorf("plan: node %q: %v: its forward op is not in the graph", l.n.Name(), o)
	}
	if len(forward.Out) == 1 {
		choice := l.b.newValue(forward.Out[0].Name+" choice", forward.Out[0].Shape, tensor.Uint8)
		choice.Bytes, choice.Boxed, choice.Layout = 1, false, ChannelsLast
		forward.Out = append(forward.Out, choice)
	}
	dy := l.in[1]
	l.in = []*Value{dy}
	if err := l.emit(MaxPoolGrad, ChannelsLast, nil); err != nil {
		return err
	}
	g := l.last()
	g.In = []*Value{forward.Out[1], g.In[0]}
	return nil
}

// as returns v in a layout, through a Convert op where numbers have to move. Values that have not
// four dimensions have one layout only.
func (b *builder) as(v *Value, layout Layout, node string) *Value {
	if v.Layout == layout || len(v.Shape) != 4 {
		return v
	}
	if o, ok := b.other[v]; ok {
		return o
	}
	o := b.newValue(v.Name, v.Shape, v.Dtype)
	o.Layout, o.Boxed = layout, v.Boxed
	if v.Shape[1] == 1 || v.Shape[2]*v.Shape[3] == 1 {
		o.Alias, o.Source, o.Index = v, v.Source, v.Index
	} else {
		b.plan.Ops = append(b.plan.Ops, &Op{Kind: Convert, Node: node, In: []*Value{v}, Out: []*Value{o}})
	}
	b.other[v], b.other[o] = o, v
	return o
}

package cuda

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A convolutions has the launches of convolutions and of their gradients.
type convolutions struct {
	gpu   *GPU
	owned *owned

	// ops are the plan's.
	ops []*plan.Op

	plans map[convKey]convPlan
}

// A convKey is what a plan of the library is chosen for.
type convKey struct {
	pass cudnn.Op
	conv cudnn.Conv
}

func (f *convolutions) lowerers() lowerers {
	return lowerers{plan.Conv2D: f.conv, plan.ConvBackwardData: f.convData, plan.ConvBackwardWeight: f.convWeight}
}

// close closes the plans. It is called once no launch of them runs any more.
func (f *convolutions) close() (errs []error) {
	for _, p := range f.plans {
		errs = append(errs, p.Close())
	}
	return errs
}

// choose is the library's plan for a pass, one for all ops that ask the same.
func (f *convolutions) choose(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	key := convKey{pass, c}
	if p, ok := f.plans[key]; ok {
		return p, nil
	}
	p, err := f.gpu.vendor.conv(pass, c)
	if err != nil {
		return nil, err
	}
	f.plans[key] = p
	return p, nil
}

// plan chooses the library's plan for a pass of an op.
func (f *convolutions) plan(l *lowering, pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	p, err := f.choose(pass, c)
	if err != nil {
		return nil, err
	}
	l.workspace = max(l.workspace, p.Workspace())
	return p, nil
}

// refused is an error for what only the CPU computes.
func refused(r op.Reach, o gorgonia.Op) error {
	if r.Plain() {
		return nil
	}
	return fmt.Errorf("%v: GPUs have no convolutions with groups, dilation, or padding that differs from side to side; run it on the CPU", o)
}

// conv is the forward pass. Where the image has another type or fewer lanes than the library
// multiplies, it goes through scratch memory on both sides.
func (f *convolutions) conv(l *lowering) (lowered, error) {
	o := l.o
	a := o.Attr.(*op.Conv2D)
	if err := refused(a.Reach, a); err != nil {
		return lowered{}, err
	}
	x := l.image(o.In[0])
	w, err := l.operand(o.In[1], weightForm(l.typ, o.In[1].Shape))
	if err != nil {
		return lowered{}, err
	}
	p, err := f.plan(l, cudnn.Forward, question(l.typ, o.In[0].Shape, o.In[1].Shape, a.Stride, a.Pad))
	if err != nil {
		return lowered{}, err
	}
	y, after := l.result(o.Out[0])
	return l.done(append([]func() launch{f.run(l, p, x, w, y)}, after...)...), nil
}

// convData is dx of a convolution, plus what meets it at a residual: by a plan that adds to what
// its memory holds, or in a pass of its own where the library has none or where that is faster.
func (f *convolutions) convData(l *lowering) (lowered, error) {
	o := l.o
	a := o.Attr.(*op.Conv2DBackwardData)
	if err := refused(a.Reach, a); err != nil {
		return lowered{}, err
	}
	w, err := l.operand(o.In[0], weightForm(l.typ, o.In[0].Shape))
	if err != nil {
		return lowered{}, err
	}
	dy := l.image(o.In[1])
	p, err := f.plan(l, cudnn.BackwardData, question(l.typ, a.XShape, o.In[0].Shape, a.Stride, a.Pad))
	if err != nil {
		return lowered{}, err
	}
	dx := o.Out[0]
	if len(o.In) == 2 {
		y, after := l.result(dx)
		return l.done(append([]func() launch{f.run(l, p, y, w, dy)}, after...)...), nil
	}
	c := question(l.typ, a.XShape, o.In[0].Shape, a.Stride, a.Pad)
	if typeOf(dx) == l.typ.typ() && c.C == dx.Shape[1] {
		sum, err := f.accumulates(l, c, p, dx)
		if err != nil {
			return lowered{}, err
		}
		if sum != nil {
			return l.done(f.copied(l, dx, o.In[2]), f.run(l, sum, l.place(dx), w, dy)), nil
		}
	}
	return f.sumApart(l, p, w, dy), nil
}

// sumApart is dx by a plan that does not add, and then the sum with what meets it. The sum may lie
// over what is added, so the product has a place of its own.
func (f *convolutions) sumApart(l *lowering, p convPlan, w, dy func() drv.Ptr) lowered {
	dx, rest := l.o.Out[0], l.o.In[2]
	t, n, channels := typeOf(dx), int64(dx.Len()), dx.Shape[1]
	lanes, from := l.typ.lanes(channels), l.typ.typ()
	wide := l.room(n / int64(channels) * int64(lanes) * from.Size())
	launches := []func() launch{f.run(l, p, wide, w, dy)}
	product := wide
	if lanes != channels || from != t {
		product = l.room(n * t.Size())
		launches = append(launches, func() launch {
			src, dst := wide(), product()
			return func(s drv.Stream) error {
				return f.gpu.kernels.ToChannelsFirst(s, t, from, int(n)/channels, channels, 1, lanes, dst, src)
			}
		})
	}
	launches = append(launches, func() launch {
		out, add, sum := l.at(dx), l.at(rest), product()
		return func(s drv.Stream) error { return f.gpu.kernels.Add(s, t, n, out, sum, add, false) }
	})
	return l.done(launches...)
}

// accumulates is a plan that adds to what dx holds; nil if there is none, or if plan and a sum
// after it are faster.
func (f *convolutions) accumulates(l *lowering, c cudnn.Conv, plan convPlan, dx *plan.Value) (convPlan, error) {
	c.Accumulate = true
	sum, err := f.choose(cudnn.BackwardData, c)
	if err != nil && cudnn.Refused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, n := typeOf(dx), int64(dx.Len())
	apart, err := f.gpu.vendor.apart(c, sum, plan, func(s drv.Stream, y, a, b drv.Ptr) error {
		return f.gpu.kernels.Add(s, t, n, y, a, b, false)
	})
	if err != nil || apart {
		return nil, err
	}
	l.workspace = max(l.workspace, sum.Workspace())
	return sum, nil
}

// copied brings what is added to dx's memory, unless it lies there.
func (f *convolutions) copied(l *lowering, dx, add *plan.Value) func() launch {
	return func() launch {
		dst, src, bytes := l.at(dx), l.at(add), dx.Size()
		return func(s drv.Stream) error {
			if dst == src {
				return nil
			}
			return f.gpu.context.CopyOnDevice(dst, src, bytes, s)
		}
	}
}

// convWeight is dw of a convolution. A gradient that goes to the host stays as the library makes
// it, in memory of its own, until the segment's end, where one launch brings all of them to the
// host's order.
func (f *convolutions) convWeight(l *lowering) (lowered, error) {
	o := l.o
	a := o.Attr.(*op.Conv2DBackwardWeight)
	if err := refused(a.Reach, a); err != nil {
		return lowered{}, err
	}
	x, dy := l.image(o.In[0]), l.image(o.In[1])
	c := question(l.typ, o.In[0].Shape, a.WShape, a.Stride, a.Pad)
	c.Weight = cudnn.Float32
	p, err := f.plan(l, cudnn.BackwardWeight, c)
	if err != nil {
		return lowered{}, err
	}
	dw, t := o.Out[0], weightForm(l.typ, a.WShape)
	if p.Conv().Weight == cudnn.Float32 {
		t.Type = kernels.Float32
	}
	if plain(t) {
		return l.done(f.run(l, p, x, l.place(dw), dy)), nil
	}
	if r := dw.Root(); r.Source == plan.Gradient && !isRead(f.ops, r) {
		at, err := f.owned.allocate("gradients of weights", tensorBytes(t))
		if err != nil {
			return lowered{}, err
		}
		l.forms.leave(r.Index, l.at(dw), at, t)
		return l.done(f.run(l, p, x, func() drv.Ptr { return at }, dy)), nil
	}
	room := l.room(tensorBytes(t))
	return l.done(f.run(l, p, x, room, dy), func() launch {
		src, dst := room(), l.at(dw)
		return func(s drv.Stream) error {
			return f.gpu.kernels.ToChannelsFirst(s, kernels.Float32, t.Type, t.K, t.C, t.R*t.S, t.PadC, dst, src)
		}
	}), nil
}

// run is a pass of a convolution.
func (f *convolutions) run(l *lowering, p convPlan, x, w, y func() drv.Ptr) func() launch {
	return func() launch {
		xa, wa, ya := x(), w(), y()
		return func(s drv.Stream) error { return p.Run(s, l.workspaceAt(), xa, wa, ya) }
	}
}

// dnnType is a type as cuDNN knows it.
func dnnType(t kernels.Type) cudnn.DType {
	switch t {
	case kernels.BFloat16:
		return cudnn.BFloat16
	case kernels.Float16:
		return cudnn.Float16
	}
	return cudnn.Float32
}

// question is the convolution that an op is a pass of: x and w are its images' and its weights'
// shapes. Channels are padded to whole 16 bytes, which is what the library's fast engines want.
func question(c Compute, x, w tensor.Shape, stride, pad [2]int) cudnn.Conv {
	t := dnnType(c.typ())
	return cudnn.Conv{N: x[0], C: c.lanes(x[1]), H: x[2], W: x[3], K: c.lanes(w[0]), R: w[2], S: w[3], Pad: pad, Stride: stride,
		In: t, Weight: t, Out: t, TF32: c == TF32}
}

// weightForm is the form of a convolution's weights (K,C,R,S) that the library takes: (K,R,S,C),
// padded, in the type that is multiplied.
func weightForm(c Compute, w tensor.Shape) kernels.Tensor {
	return kernels.Tensor{Type: c.typ(), K: w[0], C: w[1], R: w[2], S: w[3], PadK: c.lanes(w[0]), PadC: c.lanes(w[1])}
}

// isRead reports whether one of the ops reads v.
func isRead(ops []*plan.Op, v *plan.Value) bool {
	for _, o := range ops {
		for _, in := range o.In {
			if in != nil && in.Root() == v {
				return true
			}
		}
	}
	return false
}

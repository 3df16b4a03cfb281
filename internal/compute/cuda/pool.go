package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// pool is one of the windowed pools or their gradients.
func (l *lowering) pool() lowered {
	o, e := l.o, l.e
	x := o.In[0] // the larger image
	if o.Kind == plan.MaxPoolGrad || o.Kind == plan.AvgPoolGrad {
		x = o.Out[0]
	}
	p := kernels.Pool{Type: typeOf(x), N: x.Shape[0], C: x.Shape[1], H: x.Shape[2], W: x.Shape[3]}
	switch a := o.Attr.(type) {
	case *op.MaxPool2D:
		p.Kernel, p.Stride, p.Pad = a.Kernel, a.Stride, a.Pad
	case *op.MaxPool2DGrad:
		p.Kernel, p.Stride, p.Pad = a.Kernel, a.Stride, a.Pad
	case *op.AvgPool2D:
		p.Kernel, p.Stride, p.Pad, p.ExcludePad = a.Kernel, a.Stride, a.Pad, a.ExcludePad
	case *op.AvgPool2DGrad:
		p.Kernel, p.Stride, p.Pad, p.ExcludePad = a.Kernel, a.Stride, a.Pad, a.ExcludePad
	}
	return l.done(func() launch {
		k := e.gpu.kernels
		in, out := e.at(o.In[0]), e.at(o.Out[0])
		switch o.Kind {
		case plan.MaxPool:
			var choice drv.Ptr
			if len(o.Out) > 1 {
				choice = e.at(o.Out[1])
			}
			return func(s drv.Stream) error { return k.MaxPool(s, p, out, choice, in) }
		case plan.MaxPoolGrad:
			dy := e.at(o.In[1])
			return func(s drv.Stream) error { return k.MaxPoolGrad(s, p, out, in, dy) }
		case plan.AvgPool:
			return func(s drv.Stream) error { return k.AvgPool(s, p, out, in) }
		}
		return func(s drv.Stream) error { return k.AvgPoolGrad(s, p, out, in) }
	})
}

// globalAvgPool is the mean of each channel; its result may be wider than x, and narrower by a
// cast.
func (l *lowering) globalAvgPool() lowered {
	o, e := l.o, l.e
	x, y := o.In[0], o.Out[0]
	n, c, pixels := x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]
	from, to := typeOf(x), typeOf(y)
	if from == kernels.Float32 && to != from {
		wide := l.room(4 * int64(n*c))
		return l.done(func() launch {
			in, out := e.at(x), wide()
			return func(s drv.Stream) error { return e.gpu.kernels.GlobalAvgPool(s, from, from, n, pixels, c, out, in) }
		}, l.cast(y, wide))
	}
	return l.done(func() launch {
		in, out := e.at(x), e.at(y)
		return func(s drv.Stream) error { return e.gpu.kernels.GlobalAvgPool(s, from, to, n, pixels, c, out, in) }
	})
}

func (l *lowering) globalAvgPoolGrad() lowered {
	o, e := l.o, l.e
	dx := o.Out[0]
	n, c, pixels := dx.Shape[0], dx.Shape[1], dx.Shape[2]*dx.Shape[3]
	t := typeOf(dx)
	dy, dyType := l.floats(o.In[0], t)
	return l.done(func() launch {
		in, out := dy(), e.at(dx)
		return func(s drv.Stream) error { return e.gpu.kernels.GlobalAvgPoolGrad(s, t, dyType, n, pixels, c, out, in) }
	})
}

// cast sets v from float32 numbers.
func (l *lowering) cast(v *plan.Value, from func() drv.Ptr) func() launch {
	return func() launch {
		to, n, src, dst := typeOf(v), int64(v.Len()), from(), l.e.at(v)
		return func(s drv.Stream) error { return l.e.gpu.kernels.Cast(s, to, kernels.Float32, n, dst, src) }
	}
}

// floats gives v in its own type if that is t or float32, else as float32 through a cast.
func (l *lowering) floats(v *plan.Value, t kernels.Type) (at func() drv.Ptr, typ kernels.Type) {
	from := typeOf(v)
	if from == t || from == kernels.Float32 {
		return func() drv.Ptr { return l.e.at(v) }, from
	}
	return l.as(v, kernels.Float32), kernels.Float32
}

// as gives v's numbers, in their order, in type t: v itself where it has it, else a cast into
// scratch memory that is launched first.
func (l *lowering) as(v *plan.Value, t kernels.Type) func() drv.Ptr {
	from, e := typeOf(v), l.e
	if from == t {
		return func() drv.Ptr { return e.at(v) }
	}
	n := int64(v.Len())
	room := l.room(n * t.Size())
	l.before = append(l.before, func() launch {
		src, dst := e.at(v), room()
		return func(s drv.Stream) error { return e.gpu.kernels.Cast(s, t, from, n, dst, src) }
	})
	return room
}

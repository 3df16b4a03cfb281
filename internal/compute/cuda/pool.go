package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A pools has the launches of pools and of their gradients.
type pools struct{ gpu *GPU }

func (f *pools) lowerers() lowerers {
	return lowerers{
		plan.MaxPool: f.pool, plan.MaxPoolGrad: f.pool, plan.AvgPool: f.pool, plan.AvgPoolGrad: f.pool,
		plan.GlobalAvgPool: f.globalAvgPool, plan.GlobalAvgPoolGrad: f.globalAvgPoolGrad,
	}
}

// pool is one of the windowed pools or their gradients.
func (f *pools) pool(l *lowering) (lowered, error) {
	o := l.o

	// x is the larger image.
	x := o.In[0]
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
		k := f.gpu.kernels
		in, out := l.at(o.In[0]), l.at(o.Out[0])
		switch o.Kind {
		case plan.MaxPool:
			var choice drv.Ptr
			if len(o.Out) > 1 {
				choice = l.at(o.Out[1])
			}
			return func(s drv.Stream) error { return k.MaxPool(s, p, out, choice, in) }
		case plan.MaxPoolGrad:
			dy := l.at(o.In[1])
			return func(s drv.Stream) error { return k.MaxPoolGrad(s, p, out, in, dy) }
		case plan.AvgPool:
			return func(s drv.Stream) error { return k.AvgPool(s, p, out, in) }
		}
		return func(s drv.Stream) error { return k.AvgPoolGrad(s, p, out, in) }
	}), nil
}

// globalAvgPool is the mean of each channel; its result may be wider than x, and narrower by a
// cast.
func (f *pools) globalAvgPool(l *lowering) (lowered, error) {
	o := l.o
	x, y := o.In[0], o.Out[0]
	n, c, pixels := x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]
	from, to := typeOf(x), typeOf(y)
	if from == kernels.Float32 && to != from {
		wide := l.room(4 * int64(n*c))
		return l.done(func() launch {
			in, out := l.at(x), wide()
			return func(s drv.Stream) error { return f.gpu.kernels.GlobalAvgPool(s, from, from, n, pixels, c, out, in) }
		}, l.cast(y, wide)), nil
	}
	return l.done(func() launch {
		in, out := l.at(x), l.at(y)
		return func(s drv.Stream) error { return f.gpu.kernels.GlobalAvgPool(s, from, to, n, pixels, c, out, in) }
	}), nil
}

// globalAvgPoolGrad spreads each channel's gradient evenly over its pixels.
func (f *pools) globalAvgPoolGrad(l *lowering) (lowered, error) {
	o := l.o
	dx := o.Out[0]
	n, c, pixels := dx.Shape[0], dx.Shape[1], dx.Shape[2]*dx.Shape[3]
	t := typeOf(dx)
	dy, dyType := l.floats(o.In[0], t)
	return l.done(func() launch {
		in, out := dy(), l.at(dx)
		return func(s drv.Stream) error { return f.gpu.kernels.GlobalAvgPoolGrad(s, t, dyType, n, pixels, c, out, in) }
	}), nil
}

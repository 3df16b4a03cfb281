package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An elementwise has the launches of ops that treat each number by itself.
type elementwise struct {
	gpu *GPU

	// numbers has the keys of dropouts.
	numbers *numbers
}

func (f *elementwise) lowerers() lowerers {
	return lowerers{plan.Copy: f.copy, plan.Add: f.add, plan.ReLU: f.relu, plan.ReLUGrad: f.reluGrad, plan.Dropout: f.dropout}
}

func (f *elementwise) copy(l *lowering) (lowered, error) {
	return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
		return f.gpu.context.CopyOnDevice(y, x[0], n*t.Size(), s)
	}), nil
}

func (f *elementwise) add(l *lowering) (lowered, error) {
	return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
		return f.gpu.kernels.Add(s, t, n, y, x[0], x[1], l.o.ReLU)
	}), nil
}

func (f *elementwise) relu(l *lowering) (lowered, error) {
	return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
		return f.gpu.kernels.ReLU(s, t, n, y, x[0])
	}), nil
}

func (f *elementwise) reluGrad(l *lowering) (lowered, error) {
	return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, dx drv.Ptr, x []drv.Ptr) error {
		return f.gpu.kernels.ReLUGrad(s, t, n, dx, x[0], x[1])
	}), nil
}

// elementwise is an op of arguments and a result of one type and size.
func (l *lowering) elementwise(do func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error) lowered {
	o := l.o
	return l.done(func() launch {
		y, t, n := l.at(o.Out[0]), typeOf(o.Out[0]), int64(o.Out[0].Len())
		var x []drv.Ptr
		for _, v := range o.In {
			x = append(x, l.at(v))
		}
		return func(s drv.Stream) error { return do(s, t, n, y, x) }
	})
}

// dropout numbers elements in the order of (N,C,H,W), whatever the layout.
func (f *elementwise) dropout(l *lowering) (lowered, error) {
	o := l.o
	d := o.Attr.(*op.Dropout)
	key := f.numbers.key(d)
	return l.done(func() launch {
		v := o.In[0]
		c, hw := 0, 0
		if v.Layout == plan.ChannelsLast {
			c, hw = v.Channels(), v.Shape[2]*v.Shape[3]
		}
		y, x, t, n, at := l.at(o.Out[0]), l.at(v), typeOf(v), int64(v.Len()), key()
		return func(s drv.Stream) error {
			return f.gpu.kernels.Dropout(s, t, n, y, x, at, d.Threshold(), float32(1/(1-d.Rate)), c, hw)
		}
	}), nil
}

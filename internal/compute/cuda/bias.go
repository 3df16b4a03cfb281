package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A biases has the launches that add a number to each channel, and those of its gradient.
type biases struct{ gpu *GPU }

func (f *biases) lowerers() lowerers {
	return lowerers{plan.BiasAdd: f.biasAdd, plan.BiasGrad: f.biasGrad}
}

// planes is how a bias goes over v: n times c channels of inner numbers.
func planes(v *plan.Value) (n, c, inner int) {
	c = v.Channels()
	if v.Layout == plan.ChannelsLast || len(v.Shape) == 2 {
		return v.Len() / c, c, 1
	}
	inner = v.Shape[2:].TotalSize()
	return v.Len() / c / inner, c, inner
}

// biasAdd adds a float32 number to each channel of images or rows of any type, and computes the
// ReLU behind it.
func (f *biases) biasAdd(l *lowering) (lowered, error) {
	o := l.o
	return l.done(func() launch {
		n, c, inner := planes(o.In[0])
		t, y, x, b := typeOf(o.In[0]), l.at(o.Out[0]), l.at(o.In[0]), l.at(o.In[1])
		return func(s drv.Stream) error { return f.gpu.kernels.BiasAdd(s, t, n, c, inner, y, x, b, o.ReLU) }
	}), nil
}

func (f *biases) biasGrad(l *lowering) (lowered, error) {
	return l.done(l.columnSums(l.o.Out[0], l.o.In[0])), nil
}

// columnSums sets db to the sum over all but the channels of dy.
func (l *lowering) columnSums(db, dy *plan.Value) func() launch {
	n, c, inner := planes(dy)
	workspace := l.room(l.gpu.kernels.SumsWorkspace(c))
	return func() launch {
		t, out, in, w := typeOf(dy), l.at(db), l.at(dy), workspace()
		return func(s drv.Stream) error { return l.gpu.kernels.BiasGrad(s, t, n, c, inner, out, in, w) }
	}
}

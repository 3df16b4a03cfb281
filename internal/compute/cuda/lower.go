package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A launch puts work on a stream.
type launch func(s drv.Stream) error

// lowered is an op of the plan that is ready but for its memory: bind is called when all memory has
// its place.
type lowered struct {
	// scratch is the bytes of the arena for this op alone.
	scratch int64

	// workspace is the bytes of the libraries' workspace, which all ops share.
	workspace int64

	bind func() []launch
	work []launch
}

// lowering is the lowering of one op.
type lowering struct {
	e         *Executor
	o         *plan.Op
	scratch   int64
	workspace int64

	// before are launches that arguments need first, made when memory has its place.
	before []func() launch
}

// room takes scratch memory; the function gives its place once the plan is placed.
func (l *lowering) room(bytes int64) func() drv.Ptr {
	at := l.scratch
	l.scratch += (bytes + 255) / 256 * 256
	return func() drv.Ptr { return l.e.store.arena.device + drv.Ptr(l.o.ScratchOffset+at) }
}

// done makes an op of launches that are made when memory has its place.
func (l *lowering) done(launches ...func() launch) lowered {
	all := append(l.before, launches...)
	return lowered{scratch: l.scratch, workspace: l.workspace, bind: func() []launch {
		out := make([]launch, len(all))
		for i, f := range all {
			out[i] = f()
		}
		return out
	}}
}

// lower prepares one op.
func (e *Executor) lower(o *plan.Op) (lowered, error) {
	l := &lowering{e: e, o: o}
	switch o.Kind {
	case plan.Convert:
		return l.convert(), nil
	case plan.Copy:
		return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
			return e.gpu.context.CopyOnDevice(y, x[0], n*t.Size(), s)
		}), nil
	case plan.Add:
		return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
			return e.gpu.kernels.Add(s, t, n, y, x[0], x[1], o.ReLU)
		}), nil
	case plan.ReLU:
		return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error {
			return e.gpu.kernels.ReLU(s, t, n, y, x[0])
		}), nil
	case plan.ReLUGrad:
		return l.elementwise(func(s drv.Stream, t kernels.Type, n int64, dx drv.Ptr, x []drv.Ptr) error {
			return e.gpu.kernels.ReLUGrad(s, t, n, dx, x[0], x[1])
		}), nil
	case plan.Dropout:
		return l.dropout(), nil
	case plan.BiasAdd:
		return l.biasAdd(), nil
	case plan.BiasGrad:
		return l.biasGrad(), nil
	case plan.Conv2D:
		return l.conv()
	case plan.ConvBackwardData:
		return l.convData()
	case plan.ConvBackwardWeight:
		return l.convWeight()
	case plan.BatchNorm:
		return l.batchNorm()
	case plan.BatchNormGrad:
		return l.batchNormGrad()
	case plan.MaxPool, plan.MaxPoolGrad, plan.AvgPool, plan.AvgPoolGrad:
		return l.pool(), nil
	case plan.GlobalAvgPool:
		return l.globalAvgPool(), nil
	case plan.GlobalAvgPoolGrad:
		return l.globalAvgPoolGrad(), nil
	case plan.Linear:
		return l.linear()
	case plan.LinearGrad:
		return l.linearGrad()
	case plan.MatMul:
		return l.matMul()
	case plan.Embedding:
		return l.embedding(), nil
	case plan.EmbeddingGrad:
		return l.embeddingGrad(), nil
	case plan.Softmax, plan.SoftmaxGrad:
		return l.softmax(), nil
	case plan.CrossEntropy, plan.CrossEntropyGrad:
		return l.crossEntropy()
	case plan.SoftCrossEntropy, plan.SoftCrossEntropyGrad, plan.BinaryCrossEntropy, plan.BinaryCrossEntropyGrad:
		return lowered{}, errors.New("a loss with targets (nn.SoftCrossEntropy, nn.BinaryCrossEntropy) has no kernel for GPUs; train on the CPU, or with labels and nn.CrossEntropy")
	case plan.MSE, plan.MSEGrad:
		return l.mse(), nil
	}
	return lowered{}, fmt.Errorf("there is no kernel for this op")
}

// elementwise is an op of arguments and a result of one type and size.
func (l *lowering) elementwise(f func(s drv.Stream, t kernels.Type, n int64, y drv.Ptr, x []drv.Ptr) error) lowered {
	o, e := l.o, l.e
	return l.done(func() launch {
		y, t, n := e.at(o.Out[0]), typeOf(o.Out[0]), int64(o.Out[0].Len())
		var x []drv.Ptr
		for _, v := range o.In {
			x = append(x, e.at(v))
		}
		return func(s drv.Stream) error { return f(s, t, n, y, x) }
	})
}

// convert moves the numbers of a value to the other layout.
func (l *lowering) convert() lowered {
	o, e := l.o, l.e
	return l.done(func() launch {
		x, y := o.In[0], o.Out[0]
		n, c, pixels := x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]
		from, to, src, dst := typeOf(x), typeOf(y), e.at(x), e.at(y)
		if y.Layout == plan.ChannelsLast {
			lanes := lanesOf(y)
			if in := e.bytesInput(x); in != nil {
				return in.convert(e.gpu, to, lanes, dst)
			}
			return func(s drv.Stream) error {
				return e.gpu.kernels.ToChannelsLast(s, to, from, n, c, pixels, lanes, dst, src)
			}
		}
		lanes := lanesOf(x)
		return func(s drv.Stream) error {
			return e.gpu.kernels.ToChannelsFirst(s, to, from, n, c, pixels, lanes, dst, src)
		}
	})
}

// dropout numbers elements in the order of (N,C,H,W), whatever the layout.
func (l *lowering) dropout() lowered {
	o, e := l.o, l.e
	d := o.Attr.(*op.Dropout)
	key := e.numbers.key(d)
	return l.done(func() launch {
		v := o.In[0]
		c, hw := 0, 0
		if v.Layout == plan.ChannelsLast {
			c, hw = v.Channels(), v.Shape[2]*v.Shape[3]
		}
		y, x, t, n, at := e.at(o.Out[0]), e.at(v), typeOf(v), int64(v.Len()), key()
		return func(s drv.Stream) error {
			return e.gpu.kernels.Dropout(s, t, n, y, x, at, d.Threshold(), float32(1/(1-d.Rate)), c, hw)
		}
	})
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

func (l *lowering) biasAdd() lowered {
	o, e := l.o, l.e
	return l.done(func() launch {
		n, c, inner := planes(o.In[0])
		t, y, x, b := typeOf(o.In[0]), e.at(o.Out[0]), e.at(o.In[0]), e.at(o.In[1])
		return func(s drv.Stream) error { return e.gpu.kernels.BiasAdd(s, t, n, c, inner, y, x, b, o.ReLU) }
	})
}

func (l *lowering) biasGrad() lowered {
	return l.done(l.columnSums(l.o.Out[0], l.o.In[0]))
}

// columnSums sets db to the sum over all but the channels of dy.
func (l *lowering) columnSums(db, dy *plan.Value) func() launch {
	e := l.e
	n, c, inner := planes(dy)
	workspace := l.room(e.gpu.kernels.SumsWorkspace(c))
	return func() launch {
		t, out, in, w := typeOf(dy), e.at(db), e.at(dy), workspace()
		return func(s drv.Stream) error { return e.gpu.kernels.BiasGrad(s, t, n, c, inner, out, in, w) }
	}
}

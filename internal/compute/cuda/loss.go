package cuda

import (
	"errors"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

func (l *lowering) softmax() lowered {
	o, e := l.o, l.e
	rows, classes, t := o.In[0].Shape[0], o.In[0].Shape[1], typeOf(o.Out[0])
	return l.done(func() launch {
		y, x := e.at(o.Out[0]), e.at(o.In[0])
		if o.Kind == plan.Softmax {
			return func(s drv.Stream) error { return e.gpu.kernels.Softmax(s, t, rows, classes, y, x) }
		}
		dy := e.at(o.In[1])
		return func(s drv.Stream) error { return e.gpu.kernels.SoftmaxGrad(s, t, rows, classes, y, x, dy) }
	})
}

// crossEntropy is the loss or its gradient.
func (l *lowering) crossEntropy() (lowered, error) {
	o, e := l.o, l.e
	c := kernels.CrossEntropy{Type: typeOf(o.In[0]), Rows: o.In[0].Shape[0], Classes: o.In[0].Shape[1]}
	workspace := func() drv.Ptr { return 0 }
	var weights []float32
	switch a := o.Attr.(type) {
	case *op.SoftmaxCrossEntropy:
		c.Smoothing, weights = float32(a.Smoothing), a.Weights
	case *op.SoftmaxCrossEntropyGrad:
		c.Smoothing, weights = float32(a.Smoothing), a.Weights
	}
	if weights != nil {
		return lowered{}, errors.New("a cross-entropy with weights of classes (nn.CrossEntropyConfig.ClassWeights) has no kernel for GPUs; train on the CPU, or draw rare classes more often")
	}
	if o.Kind == plan.CrossEntropy {
		workspace = l.room(4 * int64(c.Rows))
	}
	return l.done(func() launch {
		c.X, c.Labels, c.Workspace = e.at(o.In[0]), e.at(o.In[1]), workspace()
		if o.Kind == plan.CrossEntropy {
			c.Loss = e.at(o.Out[0])
		} else {
			c.DX, c.DLoss = e.at(o.Out[0]), e.at(o.In[2])
		}
		return func(s drv.Stream) error { return e.gpu.kernels.CrossEntropy(s, c) }
	}), nil
}

// mse is the loss or its gradient.
func (l *lowering) mse() lowered {
	o, e := l.o, l.e
	n, t := int64(o.In[0].Len()), typeOf(o.In[0])
	workspace := l.room(e.gpu.kernels.MSEWorkspace())
	return l.done(func() launch {
		x, target, out := e.at(o.In[0]), e.at(o.In[1]), e.at(o.Out[0])
		if o.Kind == plan.MSE {
			w, mode := workspace(), o.Attr.(*op.MSE).Mode
			return func(s drv.Stream) error {
				if there := e.exampleNumbers(o.In[0], mode); there > 0 {
					return e.gpu.kernels.MSE(s, t, there, out, x, target, w)
				}
				return e.zero(s, out, 0, 4)
			}
		}
		dloss, mode := e.at(o.In[2]), o.Attr.(*op.MSEGrad).Mode
		return func(s drv.Stream) error {
			there := e.exampleNumbers(o.In[0], mode)
			if there > 0 {
				if err := e.gpu.kernels.MSEGrad(s, t, there, out, x, target, dloss, 1); err != nil {
					return err
				}
			}
			return e.zero(s, out, t.Size()*there, t.Size()*n)
		}
	})
}

func (l *lowering) embedding() lowered {
	o, e := l.o, l.e
	rows, dim, n := o.In[0].Shape[0], o.In[0].Shape[1], o.In[1].Len()
	return l.done(func() launch {
		to, from, y, w, ids := typeOf(o.Out[0]), typeOf(o.In[0]), e.at(o.Out[0]), e.at(o.In[0]), e.at(o.In[1])
		return func(s drv.Stream) error { return e.gpu.kernels.Embedding(s, to, from, n, rows, dim, y, w, ids, 0) }
	})
}

func (l *lowering) embeddingGrad() lowered {
	o, e := l.o, l.e
	rows, dim, n := o.Out[0].Shape[0], o.Out[0].Shape[1], o.In[0].Len()
	return l.done(func() launch {
		t, dw, ids, dy := typeOf(o.In[1]), e.at(o.Out[0]), e.at(o.In[0]), e.at(o.In[1])
		return func(s drv.Stream) error { return e.gpu.kernels.EmbeddingGrad(s, t, n, rows, dim, dw, ids, dy) }
	})
}

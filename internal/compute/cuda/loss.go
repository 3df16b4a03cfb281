package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A losses has the launches of softmax, of losses and of their gradients.
type losses struct {
	gpu      *GPU
	examples *examples
}

func (f *losses) lowerers() lowerers {
	return lowerers{
		plan.Softmax: f.softmax, plan.SoftmaxGrad: f.softmax,
		plan.CrossEntropy: f.crossEntropy, plan.CrossEntropyGrad: f.crossEntropy,
		plan.SoftCrossEntropy: f.targets, plan.SoftCrossEntropyGrad: f.targets,
		plan.BinaryCrossEntropy: f.targets, plan.BinaryCrossEntropyGrad: f.targets,
		plan.MSE: f.mse, plan.MSEGrad: f.mse,
	}
}

// targets refuses losses that GPUs have no kernel for.
func (f *losses) targets(*lowering) (lowered, error) {
	return lowered{}, errors.New("a loss with targets (nn.SoftCrossEntropy, nn.BinaryCrossEntropy) has no kernel for GPUs; train on the CPU, or with labels and nn.CrossEntropy")
}

// softmax is the softmax of each row, or its gradient.
func (f *losses) softmax(l *lowering) (lowered, error) {
	o := l.o
	if err := rowsOfClasses(o); err != nil {
		return lowered{}, err
	}
	rows, classes, t := o.In[0].Shape[0], o.In[0].Shape[1], typeOf(o.Out[0])
	return l.done(func() launch {
		y, x := l.at(o.Out[0]), l.at(o.In[0])
		if o.Kind == plan.Softmax {
			return func(s drv.Stream) error { return f.gpu.kernels.Softmax(s, t, rows, classes, y, x) }
		}
		dy := l.at(o.In[1])
		return func(s drv.Stream) error { return f.gpu.kernels.SoftmaxGrad(s, t, rows, classes, y, x, dy) }
	}), nil
}

// rowsOfClasses is an error unless a softmax is that of the rows of a matrix.
func rowsOfClasses(o *plan.Op) error {
	axis, log := 0, false
	switch a := o.Attr.(type) {
	case *op.Softmax:
		axis, log = a.Axis, a.Log
	case *op.SoftmaxGrad:
		axis, log = a.Axis, a.Log
	}
	if s := o.In[0].Shape; len(s) != 2 || axis != 1 || log {
		return fmt.Errorf("%v of %v has no kernel for GPUs, which have nn.Softmax of logits (N,K) alone; compute it on the CPU", o.Attr, s)
	}
	return nil
}

// crossEntropy is the loss or its gradient.
func (f *losses) crossEntropy(l *lowering) (lowered, error) {
	o := l.o
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
		c.X, c.Labels, c.Workspace = l.at(o.In[0]), l.at(o.In[1]), workspace()
		if o.Kind == plan.CrossEntropy {
			c.Loss = l.at(o.Out[0])
		} else {
			c.DX, c.DLoss = l.at(o.Out[0]), l.at(o.In[2])
		}
		return func(s drv.Stream) error { return f.gpu.kernels.CrossEntropy(s, c) }
	}), nil
}

// mse is the loss or its gradient.
func (f *losses) mse(l *lowering) (lowered, error) {
	o := l.o
	n, t := int64(o.In[0].Len()), typeOf(o.In[0])
	workspace := l.room(f.gpu.kernels.MSEWorkspace())
	return l.done(func() launch {
		x, target, out := l.at(o.In[0]), l.at(o.In[1]), l.at(o.Out[0])
		if o.Kind == plan.MSE {
			w, mode := workspace(), o.Attr.(*op.MSE).Mode
			return func(s drv.Stream) error {
				if there := f.examples.numbers(o.In[0], mode); there > 0 {
					return f.gpu.kernels.MSE(s, t, there, out, x, target, w)
				}
				return f.gpu.zero(s, out, 0, 4)
			}
		}
		dloss, mode := l.at(o.In[2]), o.Attr.(*op.MSEGrad).Mode
		return func(s drv.Stream) error {
			there := f.examples.numbers(o.In[0], mode)
			if there > 0 {
				if err := f.gpu.kernels.MSEGrad(s, t, there, out, x, target, dloss, 1); err != nil {
					return err
				}
			}
			return f.gpu.zero(s, out, t.Size()*there, t.Size()*n)
		}
	}), nil
}

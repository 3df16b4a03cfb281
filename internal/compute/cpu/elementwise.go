package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An elementwise has the kernels of ops that treat each number by itself.
type elementwise struct {
	mem     *memory
	threads threads
}

func (e *elementwise) builders() builders {
	return builders{plan.Copy: e.copy, plan.Add: e.add, plan.ReLU: e.relu, plan.ReLUGrad: e.reluGrad}
}

// copy copies a value.
func (e *elementwise) copy(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.mem.floats(o.Out[0]), e.mem.floats(o.In[0])
		return then(e.threads.split(len(y), grain, func(lo, hi int) { copy(y[lo:hi], x[lo:hi]) }))
	}}, nil
}

// add is a + b, and the ReLU behind it. y may be a or b.
func (e *elementwise) add(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, a, b := e.mem.array(o.Out[0]), e.mem.array(o.In[0]), e.mem.array(o.In[1])
		return then(e.threads.split(y.Len(), grain, func(lo, hi int) { addArrays(y.Part(lo, hi), a.Part(lo, hi), b.Part(lo, hi), o.ReLU) }))
	}}, nil
}

// relu is max(x, 0); a NaN stays one.
func (e *elementwise) relu(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.mem.array(o.Out[0]), e.mem.array(o.In[0])
		return then(e.threads.split(y.Len(), grain, func(lo, hi int) { reluArray(y.Part(lo, hi), x.Part(lo, hi)) }))
	}}, nil
}

// reluGrad is dy where y > 0 and else 0; a NaN in either stays one.
func (e *elementwise) reluGrad(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		dx, y, dy := e.mem.array(o.Out[0]), e.mem.array(o.In[0]), e.mem.array(o.In[1])
		return then(e.threads.split(dx.Len(), grain, func(lo, hi int) { reluGradArrays(dx.Part(lo, hi), dy.Part(lo, hi), y.Part(lo, hi)) }))
	}}, nil
}

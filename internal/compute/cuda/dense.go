package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// product chooses the library's way to multiply two matrices.
func (l *lowering) product(m product) (productPlan, error) {
	m.In, m.TF32 = l.e.cfg.Type.typ(), l.e.cfg.Type == TF32
	if p, ok := l.e.products[m]; ok {
		l.workspace = max(l.workspace, p.Workspace())
		return p, nil
	}
	p, err := l.e.gpu.vendor.matmul(m)
	if err != nil {
		return nil, err
	}
	l.e.products[m] = p
	l.workspace = max(l.workspace, p.Workspace())
	return p, nil
}

// matrix gives a matrix in the type that is multiplied.
func (l *lowering) matrix(v *plan.Value) (func() drv.Ptr, error) {
	if r := v.Root(); r.Source == plan.Parameter && len(v.Shape) == 2 {
		return l.operand(v, kernels.Tensor{Type: l.e.cfg.Type.typ(), K: v.Shape[0], C: v.Shape[1], R: 1, S: 1, PadK: v.Shape[0], PadC: v.Shape[1]})
	}
	return l.as(v, l.e.cfg.Type.typ()), nil
}

// multiply is c = a·b, plus bias where that is given.
func (l *lowering) multiply(p productPlan, a, b, c, bias func() drv.Ptr) func() launch {
	e := l.e
	return func() launch {
		pa, pb, pc := a(), b(), c()
		var pbias drv.Ptr
		if bias != nil {
			pbias = bias()
		}
		return func(s drv.Stream) error { return p.Run(s, e.store.workspace.device, pa, pb, pc, pbias) }
	}
}

func (l *lowering) place(v *plan.Value) func() drv.Ptr {
	return func() drv.Ptr { return l.e.at(v) }
}

// linear is y = x·Wᵀ + b, ReLU.
func (l *lowering) linear() (lowered, error) {
	o := l.o
	x, err := l.matrix(o.In[0])
	if err != nil {
		return lowered{}, err
	}
	w, err := l.matrix(o.In[1])
	if err != nil {
		return lowered{}, err
	}
	rows, in, out := o.In[0].Shape[0], o.In[0].Shape[1], o.In[1].Shape[0]
	y, hasBias := o.Out[0], len(o.In) > 2
	// The library adds a bias of the result's type; ours are float32. Its ReLU is max(x, 0),
	// which may make a NaN 0.
	apart := hasBias && (o.ReLU || typeOf(y) != kernels.Float32)
	p, err := l.product(product{M: rows, N: out, K: in, TransB: true, Out: typeOf(y), Bias: hasBias && !apart})
	if err != nil {
		return lowered{}, err
	}
	switch {
	case apart:
		return l.done(l.multiply(p, x, w, l.place(y), nil), func() launch {
			t, at, b := typeOf(y), l.e.at(y), l.e.at(o.In[2])
			return func(s drv.Stream) error { return l.e.gpu.kernels.BiasAdd(s, t, rows, out, 1, at, at, b, o.ReLU) }
		}), nil
	case o.ReLU:
		return l.done(l.multiply(p, x, w, l.place(y), nil), func() launch {
			t, at, n := typeOf(y), l.e.at(y), int64(y.Len())
			return func(s drv.Stream) error { return l.e.gpu.kernels.ReLU(s, t, n, at, at) }
		}), nil
	case hasBias:
		return l.done(l.multiply(p, x, w, l.place(y), l.place(o.In[2]))), nil
	}
	return l.done(l.multiply(p, x, w, l.place(y), nil)), nil
}

// linearGrad is dx = dy·W, dW = dyᵀ·x and db = Σ dy.
func (l *lowering) linearGrad() (lowered, error) {
	o := l.o
	rows, in, out := o.In[0].Shape[0], o.In[0].Shape[1], o.In[1].Shape[0]
	dy, err := l.matrix(o.In[2])
	if err != nil {
		return lowered{}, err
	}
	var launches []func() launch
	if dw := o.Out[1]; dw != nil {
		x, err := l.matrix(o.In[0])
		if err != nil {
			return lowered{}, err
		}
		p, err := l.product(product{M: out, N: in, K: rows, TransA: true, Out: kernels.Float32})
		if err != nil {
			return lowered{}, err
		}
		launches = append(launches, l.multiply(p, dy, x, l.place(dw), nil))
	}
	if len(o.Out) > 2 && o.Out[2] != nil {
		launches = append(launches, l.columnSums(o.Out[2], o.In[2]))
	}
	if dx := o.Out[0]; dx != nil {
		w, err := l.matrix(o.In[1])
		if err != nil {
			return lowered{}, err
		}
		p, err := l.product(product{M: rows, N: in, K: out, Out: typeOf(dx)})
		if err != nil {
			return lowered{}, err
		}
		launches = append(launches, l.multiply(p, dy, w, l.place(dx), nil))
	}
	return l.done(launches...), nil
}

// matMul is a matrix product of gorgonia's.
func (l *lowering) matMul() (lowered, error) {
	o := l.o
	a, err := l.matrix(o.In[0])
	if err != nil {
		return lowered{}, err
	}
	b, err := l.matrix(o.In[1])
	if err != nil {
		return lowered{}, err
	}
	m, k, n := o.In[0].Shape[0], o.In[0].Shape[1], o.In[1].Shape[1]
	if o.TransA {
		m, k = k, m
	}
	if o.TransB {
		n = o.In[1].Shape[0]
	}
	p, err := l.product(product{M: m, N: n, K: k, TransA: o.TransA, TransB: o.TransB, Out: typeOf(o.Out[0])})
	if err != nil {
		return lowered{}, err
	}
	return l.done(l.multiply(p, a, b, l.place(o.Out[0]), nil)), nil
}

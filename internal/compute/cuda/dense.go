package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A products has the launches of fully connected layers and of gorgonia's matrix product.
type products struct {
	gpu   *GPU
	plans map[product]productPlan
}

func (f *products) lowerers() lowerers {
	return lowerers{plan.Linear: f.linear, plan.LinearGrad: f.linearGrad, plan.MatMul: f.matMul}
}

// close closes the plans. It is called once no launch of them runs any more.
func (f *products) close() (errs []error) {
	for _, p := range f.plans {
		errs = append(errs, p.Close())
	}
	return errs
}

// product chooses the library's way to multiply two matrices, one for all ops that ask the same.
func (f *products) product(l *lowering, m product) (productPlan, error) {
	m.In, m.TF32 = l.typ.typ(), l.typ == TF32
	p, ok := f.plans[m]
	if !ok {
		var err error
		if p, err = f.gpu.vendor.matmul(m); err != nil {
			return nil, err
		}
		f.plans[m] = p
	}
	l.workspace = max(l.workspace, p.Workspace())
	return p, nil
}

// multiply is c = a·b, plus bias where that is given.
func (f *products) multiply(l *lowering, p productPlan, a, b, c, bias func() drv.Ptr) func() launch {
	return func() launch {
		pa, pb, pc := a(), b(), c()
		var pbias drv.Ptr
		if bias != nil {
			pbias = bias()
		}
		return func(s drv.Stream) error { return p.Run(s, l.workspaceAt(), pa, pb, pc, pbias) }
	}
}

// linear is y = x·Wᵀ + b, ReLU.
func (f *products) linear(l *lowering) (lowered, error) {
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
	p, err := f.product(l, product{M: rows, N: out, K: in, TransB: true, Out: typeOf(y), Bias: hasBias && !apart})
	if err != nil {
		return lowered{}, err
	}
	switch {
	case apart:
		return l.done(f.multiply(l, p, x, w, l.place(y), nil), func() launch {
			t, at, b := typeOf(y), l.at(y), l.at(o.In[2])
			return func(s drv.Stream) error { return f.gpu.kernels.BiasAdd(s, t, rows, out, 1, at, at, b, o.ReLU) }
		}), nil
	case o.ReLU:
		return l.done(f.multiply(l, p, x, w, l.place(y), nil), func() launch {
			t, at, n := typeOf(y), l.at(y), int64(y.Len())
			return func(s drv.Stream) error { return f.gpu.kernels.ReLU(s, t, n, at, at) }
		}), nil
	case hasBias:
		return l.done(f.multiply(l, p, x, w, l.place(y), l.place(o.In[2]))), nil
	}
	return l.done(f.multiply(l, p, x, w, l.place(y), nil)), nil
}

// linearGrad is dx = dy·W, dW = dyᵀ·x and db = Σ dy.
func (f *products) linearGrad(l *lowering) (lowered, error) {
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
		p, err := f.product(l, product{M: out, N: in, K: rows, TransA: true, Out: kernels.Float32})
		if err != nil {
			return lowered{}, err
		}
		launches = append(launches, f.multiply(l, p, dy, x, l.place(dw), nil))
	}
	if len(o.Out) > 2 && o.Out[2] != nil {
		launches = append(launches, l.columnSums(o.Out[2], o.In[2]))
	}
	if dx := o.Out[0]; dx != nil {
		w, err := l.matrix(o.In[1])
		if err != nil {
			return lowered{}, err
		}
		p, err := f.product(l, product{M: rows, N: in, K: out, Out: typeOf(dx)})
		if err != nil {
			return lowered{}, err
		}
		launches = append(launches, f.multiply(l, p, dy, w, l.place(dx), nil))
	}
	return l.done(launches...), nil
}

// matMul is a matrix product of gorgonia's.
func (f *products) matMul(l *lowering) (lowered, error) {
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
	p, err := f.product(l, product{M: m, N: n, K: k, TransA: o.TransA, TransB: o.TransB, Out: typeOf(o.Out[0])})
	if err != nil {
		return lowered{}, err
	}
	return l.done(f.multiply(l, p, a, b, l.place(o.Out[0]), nil)), nil
}

package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/linear"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A products has the kernels of fully connected layers and of gorgonia's matrix product.
type products struct {
	mem     *memory
	threads threads

	// tile is that of fully connected layers, whose numbers may be rounded to bfloat16.
	tile *f32.Tile

	gemm *f32.Gemm

	// alone has a Gemm for each thread, for products that are one thread's.
	alone []*f32.Gemm
}

func (p *products) builders() builders {
	return builders{plan.Linear: p.linear, plan.LinearGrad: p.linearGrad, plan.MatMul: p.matMul, plan.BatchMatMul: p.batchMatMul}
}

// linearPlan plans a fully connected layer.
func (p *products) linearPlan(x, w tensor.Shape) (*linear.Plan, error) {
	return linear.New(x[0], x[1], w[0], p.tile, p.threads.pool)
}

// linear is y = x·Wᵀ + b, and the ReLU behind it.
func (p *products) linear(o *plan.Op) (kernel, error) {
	l, err := p.linearPlan(o.In[0].Shape, o.In[1].Shape)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(l.ForwardScratchLen()), bind: func() func() error {
		y, x, w, scratch := p.mem.floats(o.Out[0]), p.mem.floats(o.In[0]), p.mem.floats(o.In[1]), p.mem.scratch(o)
		var b []float32
		if len(o.In) > 2 {
			b = p.mem.floats(o.In[2])
		}
		return then(func() { l.Forward(y, x, w, b, o.ReLU, scratch) })
	}}, nil
}

// linearGrad is dx = dy·W, dW = dyᵀ·x and db = Σ dy, as far as they are wanted, in passes that
// share what they pack.
func (p *products) linearGrad(o *plan.Op) (kernel, error) {
	l, err := p.linearPlan(o.In[0].Shape, o.In[1].Shape)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(l.BackwardScratchLen()), doubles: l.BackwardDoubles(), bind: func() func() error {
		x, w, dy, scratch := p.mem.floats(o.In[0]), p.mem.floats(o.In[1]), p.mem.floats(o.In[2]), p.mem.scratch(o)
		dx, dw := p.mem.floats(o.Out[0]), p.mem.floats(o.Out[1])
		var db []float32
		if len(o.Out) > 2 {
			db = p.mem.floats(o.Out[2])
		}
		doubles := p.mem.doubles(l.BackwardDoubles())
		return then(func() { l.Backward(dx, dw, db, x, w, dy, scratch, doubles) })
	}}, nil
}

// matMul is a matrix product of gorgonia's.
func (p *products) matMul(o *plan.Op) (kernel, error) {
	matrix := func(v *plan.Value, trans bool) f32.Mat {
		m := f32.Dense(p.mem.floats(v), v.Shape[0], v.Shape[1])
		if trans {
			return m.T()
		}
		return m
	}
	return kernel{bind: func() func() error {
		c, a, b := matrix(o.Out[0], false), matrix(o.In[0], o.TransA), matrix(o.In[1], o.TransB)
		return then(func() { p.gemm.Mul(c, 1, a, b, 0) })
	}}, nil
}

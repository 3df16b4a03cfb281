package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/cpu/linear"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// convPlan is the plan of a convolution, one for all ops of its shape.
func (e *Executor) convPlan(s conv.Shape) (*conv.Plan, error) {
	if p, ok := e.convs[s]; ok {
		return p, nil
	}
	p, err := e.newConv(s, e.pool)
	if err != nil {
		return nil, err
	}
	e.convs[s] = p
	return p, nil
}

// conv is a convolution or one of its gradients.
func (e *Executor) conv(o *plan.Op) (kernel, error) {
	var x, w tensor.Shape
	var stride, pad [2]int
	switch a := o.Attr.(type) {
	case *op.Conv2D:
		x, w, stride, pad = o.In[0].Shape, o.In[1].Shape, a.Stride, a.Pad
	case *op.Conv2DBackwardData:
		x, w, stride, pad = a.XShape, o.In[0].Shape, a.Stride, a.Pad
	case *op.Conv2DBackwardWeight:
		x, w, stride, pad = o.In[0].Shape, a.WShape, a.Stride, a.Pad
	}
	p, err := e.convPlan(conv.Shape{N: x[0], H: x[2], W: x[3], C: x[1], K: w[0], R: w[2], S: w[3],
		StrideH: stride[0], StrideW: stride[1], PadH: pad[0], PadW: pad[1]})
	if err != nil {
		return kernel{}, err
	}
	for _, v := range append(o.Out[:1:1], o.In...) {
		if v.BFloat16() {
			return e.convStored(o, p), nil
		}
	}
	return kernel{scratch: 4 * int64(p.ScratchLen()), bind: func() func() error {
		out, a, b, scratch := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1]), e.scratch(o)

		// The sum is in the argument's memory if no op needs that later.
		if len(o.In) > 2 {
			add := e.floats(o.In[2])
			steps := []func(){func() {
				p.SetScratch(scratch)
				p.BackwardDataAdd(out, b, a)
			}}
			if &add[0] != &out[0] {
				steps = append([]func(){e.split(len(out), grain, func(lo, hi int) { copy(out[lo:hi], add[lo:hi]) })}, steps...)
			}
			return then(steps...)
		}
		return then(func() {
			p.SetScratch(scratch)
			switch o.Kind {
			case plan.Conv2D:
				p.Forward(out, a, b)
			case plan.ConvBackwardData:
				p.BackwardData(out, b, a)
			default:
				p.BackwardWeight(out, a, b)
			}
		})
	}}, nil
}

// convStored is conv with images that are stored as bfloat16.
func (e *Executor) convStored(o *plan.Op, p *conv.Plan) kernel {
	n := p.BackwardWeightScratchLen(o.In[0].BFloat16() || o.In[1].BFloat16())
	switch o.Kind {
	case plan.Conv2D:
		n = p.ForwardScratchLen(o.In[0].BFloat16())
	case plan.ConvBackwardData:
		n = p.BackwardDataScratchLen(o.In[1].BFloat16())
	}
	return kernel{scratch: 4 * int64(n), bind: func() func() error {
		out, a, b, scratch := e.array(o.Out[0]), e.array(o.In[0]), e.array(o.In[1]), e.scratch(o)
		switch {
		case o.Kind == plan.Conv2D:
			return then(func() { p.ForwardStored(out, a, b.F32, scratch) })
		case o.Kind == plan.ConvBackwardWeight:
			return then(func() { p.BackwardWeightStored(out.F32, a, b, scratch) })
		case len(o.In) < 3:
			return then(func() { p.BackwardDataStored(out, b, a.F32, scratch, false) })
		}
		add := func() { p.BackwardDataStored(out, b, a.F32, scratch, true) }
		rest := e.array(o.In[2])
		if rest.Same(out) {
			return then(add)
		}
		return then(e.split(out.Len(), grain, func(lo, hi int) { f32.Move(out.Part(lo, hi), rest.Part(lo, hi)) }), add)
	}}
}

// linearPlan plans a fully connected layer.
func (e *Executor) linearPlan(x, w tensor.Shape) (*linear.Plan, error) {
	return linear.New(x[0], x[1], w[0], e.tile, e.pool)
}

func (e *Executor) linear(o *plan.Op) (kernel, error) {
	p, err := e.linearPlan(o.In[0].Shape, o.In[1].Shape)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(p.ForwardScratchLen()), bind: func() func() error {
		y, x, w, scratch := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1]), e.scratch(o)
		var b []float32
		if len(o.In) > 2 {
			b = e.floats(o.In[2])
		}
		return then(func() { p.Forward(y, x, w, b, o.ReLU, scratch) })
	}}, nil
}

func (e *Executor) linearGrad(o *plan.Op) (kernel, error) {
	p, err := e.linearPlan(o.In[0].Shape, o.In[1].Shape)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(p.BackwardScratchLen()), doubles: p.BackwardDoubles(), bind: func() func() error {
		x, w, dy, scratch := e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2]), e.scratch(o)
		dx, dw := e.floats(o.Out[0]), e.floats(o.Out[1])
		var db []float32
		if len(o.Out) > 2 {
			db = e.floats(o.Out[2])
		}
		return then(func() { p.Backward(dx, dw, db, x, w, dy, scratch, e.doubles) })
	}}, nil
}

// matMul is a matrix product of gorgonia's.
func (e *Executor) matMul(o *plan.Op) (kernel, error) {
	matrix := func(v *plan.Value, trans bool) f32.Mat {
		m := f32.Dense(e.floats(v), v.Shape[0], v.Shape[1])
		if trans {
			return m.T()
		}
		return m
	}
	return kernel{bind: func() func() error {
		c, a, b := matrix(o.Out[0], false), matrix(o.In[0], o.TransA), matrix(o.In[1], o.TransB)
		return then(func() { e.gemm.Mul(c, 1, a, b, 0) })
	}}, nil
}

// columnSums sets sum to the sum of the rows of x.
func (e *Executor) columnSums(sum []float32, x f32.Array) func() {
	c := len(sum)
	rows := x.Len() / c
	run, a, _ := channelSums(e, rows, c, func(a, b []float64, lo, hi int) { channelTotals(a, b, x.Part(lo*c, hi*c)) })
	return func() {
		run(rows)
		for k := range sum {
			sum[k] = float32(a[k])
		}
	}
}

// channelLast is true if channels follow each other in v's memory.
func channelLast(v *plan.Value) bool { return v.Layout == plan.ChannelsLast || len(v.Shape) == 2 }

func (e *Executor) biasAdd(o *plan.Op) (kernel, error) {
	v := o.In[0]
	c := v.Channels()
	return kernel{bind: func() func() error {
		b := e.floats(o.In[1])
		if channelLast(v) {
			y, x := e.array(o.Out[0]), e.array(v)
			one := e.onesLike(f32.Array{}, c).F32[:c]
			return then(e.split(y.Len()/c, rowGrain(c), func(lo, hi int) {
				scaleShift(y.Part(lo*c, hi*c), x.Part(lo*c, hi*c), f32.Array{}, one, b, o.ReLU)
			}))
		}
		y, x := e.floats(o.Out[0]), e.floats(v)
		inner := v.Shape[2:].TotalSize()
		return then(e.split(len(y)/inner, rowGrain(inner), func(lo, hi int) {
			for i := lo * inner; i < hi*inner; i++ {
				y[i] = x[i] + b[i/inner%c]
			}
			if o.ReLU {
				f32.ReLU(y[lo*inner:hi*inner], y[lo*inner:hi*inner])
			}
		}))
	}}, nil
}

func (e *Executor) biasGrad(o *plan.Op) (kernel, error) {
	v := o.In[0]
	c := v.Channels()
	return kernel{doubles: sumDoubles(v.Len()/c, c), bind: func() func() error {
		db := e.floats(o.Out[0])
		if channelLast(v) {
			return then(e.columnSums(db, e.array(v)))
		}
		dy := e.floats(v)
		inner := v.Shape[2:].TotalSize()
		return then(e.split(c, 1, func(lo, hi int) {
			for k := lo; k < hi; k++ {
				sum := 0.0
				for n := k; n < len(dy)/inner; n += c {
					sum += float64(f32.Sum(dy[n*inner : (n+1)*inner]))
				}
				db[k] = float32(sum)
			}
		}))
	}}, nil
}

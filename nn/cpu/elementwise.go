package cpu

import (
	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/nn/op"
	"github.com/paragon-train/paragon/nn/plan"
)

func (e *Executor) copy(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		return then(e.split(len(y), grain, func(lo, hi int) { copy(y[lo:hi], x[lo:hi]) }))
	}}, nil
}

func (e *Executor) add(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, a, b := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1])
		return then(e.split(len(y), grain, func(lo, hi int) {
			f32.Add(y[lo:hi], a[lo:hi], b[lo:hi])
			if o.ReLU {
				f32.ReLU(y[lo:hi], y[lo:hi])
			}
		}))
	}}, nil
}

func (e *Executor) relu(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		return then(e.split(len(y), grain, func(lo, hi int) { f32.ReLU(y[lo:hi], x[lo:hi]) }))
	}}, nil
}

func (e *Executor) reluGrad(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		dx, y, dy := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1])
		return then(e.split(len(dx), grain, func(lo, hi int) { f32.ReLUGrad(dx[lo:hi], dy[lo:hi], y[lo:hi]) }))
	}}, nil
}

// dropout numbers elements in the order of (N,C,H,W), whatever the layout, so that the mask is that of the op's definition.
func (e *Executor) dropout(o *plan.Op) (kernel, error) {
	d := o.Attr.(*op.Dropout)
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		threshold, scale := d.Threshold(), float32(1/(1-d.Rate))
		var key uint64
		keep := func(lo, hi int, element func(i int) int) {
			for i := lo; i < hi; i++ {
				v := x[i] * scale
				if !op.DropoutKeep(key, element(i), threshold) {
					v = 0
				}
				y[i] = v
			}
		}
		element := func(i int) int { return i }
		if v := o.In[0]; v.Layout == plan.ChannelsLast {
			c, hw := v.Channels(), v.Shape[2]*v.Shape[3]
			element = func(i int) int { return (i/c/hw*c+i%c)*hw + i/c%hw }
		}
		run := e.split(len(y), grain, func(lo, hi int) { keep(lo, hi, element) })
		return func() error {
			key = d.Key(e.step, e.stream)
			run()
			return nil
		}
	}}, nil
}

// convert moves the numbers of a value to the other layout: a transposition of each image.
func (e *Executor) convert(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		s := o.In[0].Shape
		rows, cols := s[1], s[2]*s[3] // of an image in x
		if o.In[0].Layout == plan.ChannelsLast {
			rows, cols = cols, rows
		}
		size := rows * cols
		return then(e.split(s[0], max(1, grain/size), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				transpose(y[n*size:(n+1)*size], x[n*size:(n+1)*size], rows, cols)
			}
		}))
	}}, nil
}

// transpose sets y (cols×rows) to x (rows×cols) turned over, in squares that fit the first-level cache.
func transpose(y, x []float32, rows, cols int) {
	const side = 16
	for r0 := 0; r0 < rows; r0 += side {
		r1 := min(r0+side, rows)
		for c0 := 0; c0 < cols; c0 += side {
			for c := c0; c < min(c0+side, cols); c++ {
				out := y[c*rows+r0 : c*rows+r1]
				for i := range out {
					out[i] = x[(r0+i)*cols+c]
				}
			}
		}
	}
}

package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

func (e *Executor) copy(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		return then(e.split(len(y), grain, func(lo, hi int) { copy(y[lo:hi], x[lo:hi]) }))
	}}, nil
}

func (e *Executor) add(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, a, b := e.array(o.Out[0]), e.array(o.In[0]), e.array(o.In[1])
		return then(e.split(y.Len(), grain, func(lo, hi int) { addArrays(y.Part(lo, hi), a.Part(lo, hi), b.Part(lo, hi), o.ReLU) }))
	}}, nil
}

func (e *Executor) relu(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.array(o.Out[0]), e.array(o.In[0])
		return then(e.split(y.Len(), grain, func(lo, hi int) { reluArray(y.Part(lo, hi), x.Part(lo, hi)) }))
	}}, nil
}

func (e *Executor) reluGrad(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		dx, y, dy := e.array(o.Out[0]), e.array(o.In[0]), e.array(o.In[1])
		return then(e.split(dx.Len(), grain, func(lo, hi int) { reluGradArrays(dx.Part(lo, hi), dy.Part(lo, hi), y.Part(lo, hi)) }))
	}}, nil
}

// dropout numbers elements in the order of (N,C,H,W), whatever the layout, so that the mask is that
// of the op's definition.
func (e *Executor) dropout(o *plan.Op) (kernel, error) {
	d := o.Attr.(*op.Dropout)
	return kernel{bind: func() func() error {
		y, x := e.array(o.Out[0]), e.array(o.In[0])
		threshold, scale := d.Threshold(), float32(1/(1-d.Rate))
		var key uint64
		keep := func(lo, hi int, element func(i int) int) {
			for i := lo; i < hi; i++ {
				keep := op.DropoutKeep(key, element(i), threshold)
				switch {
				case y.BF16 != nil && keep:
					y.BF16[i] = f32.BFloat16Bits(f32.BFloat16Value(x.BF16[i]) * scale)
				case y.BF16 != nil:
					y.BF16[i] = f32.BFloat16Bits(dropped(f32.BFloat16Value(x.BF16[i])))
				case keep:
					y.F32[i] = x.F32[i] * scale
				default:
					y.F32[i] = dropped(x.F32[i])
				}
			}
		}
		element := func(i int) int { return i }
		if v := o.In[0]; v.Layout == plan.ChannelsLast {
			c, hw := v.Channels(), v.Shape[2]*v.Shape[3]
			element = func(i int) int { return (i/c/hw*c+i%c)*hw + i/c%hw }
		}
		run := e.split(y.Len(), grain, func(lo, hi int) { keep(lo, hi, element) })
		return func() error {
			key = d.Key(e.step, e.stream)
			run()
			return nil
		}
	}}, nil
}

// dropped is 0, or x if it is a NaN.
func dropped(x float32) float32 {
	if x != x {
		return x
	}
	return 0
}

// convert moves the numbers of a value to the other layout: a transposition of each image.
func (e *Executor) convert(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := e.array(o.Out[0]), e.array(o.In[0])
		s := o.In[0].Shape

		// rows and cols are those of an image in x.
		rows, cols := s[1], s[2]*s[3]
		if o.In[0].Layout == plan.ChannelsLast {
			rows, cols = cols, rows
		}
		size := rows * cols
		return then(e.split(s[0], max(1, grain/size), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				turn(y.Part(n*size, (n+1)*size), x.Part(n*size, (n+1)*size), rows, cols)
			}
		}))
	}}, nil
}

// turn is transpose, from and to either type.
func turn(y, x f32.Array, rows, cols int) {
	same32, same16 := func(v float32) float32 { return v }, func(h uint16) uint16 { return h }
	switch {
	case y.F32 != nil && x.F32 != nil:
		transpose(y.F32, x.F32, rows, cols, same32)
	case y.F32 != nil:
		transpose(y.F32, x.BF16, rows, cols, f32.BFloat16Value)
	case x.F32 != nil:
		transpose(y.BF16, x.F32, rows, cols, f32.BFloat16Bits)
	default:
		transpose(y.BF16, x.BF16, rows, cols, same16)
	}
}

// transpose sets y (cols×rows) to x (rows×cols) turned over, in squares that fit the first-level
// cache.
func transpose[D, S float32 | uint16](y []D, x []S, rows, cols int, as func(S) D) {
	const side = 16
	for r0 := 0; r0 < rows; r0 += side {
		r1 := min(r0+side, rows)
		for c0 := 0; c0 < cols; c0 += side {
			for c := c0; c < min(c0+side, cols); c++ {
				out := y[c*rows+r0 : c*rows+r1]
				for i := range out {
					out[i] = as(x[(r0+i)*cols+c])
				}
			}
		}
	}
}

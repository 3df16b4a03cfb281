package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/linear"
	"github.com/paragon-train/paragon/internal/compute/cpu/recurrent"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A recurrents has the kernels of LSTM and GRU layers.
type recurrents struct {
	mem     *memory
	threads threads

	// tile is that of the gradients of weights, whose numbers may be rounded to bfloat16. Products of
	// single steps are float32.
	tile *f32.Tile
}

func (r *recurrents) builders() builders {
	return builders{plan.Recurrent: r.recurrent, plan.RecurrentGrad: r.recurrentGrad}
}

func (r *recurrents) plan(form op.RecurrentForm, in []*plan.Value) (*recurrent.Plan, error) {
	shapes := make([]tensor.Shape, form.Arguments())
	for i := range shapes {
		shapes[i] = in[i].Shape
	}
	sizes, err := form.Sizes(shapes)
	if err != nil {
		return nil, err
	}
	return recurrent.New(recurrent.Shape{RecurrentForm: form, RecurrentSizes: sizes}, f32.Tiles(f32.Active()), r.threads.pool)
}

// bind are the arguments of a layer in memory, and how to read the lengths.
func (r *recurrents) bind(l *recurrent.Plan, in []*plan.Value) (recurrent.Inputs, func() error) {
	out := recurrent.Inputs{Z: r.mem.floats(in[0]), W: r.mem.floats(in[1])}
	bias, h0, c0, lengths := l.Places()
	for i, to := range map[int]*[]float32{bias: &out.Bias, h0: &out.H0, c0: &out.C0} {
		if i >= 0 {
			*to = r.mem.floats(in[i])
		}
	}
	if lengths < 0 {
		return out, func() error { return nil }
	}
	out.Lengths = make([]int, l.B)
	return out, r.mem.integers(out.Lengths, in[lengths], l.Length)
}

// states are y and the last h and c, in one array or in one for each.
func (r *recurrents) states(l *recurrent.Plan, all *plan.Value, parts []*plan.Value) (y recurrent.States, last [2]recurrent.States) {
	if all != nil {
		data, example := r.mem.floats(all), (l.T+l.States())*l.H
		y = recurrent.States{Data: data, Example: example}
		for i := range l.States() {
			last[i] = recurrent.States{Data: data[(l.T+i)*l.H:], Example: example}
		}
		return y, last
	}
	y = recurrent.States{Data: r.mem.floats(parts[0]), Example: l.T * l.H}
	for i := range last {
		last[i] = recurrent.States{Data: r.mem.floats(parts[1+i]), Example: l.H}
	}
	return y, last
}

func (r *recurrents) recurrent(o *plan.Op) (kernel, error) {
	l, err := r.plan(o.Attr.(*op.Recurrent).RecurrentForm, o.In)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(l.ForwardScratchLen()), bind: func() func() error {
		in, read := r.bind(l, o.In)
		out := recurrent.Results{Gates: r.mem.floats(o.Out[1]), Kept: r.mem.floats(o.Out[2]), Before: r.mem.floats(o.Out[3])}
		out.Y, out.Last = r.states(l, o.Out[0], o.Out[4:])
		scratch := r.mem.scratch(o)
		return func() error {
			if err := read(); err != nil {
				return err
			}
			l.Forward(out, in, scratch)
			return nil
		}
	}}, nil
}

// recurrentGrad is the steps backward, and then the gradients of W and the bias in one product over
// all of them.
func (r *recurrents) recurrentGrad(o *plan.Op) (kernel, error) {
	form := o.Attr.(*op.RecurrentGrad).RecurrentForm
	l, err := r.plan(form, o.In)
	if err != nil {
		return kernel{}, err
	}
	rows, width := l.B*l.T, l.Gates()*l.H
	weights, err := linear.New(rows, l.H, width, r.tile, r.threads.pool)
	if err != nil {
		return kernel{}, err
	}
	n := form.Arguments()
	bias, h0, c0, _ := form.Places()
	steps, doubles := max(l.BackwardScratchLen(), weights.BackwardScratchLen()), 0
	if bias >= 0 {
		doubles = weights.BackwardDoubles()
	}

	// da is dz of an LSTM.
	separate := form.GRU || o.Out[0] == nil
	scratch := steps
	if separate {
		scratch += rows * width
	}
	return kernel{scratch: 4 * int64(scratch), doubles: doubles, bind: func() func() error {
		in, read := r.bind(l, o.In)
		out := func(i int) []float32 {
			if i < 0 {
				return nil
			}
			return r.mem.floats(o.Out[i])
		}
		g := recurrent.Grads{Gates: r.mem.floats(o.In[n]), Kept: r.mem.floats(o.In[n+1]), Before: r.mem.floats(o.In[n+2]),
			DZ: out(0), DH0: out(h0), DC0: out(c0)}
		g.Y, g.Last = r.states(l, o.In[n+3], o.In[n+4:])
		scratch := r.mem.scratch(o)
		da := g.DZ
		if separate {
			da = scratch[steps:][:rows*width]
		}
		if form.GRU {
			g.DA = da
		} else {
			g.DZ = da
		}
		dw, db := out(1), out(bias)
		sums := r.mem.doubles(doubles)
		return func() error {
			if err := read(); err != nil {
				return err
			}
			l.Backward(g, in, scratch[:l.BackwardScratchLen()])
			if dw != nil || db != nil {
				weights.Backward(nil, dw, db, g.Before, in.W, da, scratch[:weights.BackwardScratchLen()], sums)
			}
			return nil
		}
	}}, nil
}

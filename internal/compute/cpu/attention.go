package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cpu/attention"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// An attentions has the kernels of attention.
type attentions struct {
	mem     *memory
	threads threads

	// tile is that of products, whose numbers may be rounded to bfloat16.
	tile *f32.Tile

	// counts has the step, which decides what dropout drops, and stream is the replica's.
	counts    *counts
	stream    uint64
	inference bool
}

func (a *attentions) builders() builders {
	return builders{plan.Attention: a.attention, plan.AttentionGrad: a.attentionGrad, plan.CachedAttention: a.cached}
}

// plan plans an attention whose arguments are the first of in.
func (a *attentions) plan(form *op.AttentionForm, rate float64, threshold uint64, in []*plan.Value) (*attention.Plan, error) {
	shapes := make([]tensor.Shape, form.Arguments())
	for i := range shapes {
		shapes[i] = in[i].Shape
	}
	sizes, err := form.Sizes(shapes)
	if err != nil {
		return nil, err
	}
	s := attention.Shape{AttentionSizes: sizes, AttentionForm: *form}
	if _, _, bias := form.Places(); bias >= 0 {
		s.BiasB, s.BiasH = in[bias].Shape[0], in[bias].Shape[1]
	}
	if rate > 0 && !a.inference {
		s.Threshold, s.Keep = threshold, float32(1/(1-rate))
	}
	return attention.New(s, a.tile, a.threads.pool)
}

// headsOf is q (0), k (1) or v (2) in their arrays, or in the one of all of them.
func headsOf(l *attention.Plan, which int, arrays ...[]float32) attention.Heads {
	if l.Packed {
		if arrays[0] == nil {
			return attention.Heads{}
		}
		width := (l.H + 2*l.Hk) * l.D
		first := [3]int{0, l.H * l.D, (l.H + l.Hk) * l.D}[which]
		return attention.Heads{Data: arrays[0][first:], Example: l.T * width, Position: width}
	}
	n, h := l.S, l.Hk
	if which == 0 {
		n, h = l.T, l.H
	}
	return attention.Heads{Data: arrays[which], Example: n * h * l.D, Position: h * l.D}
}

// result is o, or its gradient.
func result(l *attention.Plan, data []float32) attention.Heads {
	return attention.Heads{Data: data, Example: l.T * l.H * l.D, Position: l.H * l.D}
}

// arrays are the memory of q, k and v, or of all of them.
func (a *attentions) arrays(form *op.AttentionForm, values []*plan.Value) [][]float32 {
	n := 3
	if form.Packed {
		n = 1
	}
	out := make([][]float32, n)
	for i := range out {
		out[i] = a.mem.floats(values[i])
	}
	return out
}

// bound are the arguments of an attention in memory, and how to read those that are integers.
type bound struct {
	attention.Inputs
	reads []func() error
}

func (b *bound) read() error {
	for _, r := range b.reads {
		if err := r(); err != nil {
			return err
		}
	}
	return nil
}

func (a *attentions) bind(l *attention.Plan, in []*plan.Value) *bound {
	arrays := a.arrays(&l.AttentionForm, in)
	b := &bound{Inputs: attention.Inputs{Q: headsOf(l, 0, arrays...), K: headsOf(l, 1, arrays...), V: headsOf(l, 2, arrays...)}}
	lengths, documents, bias := l.Places()
	if lengths >= 0 {
		b.Lengths = make([]int, l.B)
		b.reads = append(b.reads, a.mem.integers(b.Lengths, in[lengths], func(i, n int) error {
			if n < 0 || n > l.S {
				return fmt.Errorf("length %d of example %d, want 0 to %d", n, i, l.S)
			}
			return nil
		}))
	}
	if documents >= 0 {
		b.Documents = make([]int, l.B*l.S)
		b.reads = append(b.reads, a.mem.integers(b.Documents, in[documents], func(int, int) error { return nil }))
	}
	if bias >= 0 {
		b.Bias = a.mem.floats(in[bias])
	}
	return b
}

func (a *attentions) attention(o *plan.Op) (kernel, error) {
	attr := o.Attr.(*op.Attention)
	l, err := a.plan(&attr.AttentionForm, attr.Rate, attr.Threshold(), o.In)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(l.ForwardScratchLen()), bind: func() func() error {
		in, y, lse, scratch := a.bind(l, o.In), result(l, a.mem.floats(o.Out[0])), a.mem.floats(o.Out[1]), a.mem.scratch(o)
		return func() error {
			if err := in.read(); err != nil {
				return err
			}
			in.Key = attr.Key(a.counts.step, a.stream)
			l.Forward(y, lse, in.Inputs, scratch)
			return nil
		}
	}}, nil
}

func (a *attentions) attentionGrad(o *plan.Op) (kernel, error) {
	attr := o.Attr.(*op.AttentionGrad).Forward
	l, err := a.plan(&attr.AttentionForm, attr.Rate, attr.Threshold(), o.In)
	if err != nil {
		return kernel{}, err
	}
	n := attr.Arguments()
	scratch := l.BackwardScratchLen()
	withBias := attr.Bias && o.Out[len(o.Out)-1] != nil
	if withBias {
		scratch = max(scratch, l.BiasScratchLen())
	}
	return kernel{scratch: 4 * int64(scratch), bind: func() func() error {
		in, scratch := a.bind(l, o.In), a.mem.scratch(o)
		y, lse, dy := result(l, a.mem.floats(o.In[n])), a.mem.floats(o.In[n+1]), result(l, a.mem.floats(o.In[n+2]))
		grads := a.arrays(&attr.AttentionForm, o.Out)
		dq, dk, dv := headsOf(l, 0, grads...), headsOf(l, 1, grads...), headsOf(l, 2, grads...)
		var dbias []float32
		if withBias {
			dbias = a.mem.floats(o.Out[len(o.Out)-1])
		}
		return func() error {
			if err := in.read(); err != nil {
				return err
			}
			in.Key = attr.Key(a.counts.step, a.stream)
			if dq.Data != nil || dk.Data != nil || dv.Data != nil {
				l.Backward(dq, dk, dv, y, dy, lse, in.Inputs, scratch)
			}
			if withBias {
				l.BiasGrad(dbias, y, dy, lse, in.Inputs, scratch)
			}
			return nil
		}
	}}, nil
}

// cached is attention over a cache of keys, which it writes.
func (a *attentions) cached(o *plan.Op) (kernel, error) {
	attr := o.Attr.(*op.CachedAttention)
	caches := make([][]float32, 2)
	for i, t := range []*tensor.Dense{attr.Cache.K, attr.Cache.V} {
		data, ok := t.Data().([]float32)
		if !ok {
			return kernel{}, fmt.Errorf("the cache %q is %v, want float32", attr.Cache.Name, t.Dtype())
		}
		caches[i] = data
	}
	n := attr.Arguments()
	l, err := a.plan(&attr.AttentionForm, 0, 0, o.In[:n])
	if err != nil {
		return kernel{}, err
	}
	shape := l.Shape
	shape.S, shape.Packed = attr.Cache.Positions, false
	over, err := attention.New(shape, a.tile, a.threads.pool)
	if err != nil {
		return kernel{}, err
	}
	step := attention.NewStep(over)
	return kernel{scratch: 4 * int64(step.ScratchLen()), bind: func() func() error {
		arrays := a.arrays(&attr.AttentionForm, o.In)
		new := [2]attention.Heads{headsOf(l, 1, arrays...), headsOf(l, 2, arrays...)}
		in := attention.Inputs{Q: headsOf(l, 0, arrays...), First: make([]int, l.B)}
		in.K, in.V = headsOf(over, 1, nil, caches[0]), headsOf(over, 2, nil, nil, caches[1])
		y, scratch := result(l, a.mem.floats(o.Out[0])), a.mem.scratch(o)
		read := a.mem.integers(in.First, o.In[n], func(b, first int) error { return attr.Cache.FirstPosition(b, first, l.T) })
		return func() error {
			if err := read(); err != nil {
				return err
			}
			row := l.Hk * l.D
			for i, cache := range caches {
				for b, first := range in.First {
					for t := range l.T {
						from := new[i].Data[b*new[i].Example+t*new[i].Position:]
						copy(cache[(b*over.S+first+t)*row:][:row], from)
					}
				}
			}
			step.Run(y, in, scratch)
			return nil
		}
	}}, nil
}

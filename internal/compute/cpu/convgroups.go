package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// convShape is what op o convolves, all groups together: weights have the channels of a group.
func convShape(o *plan.Op) (s conv.Shape, groups int) {
	var x, w tensor.Shape
	var stride, pad [2]int
	var reach op.Reach
	switch a := o.Attr.(type) {
	case *op.Conv2D:
		x, w, stride, pad, reach = o.In[0].Shape, o.In[1].Shape, a.Stride, a.Pad, a.Reach
	case *op.Conv2DBackwardData:
		x, w, stride, pad, reach = a.XShape, o.In[0].Shape, a.Stride, a.Pad, a.Reach
	case *op.Conv2DBackwardWeight:
		x, w, stride, pad, reach = o.In[0].Shape, a.WShape, a.Stride, a.Pad, a.Reach
	}
	steps := reach.Steps()
	return conv.Shape{N: x[0], H: x[2], W: x[3], C: x[1], K: w[0], R: w[2], S: w[3],
		StrideH: stride[0], StrideW: stride[1], PadH: pad[0], PadW: pad[1], MoreH: reach.PadMore[0], MoreW: reach.PadMore[1],
		DilationH: steps[0], DilationW: steps[1]}, reach.GroupCount()
}

// convMemory is the arrays of a convolution or of a gradient of it, by what they are and not by
// where they stand: y is dy, x is dx and w is dw in gradients. rest is what is added to dx.
type convMemory struct {
	x, y, rest f32.Array
	w          []float32
}

func (c *convolutions) memoryOf(o *plan.Op) (m convMemory) {
	switch out, a, b := c.mem.array(o.Out[0]), c.mem.array(o.In[0]), c.mem.array(o.In[1]); o.Kind {
	case plan.Conv2D:
		m = convMemory{x: a, w: b.F32, y: out}
	case plan.ConvBackwardData:
		m = convMemory{x: out, w: a.F32, y: b}
		if len(o.In) > 2 {
			m.rest = c.mem.array(o.In[2])
		}
	default:
		m = convMemory{x: a, y: b, w: out.F32}
	}
	return m
}

// restFirst are the steps that put what is added to dx in its place.
func (c *convolutions) restFirst(m convMemory) (steps []func()) {
	if m.rest.None() || m.rest.Same(m.x) {
		return nil
	}
	return []func(){c.threads.split(m.x.Len(), grain, func(lo, hi int) { f32.Move(m.x.Part(lo, hi), m.rest.Part(lo, hi)) })}
}

// depthwise is a convolution of one channel for each group. With several filters for each, x is
// written out with each channel as often.
func (c *convolutions) depthwise(o *plan.Op, s conv.Shape) (kernel, error) {
	if s.K > s.C {
		return c.filters(o, s)
	}
	d, err := conv.NewDepthwise(s, c.threads.pool)
	if err != nil {
		return kernel{}, err
	}
	half := o.Out[0].BFloat16() || o.In[0].BFloat16() || o.In[1].BFloat16()
	return kernel{scratch: 4 * int64(d.ScratchLen(half)), bind: func() func() error {
		m, scratch := c.memoryOf(o), c.mem.scratch(o)
		return then(append(c.restFirst(m), func() {
			switch o.Kind {
			case plan.Conv2D:
				d.Forward(m.y, m.x, m.w, scratch)
			case plan.ConvBackwardData:
				d.BackwardData(m.x, m.y, m.w, scratch, !m.rest.None())
			default:
				d.BackwardWeight(m.w, m.x, m.y, scratch)
			}
		})...)
	}}, nil
}

// filters is depthwise with several filters for each channel.
func (c *convolutions) filters(o *plan.Op, s conv.Shape) (kernel, error) {
	each, channels := s.K/s.C, s.C
	wide := s
	wide.C = s.K
	d, err := conv.NewDepthwise(wide, c.threads.pool)
	if err != nil {
		return kernel{}, err
	}
	pixels := s.N * s.H * s.W
	return kernel{scratch: 4 * int64(d.ScratchLen(true)+pixels*wide.C+pixels*channels), bind: func() func() error {
		m, scratch := c.memoryOf(o), c.mem.scratch(o)
		x, plain, scratch := scratch[:pixels*wide.C], scratch[pixels*wide.C:][:pixels*channels], scratch[pixels*(wide.C+channels):]
		spread := c.threads.split(pixels*channels, grain, func(lo, hi int) {
			f32.Move(f32.Array{F32: plain[lo:hi]}, m.x.Part(lo, hi))
			for i := lo; i < hi; i++ {
				for k := range each {
					x[i*each+k] = plain[i]
				}
			}
		})
		switch wideX := (f32.Array{F32: x}); o.Kind {
		case plan.Conv2D:
			return then(spread, func() { d.Forward(m.y, wideX, m.w, scratch) })
		case plan.ConvBackwardWeight:
			return then(spread, func() { d.BackwardWeight(m.w, wideX, m.y, scratch) })
		default:
			return then(append(c.restFirst(m), func() { d.BackwardData(wideX, m.y, m.w, scratch, false) }, c.threads.split(pixels*channels, grain, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					sum := float32(0)
					for _, v := range x[i*each : (i+1)*each] {
						sum += v
					}
					plain[i] = sum
				}
				c.putBack(m, plain[lo:hi], lo)
			}))...)
		}
	}}, nil
}

// putBack writes numbers of dx from place at on, or adds them to what is there.
func (c *convolutions) putBack(m convMemory, dx []float32, at int) {
	to := m.x.Part(at, at+len(dx))
	if !m.rest.None() {
		addTo(dx, to)
	}
	f32.Move(to, f32.Array{F32: dx})
}

// grouped is a convolution of several groups, one after the other: each as one of few channels, of
// images that are copied.
func (c *convolutions) grouped(o *plan.Op, s conv.Shape, groups int) (kernel, error) {
	one := s
	one.C, one.K = s.C/groups, s.K/groups
	p, err := c.convPlan(one)
	if err != nil {
		return kernel{}, err
	}
	return kernel{scratch: 4 * int64(p.ScratchLen()+one.XLen()+one.YLen()), bind: func() func() error {
		m, scratch := c.memoryOf(o), c.mem.scratch(o)
		x, y, scratch := scratch[:one.XLen()], scratch[one.XLen():][:one.YLen()], scratch[one.XLen()+one.YLen():]
		steps := c.restFirst(m)
		for g := range groups {
			w := m.w[g*one.WLen() : (g+1)*one.WLen()]
			takeX, takeY := c.group(m.x, s.C, x, one.C, g), c.group(m.y, s.K, y, one.K, g)
			switch o.Kind {
			case plan.Conv2D:
				steps = append(steps, takeX, func() { p.SetScratch(scratch); p.Forward(y, x, w) },
					c.pixels(len(y)/one.K, one.K, func(i int) {
						f32.Move(m.y.Part(i*s.K+g*one.K, i*s.K+(g+1)*one.K), f32.Array{F32: y[i*one.K : (i+1)*one.K]})
					}))
			case plan.ConvBackwardData:
				steps = append(steps, takeY, func() { p.SetScratch(scratch); p.BackwardData(x, y, w) },
					c.pixels(len(x)/one.C, one.C, func(i int) { c.putBack(m, x[i*one.C:(i+1)*one.C], i*s.C+g*one.C) }))
			default:
				steps = append(steps, takeX, takeY, func() { p.SetScratch(scratch); p.BackwardWeight(w, x, y) })
			}
		}
		return then(steps...)
	}}, nil
}

// group copies a group's channels of images into memory of their own.
func (c *convolutions) group(from f32.Array, channels int, to []float32, each, group int) func() {
	return c.pixels(len(to)/each, each, func(i int) {
		f32.Move(f32.Array{F32: to[i*each : (i+1)*each]}, from.Part(i*channels+group*each, i*channels+(group+1)*each))
	})
}

// pixels calls f for n pixels of some channels.
func (c *convolutions) pixels(n, channels int, f func(i int)) func() {
	return c.threads.split(n, rowGrain(channels), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// globalAvgPool is the mean of each channel of an image, its pixels added in order.
func (p *pooling) globalAvgPool(o *plan.Op) (kernel, error) {
	xs := o.In[0].Shape
	c, pixels := xs[1], xs[2]*xs[3]
	return kernel{bind: func() func() error {
		x, y := p.mem.array(o.In[0]), p.mem.floats(o.Out[0])
		return then(p.threads.split(xs[0], max(1, grain/(c*pixels)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				out := y[n*c : (n+1)*c]
				f32.Move(f32.Array{F32: out}, x.Part(n*pixels*c, (n*pixels+1)*c))
				for i := 1; i < pixels; i++ {
					addTo(out, x.Part((n*pixels+i)*c, (n*pixels+i+1)*c))
				}
				f32.Scale(out, 1/float32(pixels), out)
			}
		}))
	}}, nil
}

// globalAvgPoolGrad spreads each channel's gradient evenly: one pixel is computed and copied to the
// others.
func (p *pooling) globalAvgPoolGrad(o *plan.Op) (kernel, error) {
	xs := o.Out[0].Shape
	c, pixels := xs[1], xs[2]*xs[3]
	sums := newAccumulators(o.Out[0], c, p.threads.pool.Threads())
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := p.mem.array(o.Out[0]), p.mem.floats(o.In[0])
		sums.memory = p.mem.scratch(o)
		return then(p.threads.split(xs[0], max(1, grain/(c*pixels)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				first := dx.Part(n*pixels*c, (n*pixels+1)*c)
				sums.sum(first, func(row []float32) { f32.Scale(row, 1/float32(pixels), dy[n*c:(n+1)*c]) })
				for i := n*pixels + 1; i < (n+1)*pixels; i++ {
					f32.Move(dx.Part(i*c, (i+1)*c), first)
				}
			}
		}))
	}}, nil
}

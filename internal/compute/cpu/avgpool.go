package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// avgPool is op.AvgPool2D over channels last. A window's pixels are added in row-major order.
func (p *pooling) avgPool(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.AvgPool2D)
	in := poolImagesOf(o.In[0].Shape, o.Out[0].Shape, a.Kernel, a.Stride, a.Pad)
	sums := newAccumulators(o.Out[0], in.ySize, p.threads.pool.Threads())
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		x, y := p.mem.array(o.In[0]), p.mem.array(o.Out[0])
		sums.memory = p.mem.scratch(o)
		return then(p.eachImage(in, func(n int) {
			image := x.Part(n*in.xSize, (n+1)*in.xSize)
			sums.sum(y.Part(n*in.ySize, (n+1)*in.ySize), func(y []float32) {
				clear(y)
				for i, w := range in.windows {
					out := y[i*in.c:][:in.c]
					w.addTo(out, image, in.width)
					f32.Scale(out, 1/w.divisor(a.Kernel, a.ExcludePad), out)
				}
			})
		}))
	}}, nil
}

// avgPoolGrad gives each pixel of a window the same share. Windows that overlap add to the same
// pixels, so one thread has a whole image.
func (p *pooling) avgPoolGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.AvgPool2DGrad)
	in := poolImagesOf(o.Out[0].Shape, o.In[0].Shape, a.Kernel, a.Stride, a.Pad)
	sums := newAccumulators(o.Out[0], in.xSize, p.threads.pool.Threads())
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := p.mem.array(o.Out[0]), p.mem.floats(o.In[0])
		sums.memory = p.mem.scratch(o)
		return then(p.eachImage(in, func(n int) {
			sums.sum(dx.Part(n*in.xSize, (n+1)*in.xSize), func(image []float32) {
				clear(image)
				for i, w := range in.windows {
					w.spread(image, 1/w.divisor(a.Kernel, a.ExcludePad), dy[n*in.ySize+i*in.c:][:in.c], in.width)
				}
			})
		}))
	}}, nil
}

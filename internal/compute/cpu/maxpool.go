package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// maxPool is op.MaxPool2D over channels last. It keeps, for each result, which element of the
// window it was: row·width + column of the kernel.
func (p *pooling) maxPool(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.MaxPool2D)
	if area := a.Kernel[0] * a.Kernel[1]; area > 256 {
		return kernel{}, fmt.Errorf("a window of %d elements, want at most 256", area)
	}
	k := kernel{bind: func() func() error {
		choice := p.mem.scratchBytes(o)
		if o.Scratch == 0 {
			choice = p.mem.bytes(o.Out[1])
		}
		if o.In[0].Shape[1] < fewChannels {
			return p.maxByRows(o, a, choice)
		}
		return p.maxByWindows(o, a, choice)
	}}
	if len(o.Out) < 2 || o.Out[1] == nil {
		// No op asks which element was the largest.
		k.scratch = int64(o.Out[0].Len())
	}
	return k, nil
}

// maxByRows is a step that goes by rows of pixels.
func (p *pooling) maxByRows(o *plan.Op, a *op.MaxPool2D, choice []uint8) func() error {
	x, y := p.mem.array(o.In[0]), p.mem.array(o.Out[0])
	xs, ys := o.In[0].Shape, o.Out[0].Shape
	xSize, ySize := xs[1:].TotalSize(), ys[1:].TotalSize()
	rows := newPoolRows(a, xs, ys, x.BF16 != nil, p.threads.pool.Threads())
	return then(p.threads.splitThreads(ys[0], max(1, grain/xSize), func(thread, lo, hi int) {
		for n := lo; n < hi; n++ {
			rows.maxOf(thread, y.Part(n*ySize, (n+1)*ySize), choice[n*ySize:(n+1)*ySize], x.Part(n*xSize, (n+1)*xSize))
		}
	}))
}

// maxByWindows is a step that goes by windows, all channels of a pixel together.
func (p *pooling) maxByWindows(o *plan.Op, a *op.MaxPool2D, choice []uint8) func() error {
	x, y := p.mem.array(o.In[0]), p.mem.array(o.Out[0])
	in := poolImagesOf(o.In[0].Shape, o.Out[0].Shape, a.Kernel, a.Stride, a.Pad)
	return then(p.eachImage(in, func(n int) {
		image := x.Part(n*in.xSize, (n+1)*in.xSize)
		for i, w := range in.windows {
			at := n*in.ySize + i*in.c
			w.maxOf(y.Part(at, at+in.c), choice[at:at+in.c], image, in.width, a.Kernel[1])
		}
	}))
}

// maxPoolGrad adds each gradient to the element that was the largest. Windows that overlap add to
// the same pixels, so one thread has a whole image.
func (p *pooling) maxPoolGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.MaxPool2DGrad)
	in := poolImagesOf(o.Out[0].Shape, o.In[1].Shape, a.Kernel, a.Stride, a.Pad)

	// offset is that of each element of a window, from its first.
	offset := make([]int, a.Kernel[0]*a.Kernel[1])
	for i := range offset {
		offset[i] = (i/a.Kernel[1]*in.width + i%a.Kernel[1]) * in.c
	}
	sums := newAccumulators(o.Out[0], in.xSize, p.threads.pool.Threads())
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, choice, dy := p.mem.array(o.Out[0]), p.mem.bytes(o.In[0]), p.mem.array(o.In[1])
		sums.memory = p.mem.scratch(o)
		return then(p.eachImage(in, func(n int) {
			sums.sum(dx.Part(n*in.xSize, (n+1)*in.xSize), func(image []float32) {
				clear(image)
				for i, w := range in.windows {
					at := n*in.ySize + i*in.c
					scatter(image, (w.h0*in.width+w.v0)*in.c, offset, choice[at:at+in.c], dy.Part(at, at+in.c))
				}
			})
		}))
	}}, nil
}

// scatter adds channel k of dy to the pixel that it was chosen from: those of the window are at the
// offsets after first, which may itself be in the padding.
func scatter(image []float32, first int, offset []int, chosen []uint8, dy f32.Array) {
	if dy.BF16 != nil {
		for k, h := range dy.BF16 {
			image[first+offset[chosen[k]]+k] += f32.BFloat16Value(h)
		}
		return
	}
	for k, d := range dy.F32 {
		image[first+offset[chosen[k]]+k] += d
	}
}

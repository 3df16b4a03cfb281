package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A window is where a pool's window for one row and column of y lies in x: rows top to bottom and
// columns left to right that are not padding; h0 and v0 may be in the padding.
type window struct {
	h0, v0                   int
	top, bottom, left, right int
}

// windows walks over the windows of one image; x and y are (N,C,H,W).
func windows(x, y tensor.Shape, kernel, stride, pad [2]int, f func(pixel int, w window)) {
	for i := range y[2] {
		for j := range y[3] {
			h0, v0 := i*stride[0]-pad[0], j*stride[1]-pad[1]
			f(i*y[3]+j, window{h0, v0, max(h0, 0), min(h0+kernel[0], x[2]), max(v0, 0), min(v0+kernel[1], x[3])})
		}
	}
}

// windowList is windows as a list.
func windowList(x, y tensor.Shape, kernel, stride, pad [2]int) []window {
	list := make([]window, 0, y[2]*y[3])
	windows(x, y, kernel, stride, pad, func(_ int, w window) { list = append(list, w) })
	return list
}

// maxPool is op.MaxPool2D over channels last. It keeps, for each result, which element of the
// window it was: row·width + column of the kernel.
func (e *Executor) maxPool(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.MaxPool2D)
	if area := a.Kernel[0] * a.Kernel[1]; area > 256 {
		return kernel{}, fmt.Errorf("a window of %d elements, want at most 256", area)
	}
	xs, ys := o.In[0].Shape, o.Out[0].Shape
	list := windowList(xs, ys, a.Kernel, a.Stride, a.Pad)
	c, width := xs[1], xs[3]
	xSize, ySize := xs[1:].TotalSize(), ys[1:].TotalSize()
	k := kernel{bind: func() func() error {
		x, y := e.array(o.In[0]), e.array(o.Out[0])
		choice := e.scratchBytes(o)
		if o.Scratch == 0 {
			choice = e.bytes(o.Out[1])
		}
		if c < fewChannels {
			rows := newPoolRows(a, xs, ys, x.BF16 != nil, e.pool.Threads())
			return then(e.splitThreads(ys[0], max(1, grain/xSize), func(thread, lo, hi int) {
				for n := lo; n < hi; n++ {
					rows.maxOf(thread, y.Part(n*ySize, (n+1)*ySize), choice[n*ySize:(n+1)*ySize], x.Part(n*xSize, (n+1)*xSize))
				}
			}))
		}
		return then(e.split(ys[0], max(1, grain/xSize), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				image := x.Part(n*xSize, (n+1)*xSize)
				for p, w := range list {
					at := n*ySize + p*c
					w.maxOf(y.Part(at, at+c), choice[at:at+c], image, width, a.Kernel[1])
				}
			}
		}))
	}}
	if len(o.Out) < 2 || o.Out[1] == nil {
		// No op asks which element was the largest.
		k.scratch = int64(o.Out[0].Len())
	}
	return k, nil
}

// maxOf sets out to the largest elements of the window in an image whose rows have width pixels, and
// chosen to where they were in the kernel, whose rows have kernelWidth.
func (w window) maxOf(out f32.Array, chosen []uint8, image f32.Array, width, kernelWidth int) {
	c := len(chosen)
	pixel := func(h, v int) f32.Array { return image.Part((h*width+v)*c, (h*width+v+1)*c) }
	f32.Move(out, pixel(w.top, w.left))
	first := uint8((w.top-w.h0)*kernelWidth + w.left - w.v0)
	for i := range chosen {
		chosen[i] = first
	}
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			if h != w.top || v != w.left {
				maxWhich(out, chosen, pixel(h, v), uint8((h-w.h0)*kernelWidth+v-w.v0))
			}
		}
	}
}

// addTo adds the pixels of the window in an image to out.
func (w window) addTo(out []float32, image f32.Array, width int) {
	c := len(out)
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			addTo(out, image.Part((h*width+v)*c, (h*width+v+1)*c))
		}
	}
}

// spread adds share·d to the pixels of the window in an image.
func (w window) spread(image []float32, share float32, d []float32, width int) {
	c := len(d)
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			f32.Axpy(image[(h*width+v)*c:][:c], share, d)
		}
	}
}

func (e *Executor) maxPoolGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.MaxPool2DGrad)
	xs, ys := o.Out[0].Shape, o.In[1].Shape
	list := windowList(xs, ys, a.Kernel, a.Stride, a.Pad)
	c, width := xs[1], xs[3]
	xSize, ySize := xs[1:].TotalSize(), ys[1:].TotalSize()

	// offset is that of each element of a window, from its first.
	offset := make([]int, a.Kernel[0]*a.Kernel[1])
	for i := range offset {
		offset[i] = (i/a.Kernel[1]*width + i%a.Kernel[1]) * c
	}
	sums := e.newAccumulators(o.Out[0], xSize)
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, choice, dy := e.array(o.Out[0]), e.bytes(o.In[0]), e.array(o.In[1])
		sums.memory = e.scratch(o)
		return then(e.split(xs[0], max(1, grain/xSize), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				sums.sum(dx.Part(n*xSize, (n+1)*xSize), func(image []float32) {
					clear(image)
					for p, w := range list {
						at := n*ySize + p*c
						scatter(image, (w.h0*width+w.v0)*c, offset, choice[at:at+c], dy.Part(at, at+c))
					}
				})
			}
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

// divisor is what the sum over w is divided by.
func (w window) divisor(kernel [2]int, excludePad bool) float32 {
	if excludePad {
		return float32((w.bottom - w.top) * (w.right - w.left))
	}
	return float32(kernel[0] * kernel[1])
}

func (e *Executor) avgPool(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.AvgPool2D)
	xs, ys := o.In[0].Shape, o.Out[0].Shape
	list := windowList(xs, ys, a.Kernel, a.Stride, a.Pad)
	c, width := xs[1], xs[3]
	xSize, ySize := xs[1:].TotalSize(), ys[1:].TotalSize()
	sums := e.newAccumulators(o.Out[0], ySize)
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		x, y := e.array(o.In[0]), e.array(o.Out[0])
		sums.memory = e.scratch(o)
		return then(e.split(ys[0], max(1, grain/xSize), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				image := x.Part(n*xSize, (n+1)*xSize)
				sums.sum(y.Part(n*ySize, (n+1)*ySize), func(y []float32) {
					clear(y)
					for p, w := range list {
						out := y[p*c:][:c]
						w.addTo(out, image, width)
						f32.Scale(out, 1/w.divisor(a.Kernel, a.ExcludePad), out)
					}
				})
			}
		}))
	}}, nil
}

func (e *Executor) avgPoolGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.AvgPool2DGrad)
	xs, ys := o.Out[0].Shape, o.In[0].Shape
	list := windowList(xs, ys, a.Kernel, a.Stride, a.Pad)
	c, width := xs[1], xs[3]
	xSize, ySize := xs[1:].TotalSize(), ys[1:].TotalSize()
	sums := e.newAccumulators(o.Out[0], xSize)
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := e.array(o.Out[0]), e.floats(o.In[0])
		sums.memory = e.scratch(o)
		return then(e.split(xs[0], max(1, grain/xSize), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				sums.sum(dx.Part(n*xSize, (n+1)*xSize), func(image []float32) {
					clear(image)
					for p, w := range list {
						w.spread(image, 1/w.divisor(a.Kernel, a.ExcludePad), dy[n*ySize+p*c:][:c], width)
					}
				})
			}
		}))
	}}, nil
}

func (e *Executor) globalAvgPool(o *plan.Op) (kernel, error) {
	xs := o.In[0].Shape
	c, pixels := xs[1], xs[2]*xs[3]
	return kernel{bind: func() func() error {
		x, y := e.array(o.In[0]), e.floats(o.Out[0])
		return then(e.split(xs[0], max(1, grain/(c*pixels)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				out := y[n*c : (n+1)*c]
				f32.Move(f32.Array{F32: out}, x.Part(n*pixels*c, (n*pixels+1)*c))
				for p := 1; p < pixels; p++ {
					addTo(out, x.Part((n*pixels+p)*c, (n*pixels+p+1)*c))
				}
				f32.Scale(out, 1/float32(pixels), out)
			}
		}))
	}}, nil
}

func (e *Executor) globalAvgPoolGrad(o *plan.Op) (kernel, error) {
	xs := o.Out[0].Shape
	c, pixels := xs[1], xs[2]*xs[3]
	sums := e.newAccumulators(o.Out[0], c)
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := e.array(o.Out[0]), e.floats(o.In[0])
		sums.memory = e.scratch(o)
		return then(e.split(xs[0], max(1, grain/(c*pixels)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				first := dx.Part(n*pixels*c, (n*pixels+1)*c)
				sums.sum(first, func(row []float32) { f32.Scale(row, 1/float32(pixels), dy[n*c:(n+1)*c]) })
				for p := n*pixels + 1; p < (n+1)*pixels; p++ {
					f32.Move(dx.Part(p*c, (p+1)*c), first)
				}
			}
		}))
	}}, nil
}

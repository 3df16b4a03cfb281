package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An upsampling has the kernels of op.Upsample2D and of its gradient, over channels last.
type upsampling struct {
	mem     *memory
	threads threads
}

func (u *upsampling) builders() builders {
	return builders{plan.Upsample: u.upsample, plan.UpsampleGrad: u.upsampleGrad}
}

// upsample copies each pixel to a square of pixels.
func (u *upsampling) upsample(o *plan.Op) (kernel, error) {
	scale := o.Attr.(*op.Upsample2D).Scale
	xs, ys := o.In[0].Shape, o.Out[0].Shape
	c, rows := xs[1], xs[0]*xs[2]
	xRow, yRow := xs[3]*c, ys[3]*c
	return kernel{bind: func() func() error {
		x, y := u.mem.array(o.In[0]), u.mem.array(o.Out[0])
		return then(u.threads.split(rows, max(1, grain/(scale*yRow)), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				from := x.Part(r*xRow, (r+1)*xRow)
				first := y.Part(r*scale*yRow, (r*scale+1)*yRow)
				for j := range ys[3] {
					f32.Move(first.Part(j*c, (j+1)*c), from.Part(j/scale*c, (j/scale+1)*c))
				}
				for k := 1; k < scale; k++ {
					f32.Move(y.Part((r*scale+k)*yRow, (r*scale+k+1)*yRow), first)
				}
			}
		}))
	}}, nil
}

// upsampleGrad adds the pixels of each square, in row-major order.
func (u *upsampling) upsampleGrad(o *plan.Op) (kernel, error) {
	scale := o.Attr.(*op.Upsample2DGrad).Scale
	xs, ys := o.Out[0].Shape, o.In[0].Shape
	c := xs[1]
	xRow, yRow := xs[3]*c, ys[3]*c
	xSize, ySize := xs[2]*xRow, ys[2]*yRow
	sums := newAccumulators(o.Out[0], xSize, u.threads.pool.Threads())
	addImage := func(image []float32, dy f32.Array) {
		clear(image)
		for i := range ys[2] {
			addSquares(image[(i/scale)*xRow:][:xRow], dy.Part(i*yRow, (i+1)*yRow), scale, c)
		}
	}
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := u.mem.array(o.Out[0]), u.mem.array(o.In[0])
		sums.memory = u.mem.scratch(o)
		return then(u.threads.split(xs[0], max(1, grain/(xs[2]*scale*yRow)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				sums.sum(dx.Part(n*xSize, (n+1)*xSize), func(image []float32) { addImage(image, dy.Part(n*ySize, (n+1)*ySize)) })
			}
		}))
	}}, nil
}

// addSquares adds each pixel of a row, of c channels, to the pixel of dst whose square it is in.
func addSquares(dst []float32, row f32.Array, scale, c int) {
	for j := range len(dst) / c * scale {
		addTo(dst[j/scale*c:][:c], row.Part(j*c, (j+1)*c))
	}
}

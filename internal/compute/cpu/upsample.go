package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// upsample copies each pixel to a square of pixels.
func (e *Executor) upsample(o *plan.Op) (kernel, error) {
	scale := o.Attr.(*op.Upsample2D).Scale
	xs, ys := o.In[0].Shape, o.Out[0].Shape
	c, rows := xs[1], xs[0]*xs[2]
	xRow, yRow := xs[3]*c, ys[3]*c
	return kernel{bind: func() func() error {
		x, y := e.array(o.In[0]), e.array(o.Out[0])
		return then(e.split(rows, max(1, grain/(scale*yRow)), func(lo, hi int) {
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
func (e *Executor) upsampleGrad(o *plan.Op) (kernel, error) {
	scale := o.Attr.(*op.Upsample2DGrad).Scale
	xs, ys := o.Out[0].Shape, o.In[0].Shape
	c := xs[1]
	xRow, yRow := xs[3]*c, ys[3]*c
	sums := e.newAccumulators(o.Out[0], xs[2]*xRow)
	return kernel{scratch: sums.scratch(), bind: func() func() error {
		dx, dy := e.array(o.Out[0]), e.array(o.In[0])
		sums.memory = e.scratch(o)
		return then(e.split(xs[0], max(1, grain/(xs[2]*scale*yRow)), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				sums.sum(dx.Part(n*xs[2]*xRow, (n+1)*xs[2]*xRow), func(image []float32) {
					clear(image)
					for i := range ys[2] {
						addSquares(image[(i/scale)*xRow:][:xRow], dy.Part((n*ys[2]+i)*yRow, (n*ys[2]+i+1)*yRow), scale, c)
					}
				})
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

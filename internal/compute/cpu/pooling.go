package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A pooling has the kernels of pools and of their gradients, over channels last.
type pooling struct {
	mem     *memory
	threads threads
}

func (p *pooling) builders() builders {
	return builders{
		plan.MaxPool: p.maxPool, plan.MaxPoolGrad: p.maxPoolGrad,
		plan.AvgPool: p.avgPool, plan.AvgPoolGrad: p.avgPoolGrad,
		plan.GlobalAvgPool: p.globalAvgPool, plan.GlobalAvgPoolGrad: p.globalAvgPoolGrad,
	}
}

// A poolImages is what a pool reads and writes. Its x has the images that the windows lie in, also
// in a gradient, where x is what is written.
type poolImages struct {
	// n is the number of images, c that of their channels, width that of the pixels in a row of x.
	n, c, width int

	// xSize and ySize are the numbers of an image.
	xSize, ySize int

	// windows are those of one image, in the order of the pixels of y.
	windows []window
}

// poolImagesOf is for shapes (N,C,H,W).
func poolImagesOf(x, y tensor.Shape, kernel, stride, pad [2]int) poolImages {
	return poolImages{n: x[0], c: x[1], width: x[3], xSize: x[1:].TotalSize(), ySize: y[1:].TotalSize(),
		windows: windowList(x, y, kernel, stride, pad)}
}

// eachImage returns a function that calls f for each image, on all threads.
func (p *pooling) eachImage(in poolImages, f func(n int)) func() {
	return p.threads.split(in.n, max(1, grain/in.xSize), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			f(n)
		}
	})
}

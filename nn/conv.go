package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// Square is {n, n}: one size for height and width.
func Square(n int) [2]int { return [2]int{n, n} }

// Conv2DConfig describes a convolution. Pairs are {height, width}.
type Conv2DConfig struct {
	// Filters is the number of channels of the result, and Kernel the size of a filter.
	Filters int
	Kernel  [2]int
	// Stride is the step between windows; {0, 0} is {1, 1}. Pad is the zeros added on each
	// side.
	Stride, Pad [2]int
	// Bias adds a bias for each filter. Biases start at zero.
	Bias bool
	// Init is that of the weight; nil is MSRA.
	Init Init
}

// Conv2D convolves x (N,C,H,W) to y (N,Filters,OH,OW), as torch.nn.Conv2d does: x is zero outside,
// and OH is (H+2·Pad−KH)/Stride + 1, rounded down. Parameters: name.weight (Filters,C,KH,KW) and,
// with Bias, name.bias (Filters).
func Conv2D(x *gorgonia.Node, name string, cfg Conv2DConfig) *gorgonia.Node {
	layer := fmt.Sprintf("Conv2D %q", name)
	want(layer, x, 4, "N,C,H,W")
	if cfg.Filters < 1 || cfg.Kernel[0] < 1 || cfg.Kernel[1] < 1 {
		panic(fmt.Sprintf("nn: %s: %d filters of %v, want at least 1 of at least {1, 1}", layer, cfg.Filters, cfg.Kernel))
	}
	if cfg.Stride == [2]int{} {
		cfg.Stride = Square(1)
	}
	if cfg.Init == nil {
		cfg.Init = MSRA()
	}
	w := newParameter(x, name+".weight", cfg.Init, cfg.Filters, x.Shape()[1], cfg.Kernel[0], cfg.Kernel[1])
	y := apply(layer, &op.Conv2D{Stride: cfg.Stride, Pad: cfg.Pad}, x, w)
	if cfg.Bias {
		y = apply(layer, &op.BiasAdd{Dims: 4}, y, newParameter(x, name+".bias", Zeros(), cfg.Filters))
	}
	return y
}

// PoolConfig describes the windows of a pool. Pairs are {height, width}.
type PoolConfig struct {
	Kernel [2]int
	// Stride is the step between windows; {0, 0} is Kernel: windows side by side.
	Stride [2]int
	// Pad is at most half of Kernel.
	Pad [2]int
	// ExcludePad divides an average by the positions that are not padding; false
	// counts padding as zeros.
	ExcludePad bool
}

func (c PoolConfig) stride() [2]int {
	if c.Stride == [2]int{} {
		return c.Kernel
	}
	return c.Stride
}

// MaxPool2D takes the largest number of each window of x (N,C,H,W).
func MaxPool2D(x *gorgonia.Node, cfg PoolConfig) *gorgonia.Node {
	want("MaxPool2D", x, 4, "N,C,H,W")
	return apply("MaxPool2D", &op.MaxPool2D{Kernel: cfg.Kernel, Stride: cfg.stride(), Pad: cfg.Pad}, x)
}

// AvgPool2D takes the mean of each window of x (N,C,H,W).
func AvgPool2D(x *gorgonia.Node, cfg PoolConfig) *gorgonia.Node {
	want("AvgPool2D", x, 4, "N,C,H,W")
	return apply("AvgPool2D", &op.AvgPool2D{Kernel: cfg.Kernel, Stride: cfg.stride(), Pad: cfg.Pad, ExcludePad: cfg.ExcludePad}, x)
}

// GlobalAvgPool2D takes the mean of each plane: x (N,C,H,W) becomes (N,C).
func GlobalAvgPool2D(x *gorgonia.Node) *gorgonia.Node {
	want("GlobalAvgPool2D", x, 4, "N,C,H,W")
	return apply("GlobalAvgPool2D", &op.GlobalAvgPool2D{}, x)
}

// Upsample2D makes each number of x (N,C,H,W) a square of scale by scale equal ones. GPUs do not
// have it yet.
func Upsample2D(x *gorgonia.Node, scale int) *gorgonia.Node {
	want("Upsample2D", x, 4, "N,C,H,W")
	return apply("Upsample2D", &op.Upsample2D{Scale: scale}, x)
}

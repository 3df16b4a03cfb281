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
	// PadEnd is the zeros added at the bottom and at the right, if they are not Pad: {0, 0} is
	// Pad, and -1 is none. TensorFlow's "same" with stride 2 has one more there than Pad for even
	// sizes.
	PadEnd [2]int
	// Dilation is the distance of two taps of a filter; {0, 0} is {1, 1}.
	Dilation [2]int
	// Groups divides the channels of x and the filters into as many convolutions side by side; 0
	// is 1. As many groups as channels are a depthwise convolution.
	Groups int
	// Bias adds a bias for each filter. Biases start at zero.
	Bias bool
	// Init is that of the weight; nil is MSRA.
	Init Init
}

// padMore is how much more padding there is at the end.
func (c Conv2DConfig) padMore() (more [2]int) {
	if c.PadEnd == [2]int{} {
		return more
	}
	for d, end := range c.PadEnd {
		more[d] = max(0, end) - c.Pad[d]
	}
	return more
}

// Conv2D convolves x (N,C,H,W) to y (N,Filters,OH,OW), as torch.nn.Conv2d does: x is zero outside,
// and OH is (H+Pad+PadEnd−Dilation·(KH−1)−1)/Stride + 1, rounded down. Filter o sees the channels
// of group ⌊o·Groups/Filters⌋. Parameters: name.weight (Filters,C/Groups,KH,KW) and, with Bias,
// name.bias (Filters). On GPUs groups, dilation and PadEnd are errors.
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
	reach := op.Reach{Groups: cfg.Groups, Dilation: cfg.Dilation, PadMore: cfg.padMore()}
	groups, channels := wantGroups(layer, cfg.Groups, x.Shape()[1], cfg.Filters), x.Shape()[1]
	w := newParameter(x, name+".weight", cfg.Init, cfg.Filters, channels/groups, cfg.Kernel[0], cfg.Kernel[1])
	y := apply(layer, &op.Conv2D{Stride: cfg.Stride, Pad: cfg.Pad, Reach: reach}, x, w)
	if cfg.Bias {
		y = apply(layer, &op.BiasAdd{Dims: 4}, y, newParameter(x, name+".bias", Zeros(), cfg.Filters))
	}
	return y
}

// wantGroups panics unless groups divide channels and filters, and returns how many there are.
func wantGroups(layer string, groups, channels, filters int) int {
	if groups < 0 || channels%max(1, groups) != 0 || filters%max(1, groups) != 0 {
		panic(fmt.Sprintf("nn: %s: %d channels and %d filters in %d groups, want numbers that groups divide", layer, channels, filters, groups))
	}
	return max(1, groups)
}

// ConvTranspose2DConfig describes a transposed convolution. Pairs are {height, width}.
type ConvTranspose2DConfig struct {
	// Filters is the number of channels of the result, and Kernel the size of a filter.
	Filters int
	Kernel  [2]int
	// Stride is how many numbers of the result one of x stands for; {0, 0} is {1, 1}. Pad is what
	// is cut off the result on each side.
	Stride, Pad [2]int
	// OutputPad is how many rows and columns more the result has at the bottom and at the right:
	// less than Stride or less than Dilation.
	OutputPad [2]int
	// Dilation is the distance of two taps of a filter; {0, 0} is {1, 1}.
	Dilation [2]int
	// Groups divides the channels of x and the filters, as in Conv2DConfig; 0 is 1.
	Groups int
	// Bias adds a bias for each filter. Biases start at zero.
	Bias bool
	// Init is that of the weight; nil is MSRA, whose fans are those of PyTorch for this shape.
	Init Init
}

// ConvTranspose2D makes a larger image of x (N,C,H,W), as torch.nn.ConvTranspose2d does: y
// (N,Filters,OH,OW), where OH is (H−1)·Stride − 2·Pad + Dilation·(KH−1) + OutputPad + 1. Each number
// of x, times a filter, is added to a window of y: it is the gradient of the convolution that makes
// images of x's size of those of y's. Parameters: name.weight (C,Filters/Groups,KH,KW) and, with
// Bias, name.bias (Filters).
func ConvTranspose2D(x *gorgonia.Node, name string, cfg ConvTranspose2DConfig) *gorgonia.Node {
	layer := fmt.Sprintf("ConvTranspose2D %q", name)
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
	channels := x.Shape()[1]
	groups := wantGroups(layer, cfg.Groups, channels, cfg.Filters)
	w := newParameter(x, name+".weight", cfg.Init, channels, cfg.Filters/groups, cfg.Kernel[0], cfg.Kernel[1])
	y := apply(layer, &op.ConvTranspose2D{Stride: cfg.Stride, Pad: cfg.Pad, OutputPad: cfg.OutputPad, Dilation: cfg.Dilation, Groups: cfg.Groups}, x, w)
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

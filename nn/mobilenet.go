package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// MobileNetV2Config describes a MobileNetV2 (Sandler and others 2018).
type MobileNetV2Config struct {
	// Classes is the number of classes.
	Classes int
	// Width multiplies the numbers of channels, which are then multiples of 8; 0 is 1.
	Width float64
	// Stem says what images it is for: with CIFAR, images of 32×32, the first convolution and the
	// stage of 24 channels have stride 1, and not 2, so that the last images are 4×4.
	Stem Stem
	// Strides are those of the first convolution and of the seven stages, and go before Stem if
	// they are not all 0. Torchvision's are {2, 1, 2, 2, 2, 1, 2, 1}, and CIFAR's {1, 1, 1, 2, 2, 1, 2, 1}.
	Strides [8]int
	// Dropout is the rate in front of the last layer. Torchvision's is 0.2.
	Dropout float64
	// Prefix begins all names.
	Prefix string
	// Init is that of convolutions; nil is MSRAOut. LinearInit is that of the last layer; nil is
	// Normal(0.01).
	Init, LinearInit Init
}

// mobileStages are the stages of inverted residual blocks: how many times more channels a block has
// inside, the channels of its result, and the blocks.
var mobileStages = [7]struct{ expansion, channels, blocks int }{
	{1, 16, 1}, {6, 24, 2}, {6, 32, 3}, {6, 64, 4}, {6, 96, 3}, {6, 160, 3}, {6, 320, 1},
}

func (c MobileNetV2Config) strides() [8]int {
	switch {
	case c.Strides != [8]int{}:
		return c.Strides
	case c.Stem == CIFAR:
		return [8]int{1, 1, 1, 2, 2, 1, 2, 1}
	}
	return [8]int{2, 1, 2, 2, 2, 1, 2, 1}
}

// channels is n times the width, to the nearest multiple of 8, but not below nine tenths.
func (c MobileNetV2Config) channels(n int) int {
	wish := float64(n)
	if c.Width != 0 {
		wish *= c.Width
	}
	out := max(8, int(wish+4)/8*8)
	if float64(out) < 0.9*wish {
		out += 8
	}
	return out
}

// last is the number of channels in front of the classifier, which does not shrink.
func (c MobileNetV2Config) last() int {
	wide := c
	wide.Width = max(1, c.Width)
	return wide.channels(1280)
}

// Parameters is the number of parameters for images of so many channels: 3,504,872 for 3 channels,
// 1000 classes and width 1, and 2,236,682 for 10 classes.
func (c MobileNetV2Config) Parameters(channels int) int {
	in := c.channels(32)
	n := channels*in*9 + 2*in
	for _, s := range mobileStages {
		out := c.channels(s.channels)
		for range s.blocks {
			hidden := in * s.expansion
			if s.expansion > 1 {
				n += in*hidden + 2*hidden
			}
			n += 9*hidden + 2*hidden + hidden*out + 2*out
			in = out
		}
	}
	return n + in*c.last() + 2*c.last() + (c.last()+1)*c.Classes
}

// MobileNetV2 is torchvision's mobilenet_v2 for images (N,C,H,W): logits (N,Classes). A block
// widens by a 1×1 convolution, has a depthwise 3×3 one, and narrows by a 1×1 one; its input is added
// where it has the result's shape. Behind each convolution but a block's last are a batch
// normalisation and a ReLU6. For 224×224 pixels it is 0.30 G multiply-adds; for 32×32 it is 6.1 M
// with torchvision's strides, 24.5 M with a first stride of 1, and 88.0 M with those of CIFAR.
// Parameters have torchvision's names, after Prefix: features.0.0.weight to classifier.1.bias.
func MobileNetV2(images *gorgonia.Node, cfg MobileNetV2Config) *gorgonia.Node {
	const model = "MobileNetV2"
	want(model, images, 4, "N,C,H,W")
	if cfg.Classes < 1 || cfg.Width < 0 || cfg.Stem > CIFAR {
		panic(fmt.Sprintf("nn: %s: %d classes, width %v, %v; want at least 1 class, width of at least 0, ImageNet or CIFAR", model, cfg.Classes, cfg.Width, cfg.Stem))
	}
	if cfg.Init == nil {
		cfg.Init = MSRAOut()
	}
	if cfg.LinearInit == nil {
		cfg.LinearInit = Normal(0.01)
	}
	strides := cfg.strides()
	features := cfg.Prefix + "features."
	x := cfg.convNorm(images, features+"0.0", features+"0.1", Conv2DConfig{Filters: cfg.channels(32), Kernel: Square(3), Stride: Square(strides[0]), Pad: Square(1)})
	x = ReLU6(x)
	i := 1
	for stage, s := range mobileStages {
		stride := strides[stage+1]
		for range s.blocks {
			x = cfg.block(x, fmt.Sprintf("%s%d.conv.", features, i), s.expansion, cfg.channels(s.channels), stride)
			i, stride = i+1, 1
		}
	}
	end := fmt.Sprintf("%s%d.", features, i)
	x = ReLU6(cfg.convNorm(x, end+"0", end+"1", Conv2DConfig{Filters: cfg.last(), Kernel: Square(1)}))
	x = GlobalAvgPool2D(x)
	if cfg.Dropout > 0 {
		x = Dropout(x, cfg.Prefix+"classifier.0", cfg.Dropout)
	}
	return Linear(x, cfg.Prefix+"classifier.1", LinearConfig{Out: cfg.Classes, Init: cfg.LinearInit})
}

// convNorm is a convolution and its batch normalisation.
func (c MobileNetV2Config) convNorm(x *gorgonia.Node, conv, norm string, cfg Conv2DConfig) *gorgonia.Node {
	cfg.Init = c.Init
	return BatchNorm2D(Conv2D(x, conv, cfg), norm, BatchNormConfig{})
}

// block is an inverted residual block.
func (c MobileNetV2Config) block(x *gorgonia.Node, name string, expansion, channels, stride int) *gorgonia.Node {
	in, y, at := x.Shape()[1], x, 0
	hidden := in * expansion
	if expansion > 1 {
		y = ReLU6(c.convNorm(y, name+"0.0", name+"0.1", Conv2DConfig{Filters: hidden, Kernel: Square(1)}))
		at++
	}
	depthwise := fmt.Sprintf("%s%d.", name, at)
	y = ReLU6(c.convNorm(y, depthwise+"0", depthwise+"1", Conv2DConfig{Filters: hidden, Kernel: Square(3), Stride: Square(stride), Pad: Square(1), Groups: hidden}))
	y = c.convNorm(y, fmt.Sprintf("%s%d", name, at+1), fmt.Sprintf("%s%d", name, at+2), Conv2DConfig{Filters: channels, Kernel: Square(1)})
	if stride == 1 && in == channels {
		y = Add(x, y)
	}
	return y
}

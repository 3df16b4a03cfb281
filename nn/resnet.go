package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// Stem is the part of a residual network before its first stage.
type Stem uint8

const (
	// ImageNet is a 7×7 convolution with stride 2 and a 3×3 max pool with stride
	// 2, for large images: the stage sees a quarter of the height and width.
	ImageNet Stem = iota
	// CIFAR is a 3×3 convolution with stride 1 and no pool, for 32×32 images.
	CIFAR
)

func (s Stem) String() string {
	switch s {
	case ImageNet:
		return "ImageNet"
	case CIFAR:
		return "CIFAR"
	}
	return fmt.Sprintf("stem %d", uint8(s))
}

// ResNetConfig describes a residual network.
type ResNetConfig struct {
	// Classes is the width of the logits.
	Classes int
	// Stem is ImageNet (the default) or CIFAR.
	Stem Stem
	// Width is the number of channels of the first stage; 0 is 64. The others have 2, 4 and 8
	// times it.
	Width int
	// Init is that of convolutions; nil is MSRAOut.
	Init Init
	// LinearInit is that of the last layer; nil is XavierUniform(1).
	LinearInit Init
	// ZeroScale starts the last batch normalisation of each block at scale 0.
	ZeroScale bool
	// Prefix is that of all names; "" is none.
	Prefix string
}

// ResNet18 is the 18-layer residual network (He and others, 2016, table 1) over
// images (N,C,H,W), giving logits (N,Classes): torchvision's resnet18 and, with
// the ImageNet stem, MXNet's resnet18_v1. Shortcuts are the identity where the
// shape stays and otherwise a 1×1 convolution with batch normalisation, option B
// of the paper. Names are torchvision's: conv1, bn1, layer1.0.conv1,
// layer2.0.downsample.0, fc.
func ResNet18(images *gorgonia.Node, cfg ResNetConfig) *gorgonia.Node {
	return resNet("ResNet18", images, cfg, basicBlock, [4]int{2, 2, 2, 2})
}

// ResNet34 is ResNet18 with 3, 4, 6 and 3 blocks in its stages.
func ResNet34(images *gorgonia.Node, cfg ResNetConfig) *gorgonia.Node {
	return resNet("ResNet34", images, cfg, basicBlock, [4]int{3, 4, 6, 3})
}

// ResNet50 has the stages of ResNet34 made of bottleneck blocks, whose result is
// four times as wide. A block's stride is in its 3×3 convolution, as in
// torchvision ("version 1.5"); the paper and MXNet's resnet50_v1 have it in the
// first 1×1 convolution.
func ResNet50(images *gorgonia.Node, cfg ResNetConfig) *gorgonia.Node {
	return resNet("ResNet50", images, cfg, bottleneck, [4]int{3, 4, 6, 3})
}

// block builds one residual block of a width.
type block func(x *gorgonia.Node, name string, width int, stride [2]int, cfg ResNetConfig) *gorgonia.Node

func resNet(model string, x *gorgonia.Node, cfg ResNetConfig, b block, depths [4]int) *gorgonia.Node {
	want(model, x, 4, "N,C,H,W")
	if cfg.Classes < 1 || cfg.Width < 0 || cfg.Stem > CIFAR {
		panic(fmt.Sprintf("nn: %s: %d classes, width %d, %v; want at least 1 class, width of at least 0, ImageNet or CIFAR", model, cfg.Classes, cfg.Width, cfg.Stem))
	}
	if cfg.Width == 0 {
		cfg.Width = 64
	}
	if cfg.Init == nil {
		cfg.Init = MSRAOut()
	}
	x = stem(x, cfg)
	for i, depth := range depths {
		for j := range depth {
			stride := Square(1)
			if i > 0 && j == 0 {
				stride = Square(2)
			}
			x = b(x, fmt.Sprintf("%slayer%d.%d", cfg.Prefix, i+1, j), cfg.Width<<i, stride, cfg)
		}
	}
	return Linear(GlobalAvgPool2D(x), cfg.Prefix+"fc", LinearConfig{Out: cfg.Classes, Init: cfg.LinearInit})
}

func stem(x *gorgonia.Node, cfg ResNetConfig) *gorgonia.Node {
	conv := Conv2DConfig{Filters: cfg.Width, Kernel: Square(7), Stride: Square(2), Pad: Square(3), Init: cfg.Init}
	if cfg.Stem == CIFAR {
		conv.Kernel, conv.Stride, conv.Pad = Square(3), Square(1), Square(1)
	}
	x = Conv2D(x, cfg.Prefix+"conv1", conv)
	x = ReLU(BatchNorm2D(x, cfg.Prefix+"bn1", BatchNormConfig{}))
	if cfg.Stem == CIFAR {
		return x
	}
	return MaxPool2D(x, PoolConfig{Kernel: Square(3), Stride: Square(2), Pad: Square(1)})
}

// convNorm is convolution number i of a block and its batch normalisation.
func convNorm(x *gorgonia.Node, name string, i, filters, kernel int, stride [2]int, cfg ResNetConfig, last bool) *gorgonia.Node {
	x = Conv2D(x, fmt.Sprintf("%s.conv%d", name, i), Conv2DConfig{Filters: filters, Kernel: Square(kernel), Stride: stride, Pad: Square(kernel / 2), Init: cfg.Init})
	return BatchNorm2D(x, fmt.Sprintf("%s.bn%d", name, i), BatchNormConfig{ZeroScale: last && cfg.ZeroScale})
}

// basicBlock is relu(bn(conv3(relu(bn(conv3(x))))) + shortcut(x)).
func basicBlock(x *gorgonia.Node, name string, width int, stride [2]int, cfg ResNetConfig) *gorgonia.Node {
	y := ReLU(convNorm(x, name, 1, width, 3, stride, cfg, false))
	y = convNorm(y, name, 2, width, 3, Square(1), cfg, true)
	return ReLU(Add(y, shortcut(x, name, width, stride, cfg)))
}

// bottleneck is relu(bn(conv1(relu(bn(conv3(relu(bn(conv1(x)))))))) + shortcut(x)),
// the last convolution four times as wide.
func bottleneck(x *gorgonia.Node, name string, width int, stride [2]int, cfg ResNetConfig) *gorgonia.Node {
	y := ReLU(convNorm(x, name, 1, width, 1, Square(1), cfg, false))
	y = ReLU(convNorm(y, name, 2, width, 3, stride, cfg, false))
	y = convNorm(y, name, 3, 4*width, 1, Square(1), cfg, true)
	return ReLU(Add(y, shortcut(x, name, 4*width, stride, cfg)))
}

// shortcut is x, or a projection of x where channels or size change.
func shortcut(x *gorgonia.Node, name string, channels int, stride [2]int, cfg ResNetConfig) *gorgonia.Node {
	if stride == Square(1) && x.Shape()[1] == channels {
		return x
	}
	y := Conv2D(x, name+".downsample.0", Conv2DConfig{Filters: channels, Kernel: Square(1), Stride: stride, Init: cfg.Init})
	return BatchNorm2D(y, name+".downsample.1", BatchNormConfig{})
}

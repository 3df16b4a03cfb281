package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// MLPConfig describes a multi-layer perceptron.
type MLPConfig struct {
	// Hidden are the widths of the hidden layers, and Classes that of the result.
	Hidden  []int
	Classes int
	// Dropout is the rate after each hidden layer; 0 is none.
	Dropout float64
	// Prefix is that of all names; "" is none.
	Prefix string
}

// MLP is Flatten, then fc1, ReLU, fc2, ReLU, ... and a last Linear, giving logits
// (N,Classes).
func MLP(x *gorgonia.Node, cfg MLPConfig) *gorgonia.Node {
	x = Flatten(x)
	for i, width := range cfg.Hidden {
		name := fmt.Sprintf("%sfc%d", cfg.Prefix, i+1)
		x = ReLU(Linear(x, name, LinearConfig{Out: width, Init: MSRA()}))
		if cfg.Dropout > 0 {
			x = Dropout(x, fmt.Sprintf("%sdropout%d", cfg.Prefix, i+1), cfg.Dropout)
		}
	}
	return Linear(x, fmt.Sprintf("%sfc%d", cfg.Prefix, len(cfg.Hidden)+1), LinearConfig{Out: cfg.Classes})
}

// LeNetConfig describes a LeNet.
type LeNetConfig struct {
	Classes int
	// Prefix is that of all names; "" is none.
	Prefix string
}

// LeNet is LeNet-5 (LeCun and others, 1998) as it is used today, with ReLU and
// max pools, for images (N,C,28,28), or (N,C,H,W) of at least 12×12: conv1 of 6 filters 5×5
// with pad 2, pool, conv2 of 16 filters 5×5, pool, fc1 of 120, fc2 of 84, fc3.
// With one channel of 28×28 and 10 classes it has 61,706 parameters.
func LeNet(x *gorgonia.Node, cfg LeNetConfig) *gorgonia.Node {
	want("LeNet", x, 4, "N,C,H,W")
	if s := x.Shape(); s[2] < 12 || s[3] < 12 {
		panic(fmt.Sprintf("nn: LeNet: x is %v, want images of at least 12×12", s))
	}
	pool := PoolConfig{Kernel: Square(2)}
	p := cfg.Prefix
	x = MaxPool2D(ReLU(Conv2D(x, p+"conv1", Conv2DConfig{Filters: 6, Kernel: Square(5), Pad: Square(2), Bias: true})), pool)
	x = MaxPool2D(ReLU(Conv2D(x, p+"conv2", Conv2DConfig{Filters: 16, Kernel: Square(5), Bias: true})), pool)
	x = Flatten(x)
	x = ReLU(Linear(x, p+"fc1", LinearConfig{Out: 120, Init: MSRA()}))
	x = ReLU(Linear(x, p+"fc2", LinearConfig{Out: 84, Init: MSRA()}))
	return Linear(x, p+"fc3", LinearConfig{Out: cfg.Classes})
}

package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BatchNormConfig describes a batch normalisation.
type BatchNormConfig struct {
	// Eps is added to the variance; 0 is 1e-5.
	Eps float64
	// Momentum is the weight of a new batch in the running statistics; 0 is 0.1.
	Momentum float64
	// ZeroScale starts name.weight at 0 instead of 1, so that a residual branch
	// that ends in this layer starts as nothing.
	ZeroScale bool
}

// BatchNorm2D normalises the channels of x (N,C,H,W): in training by the mean and
// variance of the batch, in evaluation by the running ones. Momentum is the weight of
// the new batch, and the running variance the unbiased one, as in PyTorch. In training
// a batch has more than one value of each channel: Compile refuses a graph whose whole
// batch has one, and a short batch with one uses the running statistics.
// Parameters: name.weight and name.bias (C), the scale and shift.
// State: name.running_mean and name.running_var (C).
func BatchNorm2D(x *gorgonia.Node, name string, cfg BatchNormConfig) *gorgonia.Node {
	layer := fmt.Sprintf("BatchNorm2D %q", name)
	want(layer, x, 4, "N,C,H,W")
	if cfg.Eps == 0 {
		cfg.Eps = 1e-5
	}
	if cfg.Momentum == 0 {
		cfg.Momentum = 0.1
	}
	if !(cfg.Eps > 0) || !(cfg.Momentum > 0 && cfg.Momentum <= 1) {
		panic(fmt.Sprintf("nn: %s: eps %g and momentum %g, want eps > 0 and 0 < momentum ≤ 1", layer, cfg.Eps, cfg.Momentum))
	}
	scale := Ones()
	if cfg.ZeroScale {
		scale = Zeros()
	}
	channels, dt := x.Shape()[1], floatType(x)
	gamma, beta := newParameter(x, name+".weight", scale, channels), newParameter(x, name+".bias", Zeros(), channels)
	r := op.RegistryOf(x.Graph())
	state := &op.BatchNormState{
		Name: name,
		Mean: tensor.New(tensor.Of(dt), tensor.WithShape(channels)),
		Var:  tensor.Ones(dt, channels),
	}
	y := apply(layer, &op.BatchNorm2D{Eps: cfg.Eps, Momentum: cfg.Momentum, State: state, Mode: r.Mode}, x, gamma, beta)
	r.AddState(state)
	return apply(layer, &op.Take{Shape: x.Shape(), From: 4}, y)
}

// LayerNormConfig describes a layer normalisation.
type LayerNormConfig struct {
	// Epsilon is added to the variance; 0 is 1e-5, as in PyTorch and GPT-2. Vision transformers
	// have 1e-6, BERT 1e-12.
	Epsilon float64
	// NoBias leaves the shift out.
	NoBias bool
}

// LayerNorm normalises the last axis of x (...,C), which has two axes or more, by its mean and its
// biased variance (Ba, Kiros and Hinton, 2016), in evaluation as in training.
// Parameters: name.weight (C), which starts at 1, and name.bias (C), which starts at 0.
func LayerNorm(x *gorgonia.Node, name string, cfg LayerNormConfig) *gorgonia.Node {
	return rowNorm(fmt.Sprintf("LayerNorm %q", name), x, name, op.RowNorm{Eps: cfg.Epsilon, Bias: !cfg.NoBias})
}

// RMSNormConfig describes a normalisation by the root of the mean square.
type RMSNormConfig struct {
	// Epsilon is added to the mean square; 0 is 1e-5, as in Llama 2 and 3. Llama 1 has 1e-6.
	Epsilon float64
}

// RMSNorm divides the last axis of x (...,C), which has two axes or more, by the root of its mean
// square (Zhang and Sennrich, 2019). Parameter: name.weight (C), which starts at 1.
func RMSNorm(x *gorgonia.Node, name string, cfg RMSNormConfig) *gorgonia.Node {
	return rowNorm(fmt.Sprintf("RMSNorm %q", name), x, name, op.RowNorm{Eps: cfg.Epsilon, RMS: true})
}

func rowNorm(layer string, x *gorgonia.Node, name string, o op.RowNorm) *gorgonia.Node {
	s := x.Shape()
	if s.Dims() < 2 {
		panic(fmt.Sprintf("nn: %s: x is %v, want (...,C) of 2 dimensions or more", layer, s))
	}
	o.Dims, o.Eps = s.Dims(), normEpsilon(layer, o.Eps)
	channels := s[s.Dims()-1]
	children := gorgonia.Nodes{x, newParameter(x, name+".weight", Ones(), channels)}
	if o.Bias {
		children = append(children, newParameter(x, name+".bias", Zeros(), channels))
	}
	return apply(layer, &op.Take{Shape: s.Clone(), From: s.Dims()}, apply(layer, &o, children...))
}

// normEpsilon is eps, or for 0 what normalisations have by default.
func normEpsilon(layer string, eps float64) float64 {
	if eps == 0 {
		return 1e-5
	}
	if !(eps > 0) {
		panic(fmt.Sprintf("nn: %s: Epsilon is %g, want above 0", layer, eps))
	}
	return eps
}

// GroupNormConfig describes a group normalisation.
type GroupNormConfig struct {
	// Groups is how many groups the channels are cut into, which it must divide.
	Groups int
	// Epsilon is added to the variance; 0 is 1e-5.
	Epsilon float64
}

// GroupNorm normalises each group of neighbouring channels of each image of x (N,C,H,W) by its mean
// and its biased variance (Wu and He, 2018), in evaluation as in training.
// Parameters: name.weight (C), which starts at 1, and name.bias (C), which starts at 0.
func GroupNorm(x *gorgonia.Node, name string, cfg GroupNormConfig) *gorgonia.Node {
	layer := fmt.Sprintf("GroupNorm %q", name)
	want(layer, x, 4, "N,C,H,W")
	channels := x.Shape()[1]
	if cfg.Groups < 1 || channels%cfg.Groups != 0 {
		panic(fmt.Sprintf("nn: %s: x %v has %d channels and Groups is %d, want a number that divides them", layer, x.Shape(), channels, cfg.Groups))
	}
	o := &op.GroupNorm{Groups: cfg.Groups, Eps: normEpsilon(layer, cfg.Epsilon)}
	y := apply(layer, o, x, newParameter(x, name+".weight", Ones(), channels), newParameter(x, name+".bias", Zeros(), channels))
	return apply(layer, &op.Take{Shape: x.Shape().Clone(), From: 4}, y)
}

// Dropout zeroes elements of x at the given rate in training and scales the rest
// by 1/(1−rate); in evaluation it does nothing. The mask depends on the
// graph's seed, on name, which must be new in the graph, and on the step.
func Dropout(x *gorgonia.Node, name string, rate float64) *gorgonia.Node {
	layer := fmt.Sprintf("Dropout %q", name)
	r := op.RegistryOf(x.Graph())
	if err := r.Claim(name); err != nil {
		panic(fmt.Sprintf("nn: %s: %v", layer, err))
	}
	return apply(layer, &op.Dropout{Rate: rate, Seed: r.Seed, Name: name, Mode: r.Mode}, x)
}

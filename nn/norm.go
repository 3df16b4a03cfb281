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

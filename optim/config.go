package optim

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"reflect"
)

// A Config names an update rule and gives its numbers. A zero field means the
// default stated beside it; a field that the rule does not use must stay zero.
// Where zero is itself a sensible setting but means a default here (Beta1, for
// one), a number too small to matter, such as 1e-30, stands for none.
type Config struct {
	// Name is the rule: one of Names. It has no default.
	Name string `json:"name"`

	// LearningRate is the rate before schedule and multipliers. Zero means the
	// rule's default: 0.01 for sgd, nag and adagrad, 0.001 for adam, adamw,
	// rmsprop and lamb, 0.1 for ftrl and lars (all MXNet's), 1 for test.
	LearningRate float64 `json:"learning_rate,omitempty"`

	// Momentum is μ of sgd, nag, lars and rmsprop, in [0, 1). Zero is none and
	// keeps no state for it. The velocity holds the learning rate, as in
	// Sutskever et al. 2013 and MXNet: m ← μm − ηg, w ← w + m.
	Momentum float64 `json:"momentum,omitempty"`

	// Velocity says what the velocity of Momentum is of. Empty: of steps, it
	// holds the learning rate. "gradients" is PyTorch's: m ← μm − g,
	// w ← w + ηm, so that a new rate acts on all of the next step; a rate of 0
	// leaves m alone.
	Velocity string `json:"velocity,omitempty"`

	// WeightDecay is λ. adamw and lamb subtract it from the weight apart from
	// the gradient (decoupled, Loshchilov and Hutter 2019, scaled by the
	// learning rate as in PyTorch); in ftrl it is the paper's λ₂; all others
	// add λw to the gradient. Zero is none.
	WeightDecay float64 `json:"weight_decay,omitempty"`

	// Beta1 and Beta2 are the decay rates of the first and second moment in
	// adam, adamw and lamb, in (0, 1). Zero means 0.9 and 0.999, the papers'.
	Beta1 float64 `json:"beta1,omitempty"`
	Beta2 float64 `json:"beta2,omitempty"`

	// Epsilon is added to the denominator, outside the root. Zero means 1e-8
	// for adam, adamw, rmsprop and lars, 1e-6 for lamb (the paper's), and
	// 1e-10 for adagrad (PyTorch's).
	Epsilon float64 `json:"epsilon,omitempty"`

	// Rho is the decay rate of rmsprop's mean square, in (0, 1). Zero means
	// 0.9 (Hinton's lecture and MXNet; PyTorch has 0.99).
	Rho float64 `json:"rho,omitempty"`

	// Centered makes rmsprop divide by an estimate of the gradient's standard
	// deviation in place of its root mean square (Graves 2013).
	Centered bool `json:"centered,omitempty"`

	// InitialAccumulator is what adagrad's sum of squares starts from. Zero
	// (PyTorch and the paper) is zero.
	InitialAccumulator float64 `json:"initial_accumulator,omitempty"`

	// L1 is ftrl's λ₁, which makes weights exactly zero. Zero is none.
	L1 float64 `json:"l1,omitempty"`

	// Beta is ftrl's β. Zero means 1, as the paper advises.
	Beta float64 `json:"beta,omitempty"`

	// TrustCoefficient is the η of lars. Zero means 0.001, the paper's.
	TrustCoefficient float64 `json:"trust_coefficient,omitempty"`

	// ClipGradient limits each element of the gradient to [−c, c], after
	// scaling and before weight decay (MXNet's clip_gradient). Zero is no
	// limit.
	ClipGradient float64 `json:"clip_gradient,omitempty"`

	// ClipNorm scales the gradient of a key down so that its Euclidean norm is
	// at most this, after ClipGradient. It is a norm for each key, not over
	// all keys, which ClipGlobalNorm is. Zero is no limit.
	ClipNorm float64 `json:"clip_norm,omitempty"`

	// ClipGlobalNorm scales the gradients of all keys of a step down by one
	// factor, so that the Euclidean norm over all of them together is at most
	// this, after ClipGradient (PyTorch's clip_grad_norm_, which adds 1e-6 to
	// the norm). A step whose norm is NaN or infinite changes nothing. Whoever
	// has all keys finds the factor, see ClipFactor, and hands it to
	// Pass.WithClip; without it an update is an error. worker.Trainer does so;
	// own loops call kvstore.Store's ClipGlobalNorm. Not together with
	// ClipNorm. Zero is no limit.
	ClipGlobalNorm float64 `json:"clip_global_norm,omitempty"`

	// Rescale multiplies the gradient, on top of the scale handed to At. Zero
	// means 1.
	Rescale float64 `json:"rescale,omitempty"`

	// Reduction says what becomes of the contributions of a round: "sum" (the
	// default) or "mean", which divides by the sum of their weights. Whoever
	// sums the contributions passes ScaleFor(that sum) to At.
	Reduction string `json:"reduction,omitempty"`

	// Schedule changes the learning rate with the step. The zero Schedule is
	// constant.
	Schedule Schedule `json:"schedule,omitzero"`

	// Changes set the learning rate by hand, each from its step on and in
	// place of the schedule, until the next change. Steps must rise.
	Changes []Change `json:"changes,omitempty"`

	// LearningRateFactors and WeightDecayFactors multiply the learning rate
	// and the weight decay of single keys. A key that no entry names has 1.
	LearningRateFactors []Factor `json:"learning_rate_factors,omitempty"`
	WeightDecayFactors  []Factor `json:"weight_decay_factors,omitempty"`
}

// A Change sets the learning rate from a step on.
type Change struct {
	Step         uint64  `json:"step"`
	LearningRate float64 `json:"learning_rate"`
}

// The two values of Config.Reduction.
const (
	Sum  = "sum"
	Mean = "mean"
)

// Gradients is the value of Config.Velocity for a velocity without the
// learning rate.
const Gradients = "gradients"

// WithDefaults returns the config with every zero field that has a default
// replaced by it.
func (c Config) WithDefaults() Config {
	r, ok := rules[c.Name]
	if !ok {
		return c
	}
	fill := func(field *float64, value float64) {
		if *field == 0 {
			*field = value
		}
	}
	fill(&c.LearningRate, r.learningRate)
	fill(&c.Rescale, 1)
	if r.uses("Beta1") {
		fill(&c.Beta1, 0.9)
		fill(&c.Beta2, 0.999)
	}
	if r.uses("Epsilon") {
		fill(&c.Epsilon, r.epsilon)
	}
	if r.uses("Rho") {
		fill(&c.Rho, 0.9)
	}
	if r.uses("Beta") {
		fill(&c.Beta, 1)
	}
	if r.uses("TrustCoefficient") {
		fill(&c.TrustCoefficient, 0.001)
	}
	if c.Reduction == "" {
		c.Reduction = Sum
	}
	c.Schedule = c.Schedule.withDefaults()
	if len(c.Changes) == 0 {
		c.Changes = nil
	}
	if len(c.LearningRateFactors) == 0 {
		c.LearningRateFactors = nil
	}
	if len(c.WeightDecayFactors) == 0 {
		c.WeightDecayFactors = nil
	}
	return c
}

// WholeKeys reports whether the rule needs norms over a whole key, so that its
// keys are best left uncut: lars, lamb, and every rule with ClipNorm.
func (c Config) WholeKeys() bool {
	return c.ClipNorm > 0 || c.Name == "lars" || c.Name == "lamb"
}

// ClipFactor returns what ClipGlobalNorm multiplies the gradients of a step by
// whose norm over all keys is this: min(1, ClipGlobalNorm/norm). Zero says that
// the norm is not a finite number, so that the step is to be skipped: no
// value and no state changes.
func (c Config) ClipFactor(norm float64) float64 {
	switch {
	case math.IsNaN(norm) || math.IsInf(norm, 0):
		return 0
	case c.ClipGlobalNorm == 0 || norm <= c.ClipGlobalNorm:
		return 1
	}
	return c.ClipGlobalNorm / norm
}

// ScaleFor returns the scale to hand to Optimizer.At for a sum of
// contributions whose weights add up to weight: 1 under Sum, 1/weight under
// Mean (and 1 where weight is not above zero).
func (c Config) ScaleFor(weight float64) float64 {
	if c.Reduction != Mean || !(weight > 0) {
		return 1
	}
	return 1 / weight
}

// WithLearningRate returns the config with the learning rate set by hand from
// the step on. Earlier changes hold until then; changes at or after the step
// are dropped. Receiver and result share no memory that either may write.
func (c Config) WithLearningRate(from uint64, rate float64) Config {
	var changes []Change
	for _, ch := range c.Changes {
		if ch.Step < from {
			changes = append(changes, ch)
		}
	}
	c.Changes = append(changes, Change{Step: from, LearningRate: rate})
	return c
}

// Equal reports whether two configs mean the same: they are compared with
// their defaults filled in.
func (c Config) Equal(d Config) bool {
	return reflect.DeepEqual(c.WithDefaults(), d.WithDefaults())
}

// Hash returns a digest of the config in hex: equal configs have equal hashes.
// It is empty for a config that is not valid.
func (c Config) Hash() string {
	data, err := c.WithDefaults().Encode()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

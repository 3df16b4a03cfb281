package optim

import (
	"fmt"
	"math"
)

// An Optimizer applies the rule of its config. It never changes.
type Optimizer struct {
	// cfg has its defaults filled in.
	cfg   Config
	rule  rule
	slots []string
	// at has for each argument of rule.update its slot's index, or -1.
	at [3]int
}

// New returns the optimizer of a valid config.
func New(cfg Config) (*Optimizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	r := rules[cfg.Name]
	o := &Optimizer{cfg: cfg, rule: r, slots: r.slots(&cfg), at: [3]int{0, 1, 2}}
	if cfg.Name == "rmsprop" && !cfg.Centered {
		o.at = [3]int{0, -1, 1}
	}
	return o, nil
}

// Config returns the config with its defaults filled in.
func (o *Optimizer) Config() Config { return o.cfg }

// Factors returns the multipliers of the key. Look them up once for each key:
// patterns take time.
func (o *Optimizer) Factors(key string) Factors { return o.cfg.Factors(key) }

// A Pass is one update of one key: everything but the arrays. It is a plain
// value; the one that At returns works on a whole key.
type Pass struct {
	o            *Optimizer
	learningRate float64
	// factor multiplies the learning rate in this step alone. gain is that of WithGain.
	factor, gain float64
	weightDecay  float64
	// correction1 is 1 − β₁ᵗ, and correction2 is 1 − β₂ᵗ.
	correction1, correction2 float64

	// The gradient that a rule sees is that of a push times scale, cut to ±clip,
	// times shrink. shrinkKnown says that shrink is that of the whole key.
	scale, clip, shrink float32
	shrinkKnown         bool
	// globalKnown says that shrink has the factor of ClipGlobalNorm, if there is one.
	globalKnown bool

	// trust multiplies the learning rate of lars and lamb, once it is known.
	trust      float64
	trustKnown bool
}

// At prepares update number step, from 0, of a key with the given factors.
// scale multiplies the gradient (see Config.ScaleFor); 1 leaves it.
func (o *Optimizer) At(step uint64, scale float64, factors Factors) Pass {
	return o.AtRate(step, o.cfg.LearningRateAt(step), scale, factors)
}

// AtRate is At with a learning rate in place of the schedule's.
func (o *Optimizer) AtRate(step uint64, learningRate, scale float64, factors Factors) Pass {
	p := Pass{
		o:            o,
		learningRate: learningRate * factors.LearningRate,
		factor:       1,
		gain:         1,
		weightDecay:  o.cfg.WeightDecay * factors.WeightDecay,
		scale:        float32(scale * o.cfg.Rescale),
		clip:         float32(math.Inf(1)),
		shrink:       1,
		shrinkKnown:  o.cfg.ClipNorm == 0,
		globalKnown:  o.cfg.ClipGlobalNorm == 0,
		trust:        1,
		trustKnown:   o.cfg.Name != "lars" && o.cfg.Name != "lamb",
	}
	if o.cfg.Velocity == Gradients {
		// A velocity does not hold the factor.
		p.learningRate, p.factor = 1, p.learningRate
	}
	if o.cfg.ClipGradient > 0 {
		p.clip = float32(o.cfg.ClipGradient)
	}
	if o.cfg.Beta1 > 0 {
		t := float64(step) + 1
		p.correction1 = 1 - math.Pow(o.cfg.Beta1, t)
		p.correction2 = 1 - math.Pow(o.cfg.Beta2, t)
	}
	return p
}

// AtProgress is At with the schedule read at progress (see
// Config.LearningRateBy). Bias corrections go by the step.
func (o *Optimizer) AtProgress(step uint64, progress, scale float64, factors Factors) Pass {
	return o.AtRate(step, o.cfg.LearningRateBy(step, progress), scale, factors)
}

// WithFactor returns the pass with a learning rate multiplied by factor, for
// this step alone. What a rule remembers is what it would be without the
// factor: a velocity, which holds the learning rate (m ← μm − ηg), does not get
// it, the step along it does (w ← w + factor·m), as with a rule whose velocity
// is of gradients and whose rate is scaled for the step (AdaScale, Johnson et
// al. 2020, algorithm 1, with momentum as in PyTorch). The exception is ftrl,
// whose z and n hold the rate of each step.
func (p Pass) WithFactor(factor float64) Pass {
	p.factor *= factor
	return p
}

// WithGain returns the pass for a gradient whose mean square is 1/gain of what
// it would be at the batch size for which the learning rate was chosen (AdaScale's
// gain ratio, Johnson et al. 2020, equation 3), for this step alone. adam, adamw,
// lamb and rmsprop keep the second moment as it would be at that batch size, and
// divide by what it is at this one:
//
//	v ← β₂v + (1−β₂)·gain·g²,   w ← w − η·m̂ / √(v̂/gain),   ε in proportion
//
// So v stays right when the batch changes. In a steady state that is the step of
// a v of the present batch, with ε/√gain (the square-root scaling rule, Malladi et
// al. 2022, arXiv 2205.10287). β₁ and β₂ are those of a step. The other rules, and
// rmsprop with Centered, do as without a gain. It must be above 0; one beyond 128
// counts as 128, so that float32 holds the squares.
func (p Pass) WithGain(gain float64) Pass {
	p.gain = min(gain, mostGain)
	return p
}

// mostGain times the square of the largest gradient that is squared as it is, 2⁶⁰, is in float32's
// range.
const mostGain = 128

// WithClip returns the pass with the gradient multiplied by factor, above 0 and
// at most 1, after ClipGradient: that of ClipGlobalNorm, which is the same for
// all keys of a step.
func (p Pass) WithClip(factor float64) Pass {
	p.shrink *= float32(factor)
	p.globalKnown = true
	return p
}

// checkClip returns an error if the factor of ClipGlobalNorm is not known.
func (p Pass) checkClip() error {
	if p.globalKnown {
		return nil
	}
	return fmt.Errorf("optim: %s: update: ClipGlobalNorm is %v, but the pass does not know the factor: take GradientSquares of all keys of the step, and hand ClipFactor to WithClip",
		p.o.cfg.Name, p.o.cfg.ClipGlobalNorm)
}

// LearningRate returns the rate of this pass: that of the schedule, times the
// key's factor and the step's.
func (p Pass) LearningRate() float64 { return p.learningRate * p.factor }

// Update changes value by grad and state, all of one length. It does not
// change grad and keeps none of them.
func (p Pass) Update(value, grad []float32, state *State) error {
	if len(grad) != len(value) {
		return fmt.Errorf("optim: %s: update: got %d gradients for %d values", p.o.cfg.Name, len(grad), len(value))
	}
	if err := p.o.Check(state, len(value)); err != nil {
		return err
	}
	if err := p.checkClip(); err != nil {
		return err
	}
	if !p.shrinkKnown {
		p = p.WithGradientSquares(p.GradientSquares(grad))
	}
	if !p.trustKnown {
		p = p.WithNorms(p.norms(value, grad, state, 0, len(value)))
	}
	p.apply(value, grad, state, 0, len(value))
	return nil
}

// UpdateRows is the lazy update of some rows of a table: value holds rows of
// rowLen numbers, row i of grad belongs to row rows[i] of value. Rows need not
// be sorted; a row named twice is updated twice, in order. Rows that are not
// named are neither read nor written, in value and in state.
//
// Norms, where the rule needs them, are taken over the named rows together.
// When an error is returned, nothing was changed.
func (p Pass) UpdateRows(rows []int64, rowLen int, value, grad []float32, state *State) error {
	name := p.o.cfg.Name
	if rowLen <= 0 || len(value)%rowLen != 0 {
		return fmt.Errorf("optim: %s: update rows: got rows of %d for a table of %d values", name, rowLen, len(value))
	}
	if len(grad)%rowLen != 0 || len(grad)/rowLen != len(rows) {
		return fmt.Errorf("optim: %s: update rows: got %d gradients for %d rows of %d", name, len(grad), len(rows), rowLen)
	}
	if err := p.o.Check(state, len(value)); err != nil {
		return err
	}
	if err := p.checkClip(); err != nil {
		return err
	}
	numRows := int64(len(value) / rowLen)
	for i, r := range rows {
		if r < 0 || r >= numRows {
			return fmt.Errorf("optim: %s: update rows: rows[%d]: got row %d, want 0 to %d", name, i, r, numRows-1)
		}
	}
	if !p.shrinkKnown {
		p = p.WithGradientSquares(p.GradientSquares(grad))
	}
	if !p.trustKnown {
		var n Norms
		for i, r := range rows {
			from := int(r) * rowLen
			n = n.Add(p.norms(value[from:from+rowLen], grad[i*rowLen:(i+1)*rowLen], state, from, from+rowLen))
		}
		p = p.WithNorms(n)
	}
	p.applyRows(rows, rowLen, value, grad, state)
	return nil
}

// apply runs the rule on a piece of a key whose state is [from, to) of the
// slots.
func (p Pass) apply(value, grad []float32, state *State, from, to int) {
	if len(value) == 0 {
		return
	}
	var s [3][]float32
	for i, k := range p.o.at {
		if k >= 0 && k < len(p.o.slots) {
			s[i] = state.Slots[k].Values[from:to]
		}
	}
	p.o.rule.update(p, value, grad, s[0], s[1], s[2])
}

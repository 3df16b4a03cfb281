package optim

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// The loops are those of package f32. The functions below fill in the numbers.

// numbers is what f32 takes of the pass; the rules add what they alone use.
func (p Pass) numbers() f32.Update {
	c := &p.o.cfg
	return f32.Update{
		Scale: p.scale, Clip: p.clip, Shrink: p.shrink,
		Rate: float32(p.learningRate * p.factor), Decay: float32(p.weightDecay), Momentum: float32(c.Momentum), Factor: 1,
		Epsilon: float32(c.Epsilon), Keep: 1,
	}
}

// test is w ← w + ηg.
func test(p Pass, value, grad, _, _, _ []float32) {
	u := p.numbers()
	u.Ascend(value, grad)
}

// sgd is m ← μm − η(g + λw), w ← w + φm, φ the step's factor, of which 0 leaves m alone; without
// momentum w ← w − φη(g + λw). For lars η holds the trust ratio.
func sgd(p Pass, value, grad, m, _, _ []float32) {
	u := p.numbers()
	if m == nil {
		u.Rate = float32(p.learningRate * p.factor * p.trust)
		u.SGD(value, grad)
		return
	}
	if p.factor == 0 { // the step stands still
		return
	}
	u.Rate, u.Factor = float32(p.learningRate*p.trust), float32(p.factor)
	u.MomentumSGD(value, grad, m)
}

// nag is Nesterov's momentum in the form of Bengio et al. 2013, eq. 7:
// m ← μm − η(g + λw), w ← w + φμm − φη(g + λw); a φ of 0 leaves m alone.
func nag(p Pass, value, grad, m, _, _ []float32) {
	u := p.numbers()
	if m == nil {
		u.SGD(value, grad)
		return
	}
	if p.factor == 0 { // the step stands still
		return
	}
	u.Rate, u.Factor = float32(p.learningRate), float32(p.factor)
	u.Nesterov(value, grad, m)
}

// adam is algorithm 1 of Kingma and Ba 2015 with λw added to g:
// m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
// w ← w − η·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε).
func adam(p Pass, value, grad, mean, variance, _ []float32) {
	u := p.moments()
	u.Adam(value, grad, mean, variance)
}

// adamw is adam without λw in g and with w ← w − ηλw before the step
// (Loshchilov and Hutter 2019, algorithm 2, as in PyTorch).
func adamw(p Pass, value, grad, mean, variance, _ []float32) {
	u := p.adamwNumbers()
	u.Adam(value, grad, mean, variance)
}

func (p Pass) adamwNumbers() f32.Update {
	u := p.moments()
	u.Decay, u.Keep = 0, float32(1-p.learningRate*p.factor*p.weightDecay)
	return u
}

// Squares are sums of squares: of a gradient, of what is added to it and of
// their sum.
type Squares struct{ Before, Added, After float64 }

// UpdateMeasured adds x to grad and updates as Update does, for an Optimizer
// that HasMeasuredUpdate. In the same pass over memory it takes the squares of
// grad as it was, of x and of their sum, all divided by √v·root + epsilon: see
// SecondMoment.
func (p Pass) UpdateMeasured(value, grad, x []float32, state *State, root, epsilon float32) (Squares, error) {
	c := &p.o.cfg
	switch {
	case !p.o.HasMeasuredUpdate():
		return Squares{}, fmt.Errorf("optim: %s with ClipNorm %v: has no measured update", c.Name, c.ClipNorm)
	case len(grad) != len(value) || len(x) != len(value):
		return Squares{}, fmt.Errorf("optim: %s: measured update: got %d and %d gradients for %d values", c.Name, len(grad), len(x), len(value))
	}
	if err := p.o.Check(state, len(value)); err != nil {
		return Squares{}, err
	}
	u := p.moments()
	if c.Name == "adamw" {
		u = p.adamwNumbers()
	}
	var s f32.AddSquares
	u.AdamMeasured(value, grad, x, state.Slot("mean"), f32.Precondition{Variance: state.Slot("variance"), Root: root, Epsilon: epsilon}, &s)
	return Squares{s.Before.Total(), s.Added.Total(), s.After.Total()}, nil
}

// moments is numbers with what adam's mean and variance need; the rate holds
// the mean's correction and the root of the gain.
func (p Pass) moments() f32.Update {
	u, c := p.numbers(), &p.o.cfg
	u.Beta1, u.Rest1 = float32(c.Beta1), float32(1-c.Beta1)
	u.Beta2, u.Rest2 = float32(c.Beta2), float32((1-c.Beta2)*p.gain)
	u.Rate = float32(p.learningRate * p.factor * math.Sqrt(p.gain) / p.correction1)
	u.Root = float32(1 / math.Sqrt(p.correction2))
	return u
}

// adagrad is h ← h + g², w ← w − ηg/(√h + ε), with λw added to g (Duchi et al.
// 2011, diagonal form).
func adagrad(p Pass, value, grad, h, _, _ []float32) {
	u := p.numbers()
	u.Adagrad(value, grad, h)
}

// rmsprop is s ← ρs + (1−ρ)g², u = ηg/(√s + ε), w ← w − u, with λw added to g
// (Hinton's lecture 6e). Centered takes √(s − a²) with a ← ρa + (1−ρ)g (Graves
// 2013, eq. 38 to 41). Momentum makes it m ← μm − u, w ← w + φm, with η alone in
// u.
func rmsprop(p Pass, value, grad, square, mean, m []float32) {
	u, c := p.numbers(), &p.o.cfg
	// A mean's gradients would be multiplied as the squares are.
	gain := p.gain
	if mean != nil {
		gain = 1
	}
	u.Beta2, u.Rest2 = float32(c.Rho), float32((1-c.Rho)*gain)
	u.Rate = float32(p.learningRate * p.factor * math.Sqrt(gain))
	if m != nil {
		u.Rate, u.Factor = float32(p.learningRate*math.Sqrt(gain)), float32(p.factor)
		// Where the step stands still the squares get it all the same.
		if p.factor == 0 {
			u.Rate, u.Momentum = 0, 1
		}
	}
	u.RMSProp(value, grad, square, mean, m)
}

// ftrl is FTRL-Proximal (McMahan et al. 2013, algorithm 1):
// σ = (√(n+g²) − √n)/η, z ← z + g − σw, n ← n + g²,
// w ← 0 where |z| ≤ λ₁, else −(z − sign(z)λ₁) / ((β+√n)/η + λ₂).
// A rate of zero leaves everything as it is.
func ftrl(p Pass, value, grad, z, n, _ []float32) {
	rate := p.learningRate * p.factor
	if rate == 0 {
		return
	}
	u, c := p.numbers(), &p.o.cfg
	u.Inverse, u.Beta, u.L1 = float32(1/rate), float32(c.Beta), float32(c.L1)
	u.FTRL(value, grad, z, n)
}

// lamb is adam's moments m and v with r = m̂/(√v̂ + ε) + λw and
// w ← w − η·(‖w‖/‖r‖)·r (You et al. 2020, algorithm 2, φ the identity).
func lamb(p Pass, value, grad, mean, variance, _ []float32) {
	u := p.lambNumbers()
	u.Lamb(value, grad, mean, variance)
}

// lambNumbers is moments with the mean's correction by itself.
func (p Pass) lambNumbers() f32.Update {
	u := p.moments()
	u.Rate, u.Correction = float32(p.learningRate*p.factor*p.trust), float32(math.Sqrt(p.gain)/p.correction1)
	return u
}

package optim

import "math"

// The loops below take value, grad and state of one length and read and write
// each element once. They are written for a compiler or a kernel generator to
// vectorise: constants first, no branch that a minimum or a mask cannot replace.

// An input turns an element of the summed gradient into the g that a rule sees.
type input struct {
	scale, clip, shrink float32
}

func (in input) of(g float32) float32 {
	g *= in.scale
	if g > in.clip {
		g = in.clip
	}
	if g < -in.clip {
		g = -in.clip
	}
	return g * in.shrink
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// test is w ← w + ηg.
func test(p Pass, value, grad, _, _, _ []float32) {
	in := p.in
	rate := float32(p.learningRate)
	grad = grad[:len(value)]
	for i, w := range value {
		value[i] = w + rate*in.of(grad[i])
	}
}

// sgd is m ← μm − η(g + λw), w ← w + m; without momentum w ← w − η(g + λw).
// For lars η holds the trust ratio.
func sgd(p Pass, value, grad, m, _, _ []float32) {
	in := p.in
	rate, decay := float32(p.learningRate*p.trust), float32(p.weightDecay)
	grad = grad[:len(value)]
	if m == nil {
		for i, w := range value {
			value[i] = w - rate*(in.of(grad[i])+decay*w)
		}
		return
	}
	mu := float32(p.o.cfg.Momentum)
	m = m[:len(value)]
	for i, w := range value {
		v := mu*m[i] - rate*(in.of(grad[i])+decay*w)
		m[i] = v
		value[i] = w + v
	}
}

// nag is Nesterov's momentum in the form of Bengio et al. 2013, eq. 7:
// m ← μm − η(g + λw), w ← w + μm − η(g + λw).
func nag(p Pass, value, grad, m, _, _ []float32) {
	in := p.in
	if m == nil {
		sgd(p, value, grad, nil, nil, nil)
		return
	}
	rate, decay, mu := float32(p.learningRate), float32(p.weightDecay), float32(p.o.cfg.Momentum)
	grad, m = grad[:len(value)], m[:len(value)]
	for i, w := range value {
		d := rate * (in.of(grad[i]) + decay*w)
		v := mu*m[i] - d
		m[i] = v
		value[i] = w + mu*v - d
	}
}

// adam is algorithm 1 of Kingma and Ba 2015 with λw added to g:
// m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
// w ← w − η·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε).
func adam(p Pass, value, grad, mean, variance, _ []float32) {
	adamLoop(p, value, grad, mean, variance, float32(p.weightDecay), 1)
}

// adamw is adam without λw in g and with w ← w − ηλw before the step
// (Loshchilov and Hutter 2019, algorithm 2, as in PyTorch).
func adamw(p Pass, value, grad, mean, variance, _ []float32) {
	adamLoop(p, value, grad, mean, variance, 0, float32(1-p.learningRate*p.weightDecay))
}

func adamLoop(p Pass, value, grad, mean, variance []float32, decay, keep float32) {
	in := p.in
	c := &p.o.cfg
	beta1, rest1 := float32(c.Beta1), float32(1-c.Beta1)
	beta2, rest2 := float32(c.Beta2), float32(1-c.Beta2)
	rate := float32(p.learningRate / p.correction1)
	root, epsilon := float32(1/math.Sqrt(p.correction2)), float32(c.Epsilon)
	grad, mean, variance = grad[:len(value)], mean[:len(value)], variance[:len(value)]
	for i, w := range value {
		g := in.of(grad[i]) + decay*w
		m := beta1*mean[i] + rest1*g
		v := beta2*variance[i] + rest2*(g*g)
		mean[i], variance[i] = m, v
		value[i] = keep*w - rate*m/(sqrt(v)*root+epsilon)
	}
}

// adagrad is h ← h + g², w ← w − ηg/(√h + ε), with λw added to g (Duchi et al.
// 2011, diagonal form).
func adagrad(p Pass, value, grad, h, _, _ []float32) {
	in := p.in
	rate, decay, epsilon := float32(p.learningRate), float32(p.weightDecay), float32(p.o.cfg.Epsilon)
	grad, h = grad[:len(value)], h[:len(value)]
	for i, w := range value {
		g := in.of(grad[i]) + decay*w
		sum := h[i] + g*g
		h[i] = sum
		value[i] = w - rate*g/(sqrt(sum)+epsilon)
	}
}

// rmsprop is s ← ρs + (1−ρ)g², u = ηg/(√s + ε), w ← w − u, with λw added to g
// (Hinton's lecture 6e). Centered takes √(s − a²) with a ← ρa + (1−ρ)g (Graves
// 2013, eq. 38 to 41). Momentum makes it m ← μm − u, w ← w + m.
func rmsprop(p Pass, value, grad, square, mean, m []float32) {
	in := p.in
	c := &p.o.cfg
	rate, decay, epsilon := float32(p.learningRate), float32(p.weightDecay), float32(c.Epsilon)
	rho, rest, mu := float32(c.Rho), float32(1-c.Rho), float32(c.Momentum)
	grad, square = grad[:len(value)], square[:len(value)]
	for i, w := range value {
		g := in.of(grad[i]) + decay*w
		s := rho*square[i] + rest*(g*g)
		square[i] = s
		if mean != nil {
			a := rho*mean[i] + rest*g
			mean[i] = a
			s = max(s-a*a, 0)
		}
		u := rate * g / (sqrt(s) + epsilon)
		if m == nil {
			value[i] = w - u
			continue
		}
		v := mu*m[i] - u
		m[i] = v
		value[i] = w + v
	}
}

// ftrl is FTRL-Proximal (McMahan et al. 2013, algorithm 1):
// σ = (√(n+g²) − √n)/η, z ← z + g − σw, n ← n + g²,
// w ← 0 where |z| ≤ λ₁, else −(z − sign(z)λ₁) / ((β+√n)/η + λ₂).
// A rate of zero leaves everything as it is.
func ftrl(p Pass, value, grad, z, n, _ []float32) {
	in := p.in
	if p.learningRate == 0 {
		return
	}
	c := &p.o.cfg
	inverse, decay := float32(1/p.learningRate), float32(p.weightDecay)
	l1, beta := float32(c.L1), float32(c.Beta)
	grad, z, n = grad[:len(value)], z[:len(value)], n[:len(value)]
	for i, w := range value {
		g := in.of(grad[i])
		sum := n[i] + g*g
		root := sqrt(sum)
		s := z[i] + g - (root-sqrt(n[i]))*inverse*w
		z[i], n[i] = s, sum
		switch {
		case s > l1:
			value[i] = -(s - l1) / ((beta+root)*inverse + decay)
		case s < -l1:
			value[i] = -(s + l1) / ((beta+root)*inverse + decay)
		default:
			value[i] = 0
		}
	}
}

// lamb is adam's moments m and v with r = m̂/(√v̂ + ε) + λw and
// w ← w − η·(‖w‖/‖r‖)·r (You et al. 2020, algorithm 2, φ the identity).
func lamb(p Pass, value, grad, mean, variance, _ []float32) {
	in := p.in
	rate := float32(p.learningRate * p.trust)
	l := p.lambConstants()
	grad, mean, variance = grad[:len(value)], mean[:len(value)], variance[:len(value)]
	for i, w := range value {
		var r float32
		r, mean[i], variance[i] = l.step(w, in.of(grad[i]), mean[i], variance[i])
		value[i] = w - rate*r
	}
}

// lambSquares returns Σr² without changing anything.
func (p Pass) lambSquares(value, grad, mean, variance []float32) float64 {
	in := p.in
	l := p.lambConstants()
	sum := 0.0
	for i, w := range value {
		r, _, _ := l.step(w, in.of(grad[i]), mean[i], variance[i])
		sum += float64(r) * float64(r)
	}
	return sum
}

type lambConstants struct {
	beta1, rest1, beta2, rest2, scale, root, epsilon, decay float32
}

func (p Pass) lambConstants() lambConstants {
	c := &p.o.cfg
	return lambConstants{
		beta1: float32(c.Beta1), rest1: float32(1 - c.Beta1),
		beta2: float32(c.Beta2), rest2: float32(1 - c.Beta2),
		scale: float32(1 / p.correction1), root: float32(1 / math.Sqrt(p.correction2)),
		epsilon: float32(c.Epsilon), decay: float32(p.weightDecay),
	}
}

func (l *lambConstants) step(w, g, mean, variance float32) (r, m, v float32) {
	m = l.beta1*mean + l.rest1*g
	v = l.beta2*variance + l.rest2*(g*g)
	return l.scale*m/(sqrt(v)*l.root+l.epsilon) + l.decay*w, m, v
}

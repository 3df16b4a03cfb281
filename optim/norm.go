package optim

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// Norms are sums of squares over a key or a piece of it, from which lars and
// lamb take their trust ratio. Those of the pieces of a key add up to the
// key's, up to rounding: the sums are float64, in an order that depends on the
// number of elements alone.
type Norms struct {
	// Value is Σw².
	Value float64
	// Update is Σg² with lars, and Σr² with lamb, r the update before its ratio.
	Update float64
}

// Add returns the sums of two pieces together.
func (n Norms) Add(m Norms) Norms {
	return Norms{Value: n.Value + m.Value, Update: n.Update + m.Update}
}

// GradientSquares returns Σg² over a piece of the key's gradient, scaled and
// clipped element by element. To update a key under ClipNorm in pieces, add
// the pieces' sums and hand them to WithGradientSquares before Update.
func (p Pass) GradientSquares(grad []float32) float64 {
	u := p.numbers()
	return u.Squares(grad)
}

// WithGradientSquares returns the pass for any piece of the key, given the sum
// over all of it.
func (p Pass) WithGradientSquares(sum float64) Pass {
	p.shrinkKnown = true
	if limit := p.o.cfg.ClipNorm; limit > 0 && sum > limit*limit {
		p.shrink = float32(limit / math.Sqrt(sum))
	}
	return p
}

// Norms returns the sums of a piece of the key, before its update; only lars
// and lamb need them. It changes nothing. Under ClipNorm the pass must already
// know the gradient's squares.
func (p Pass) Norms(value, grad []float32, state *State) (Norms, error) {
	if len(grad) != len(value) {
		return Norms{}, fmt.Errorf("optim: %s: norms: got %d gradients for %d values", p.o.cfg.Name, len(grad), len(value))
	}
	if err := p.o.Check(state, len(value)); err != nil {
		return Norms{}, err
	}
	return p.norms(value, grad, state, 0, len(value)), nil
}

func (p Pass) norms(value, grad []float32, state *State, from, to int) Norms {
	n := Norms{Value: f32.Squares(value)}
	switch p.o.cfg.Name {
	case "lars":
		// The shrunk gradient's, from the squares before it is shrunk.
		n.Update = p.GradientSquares(grad) * float64(p.shrink) * float64(p.shrink)
	case "lamb":
		u := p.lambNumbers()
		n.Update = u.LambSquares(value, grad, state.Slots[0].Values[from:to], state.Slots[1].Values[from:to])
	}
	return n
}

// WithNorms returns the pass for any piece of the key, given the sums over all
// of it.
//
// The ratio is, with ‖w‖ the norm of the value,
//
//	lars (You et al. 2017, eq. 6)         η‖w‖ / (‖g‖ + λ‖w‖ + ε)
//	lamb (You et al. 2020, algorithm 2)   ‖w‖ / ‖r‖
//
// and 1 where ‖w‖ or the other norm is zero.
func (p Pass) WithNorms(n Norms) Pass {
	p.trustKnown = true
	p.trust = 1
	if !(n.Value > 0) || !(n.Update > 0) {
		return p
	}
	w, u := math.Sqrt(n.Value), math.Sqrt(n.Update)
	switch p.o.cfg.Name {
	case "lars":
		p.trust = p.o.cfg.TrustCoefficient * w / (u + p.weightDecay*w + p.o.cfg.Epsilon)
	case "lamb":
		p.trust = w / u
	}
	return p
}

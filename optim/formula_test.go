package optim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// A model is a rule written down from its paper once more, for one key in
// float64, with the step's t from 1. Its numbers come with the config's
// defaults filled in; eta is the learning rate.
type model func(c optim.Config, t int, eta float64, w, g []float64, s map[string][]float64)

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func adamHat(c optim.Config, t int, g float64, i int, s map[string][]float64) float64 {
	s["m"][i] = c.Beta1*s["m"][i] + (1-c.Beta1)*g
	s["v"][i] = c.Beta2*s["v"][i] + (1-c.Beta2)*g*g
	mHat := s["m"][i] / (1 - math.Pow(c.Beta1, float64(t)))
	vHat := s["v"][i] / (1 - math.Pow(c.Beta2, float64(t)))
	return mHat / (math.Sqrt(vHat) + c.Epsilon)
}

var models = map[string]model{
	"sgd": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			s["m"][i] = c.Momentum*s["m"][i] - eta*(g[i]+c.WeightDecay*w[i])
			w[i] += s["m"][i]
		}
	},
	// Sutskever's own two lines: v' = μv − ε∇f(θ + μv), θ' = θ + v'. In the
	// variable φ = θ + μv, which is what is stored, they become nag's.
	"nag": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			theta := w[i] - c.Momentum*s["m"][i]
			s["m"][i] = c.Momentum*s["m"][i] - eta*(g[i]+c.WeightDecay*w[i])
			theta += s["m"][i]
			w[i] = theta + c.Momentum*s["m"][i]
		}
	},
	"adam": func(c optim.Config, t int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			w[i] -= eta * adamHat(c, t, g[i]+c.WeightDecay*w[i], i, s)
		}
	},
	"adamw": func(c optim.Config, t int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			w[i] -= eta*adamHat(c, t, g[i], i, s) + eta*c.WeightDecay*w[i]
		}
	},
	"adagrad": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			d := g[i] + c.WeightDecay*w[i]
			s["m"][i] += d * d
			w[i] -= eta * d / (math.Sqrt(s["m"][i]+c.InitialAccumulator) + c.Epsilon)
		}
	},
	"rmsprop": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			d := g[i] + c.WeightDecay*w[i]
			s["v"][i] = c.Rho*s["v"][i] + (1-c.Rho)*d*d
			s["a"][i] = c.Rho*s["a"][i] + (1-c.Rho)*d
			under := s["v"][i]
			if c.Centered {
				under -= s["a"][i] * s["a"][i]
			}
			s["m"][i] = c.Momentum*s["m"][i] - eta*d/(math.Sqrt(max(under, 0))+c.Epsilon)
			w[i] += s["m"][i]
		}
	},
	"ftrl": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			sigma := (math.Sqrt(s["v"][i]+g[i]*g[i]) - math.Sqrt(s["v"][i])) / eta
			s["m"][i] += g[i] - sigma*w[i]
			s["v"][i] += g[i] * g[i]
			if z := s["m"][i]; math.Abs(z) <= c.L1 {
				w[i] = 0
			} else {
				w[i] = -(z - math.Copysign(c.L1, z)) / ((c.Beta+math.Sqrt(s["v"][i]))/eta + c.WeightDecay)
			}
		}
	},
	"lars": func(c optim.Config, _ int, eta float64, w, g []float64, s map[string][]float64) {
		local := c.TrustCoefficient * norm(w) / (norm(g) + c.WeightDecay*norm(w) + c.Epsilon)
		if norm(w) == 0 || norm(g) == 0 {
			local = 1
		}
		for i := range w {
			s["m"][i] = c.Momentum*s["m"][i] + eta*local*(g[i]+c.WeightDecay*w[i])
			w[i] -= s["m"][i]
		}
	},
	"lamb": func(c optim.Config, t int, eta float64, w, g []float64, s map[string][]float64) {
		r := make([]float64, len(w))
		for i := range w {
			r[i] = adamHat(c, t, g[i], i, s) + c.WeightDecay*w[i]
		}
		ratio := 1.0
		if norm(w) != 0 && norm(r) != 0 {
			ratio = norm(w) / norm(r)
		}
		for i := range w {
			w[i] -= eta * ratio * r[i]
		}
	},
	"test": func(_ optim.Config, _ int, eta float64, w, g []float64, _ map[string][]float64) {
		for i := range w {
			w[i] += eta * g[i]
		}
	},
}

// configs are the settings under which every rule is held to its formula.
func configs() []optim.Config {
	return []optim.Config{
		{Name: "sgd", LearningRate: 0.1},
		{Name: "sgd", LearningRate: 0.1, WeightDecay: 0.01},
		{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, WeightDecay: 0.01},
		{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, ClipGradient: 0.5, Rescale: 0.5},
		{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, ClipNorm: 1},
		{Name: "nag", LearningRate: 0.1, WeightDecay: 0.01},
		{Name: "nag", LearningRate: 0.1, Momentum: 0.9, WeightDecay: 0.01},
		{Name: "adam", LearningRate: 0.01},
		{Name: "adam", LearningRate: 0.01, WeightDecay: 0.1, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3},
		{Name: "adam", LearningRate: 0.01, Schedule: optim.Schedule{Kind: "cosine", Steps: 20, Warmup: 5}},
		{Name: "adamw", LearningRate: 0.01, WeightDecay: 0.1},
		{Name: "adagrad", LearningRate: 0.1, WeightDecay: 0.01},
		{Name: "adagrad", LearningRate: 0.1, InitialAccumulator: 0.1},
		{Name: "rmsprop", LearningRate: 0.01},
		{Name: "rmsprop", LearningRate: 0.01, Momentum: 0.9, WeightDecay: 0.01},
		{Name: "rmsprop", LearningRate: 0.01, Centered: true, Epsilon: 1e-2},
		{Name: "rmsprop", LearningRate: 0.01, Centered: true, Momentum: 0.5, Rho: 0.8, Epsilon: 1e-2},
		{Name: "ftrl", LearningRate: 0.1},
		{Name: "ftrl", LearningRate: 0.1, L1: 0.2, WeightDecay: 0.5, Beta: 0.5},
		{Name: "lars", LearningRate: 1, WeightDecay: 0.01},
		{Name: "lars", LearningRate: 1, Momentum: 0.9, WeightDecay: 0.01, TrustCoefficient: 0.02, ClipNorm: 0.7},
		{Name: "lamb", LearningRate: 0.01},
		{Name: "lamb", LearningRate: 0.01, WeightDecay: 0.1, ClipGradient: 0.5, ClipNorm: 2},
		{Name: "test", LearningRate: 2},
	}
}

func label(c optim.Config) string {
	c.LearningRate = 0
	return fmt.Sprintf("%s/momentum=%v/decay=%v/clip=%v,%v/centered=%v/%s",
		c.Name, c.Momentum, c.WeightDecay, c.ClipGradient, c.ClipNorm, c.Centered, c.Schedule.Kind)
}

func randomValues(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestEveryRuleFollowsItsFormula(t *testing.T) {
	const n, steps = 37, 25
	for _, cfg := range configs() {
		t.Run(label(cfg), func(t *testing.T) {
			o := newOptimizer(t, cfg)
			c := o.Config()
			factors := optim.Factors{LearningRate: 0.5, WeightDecay: 2}
			r := rand.New(rand.NewPCG(1, 2))
			value, state := randomValues(r, n), o.NewState(n)
			want := widen(value)
			memory := map[string][]float64{"m": make([]float64, n), "v": make([]float64, n), "a": make([]float64, n)}
			modelled := c
			modelled.WeightDecay *= factors.WeightDecay
			for step := range steps {
				grad := randomValues(r, n)
				g := widen(grad)
				const scale = 0.25
				for i := range g {
					g[i] *= scale * c.Rescale
					if c.ClipGradient > 0 {
						g[i] = max(-c.ClipGradient, min(c.ClipGradient, g[i]))
					}
				}
				if gn := norm(g); c.ClipNorm > 0 && gn > c.ClipNorm {
					for i := range g {
						g[i] *= c.ClipNorm / gn
					}
				}
				models[c.Name](modelled, step+1, c.LearningRateAt(uint64(step))*factors.LearningRate, want, g, memory)
				before := append([]float32(nil), grad...)
				if err := o.At(uint64(step), scale, factors).Update(value, grad, state); err != nil {
					t.Fatal(err)
				}
				for i := range value {
					if diff := math.Abs(float64(value[i]) - want[i]); !(diff <= 2e-5*(1+math.Abs(want[i]))) {
						t.Fatalf("step %d element %d: got %v, want %v", step, i, value[i], want[i])
					}
					if grad[i] != before[i] {
						t.Fatalf("step %d: gradient %d was changed", step, i)
					}
				}
			}
		})
	}
}

func TestAKeyOfZerosMovesUnderTrustRatios(t *testing.T) {
	for _, name := range []string{"lars", "lamb"} {
		o := newOptimizer(t, optim.Config{Name: name, LearningRate: 0.1})
		value, state := []float32{0, 0}, o.NewState(2)
		if err := o.At(0, 1, one).Update(value, []float32{1, -1}, state); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(value[0])+0.1) > 1e-6 || math.Abs(float64(value[1])-0.1) > 1e-6 {
			t.Errorf("%s: got %v, want [-0.1 0.1]", name, value)
		}
	}
}

func TestAFrozenKeyStays(t *testing.T) {
	for _, name := range optim.Names() {
		o := newOptimizer(t, optim.Config{Name: name})
		value, state := []float32{0.5, -2}, o.NewState(2)
		for step := range uint64(3) {
			if err := o.At(step, 1, optim.Factors{}).Update(value, []float32{1, -1}, state); err != nil {
				t.Fatal(err)
			}
		}
		if value[0] != 0.5 || value[1] != -2 {
			t.Errorf("%s with learning-rate factor 0: got %v, want [0.5 -2]", name, value)
		}
	}
}

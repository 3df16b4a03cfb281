package optim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// gained are the rules with a second moment and a gain, written down once more in float64.
var gained = map[string]func(c optim.Config, t int, gain float64, w, g []float64, s map[string][]float64){
	"adam": func(c optim.Config, t int, gain float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			w[i] -= c.LearningRate * gainedHat(c, t, gain, g[i]+c.WeightDecay*w[i], i, s)
		}
	},
	"adamw": func(c optim.Config, t int, gain float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			w[i] -= c.LearningRate * (gainedHat(c, t, gain, g[i], i, s) + c.WeightDecay*w[i])
		}
	},
	"lamb": func(c optim.Config, t int, gain float64, w, g []float64, s map[string][]float64) {
		r := make([]float64, len(w))
		for i := range w {
			r[i] = gainedHat(c, t, gain, g[i], i, s) + c.WeightDecay*w[i]
		}
		trust := norm(w) / norm(r)
		for i := range w {
			w[i] -= c.LearningRate * trust * r[i]
		}
	},
	"rmsprop": func(c optim.Config, _ int, gain float64, w, g []float64, s map[string][]float64) {
		for i := range w {
			d := g[i] + c.WeightDecay*w[i]
			s["v"][i] = c.Rho*s["v"][i] + (1-c.Rho)*gain*d*d
			s["m"][i] = c.Momentum*s["m"][i] - c.LearningRate*d*math.Sqrt(gain)/(math.Sqrt(s["v"][i])+c.Epsilon)
			w[i] += s["m"][i]
		}
	},
}

func gainedHat(c optim.Config, t int, gain, g float64, i int, s map[string][]float64) float64 {
	s["m"][i] = c.Beta1*s["m"][i] + (1-c.Beta1)*g
	s["v"][i] = c.Beta2*s["v"][i] + (1-c.Beta2)*gain*g*g
	mHat := s["m"][i] / (1 - math.Pow(c.Beta1, float64(t)))
	vHat := s["v"][i] / (1 - math.Pow(c.Beta2, float64(t)))
	return mHat * math.Sqrt(gain) / (math.Sqrt(vHat) + c.Epsilon)
}

func TestAGainFollowsItsFormula(t *testing.T) {
	const n = 37
	for _, cfg := range []optim.Config{
		{Name: "adam"}, {Name: "adam", WeightDecay: 0.1, Beta1: 0.8, Beta2: 0.95, Epsilon: 0.1}, {Name: "adamw", WeightDecay: 0.1},
		{Name: "lamb", WeightDecay: 0.1, Epsilon: 0.1}, {Name: "rmsprop", WeightDecay: 0.1, Epsilon: 0.1}, {Name: "rmsprop", Momentum: 0.9},
	} {
		t.Run(label(cfg), func(t *testing.T) {
			cfg.LearningRate = 0.01
			o := newOptimizer(t, cfg)
			r := rand.New(rand.NewPCG(6, 7))
			value, state := randomValues(r, n), o.NewState(n)
			want := widen(value)
			memory := map[string][]float64{"m": make([]float64, n), "v": make([]float64, n)}
			for step := range 20 {
				grad, gain := randomValues(r, n), []float64{1, 4, 2.7, 0.3, 100}[step%5]
				gained[cfg.Name](o.Config(), step+1, gain, want, widen(grad), memory)
				if err := o.At(uint64(step), 1, one).WithGain(gain).Update(value, grad, state); err != nil {
					t.Fatal(err)
				}
				for i, w := range want {
					if d := math.Abs(float64(value[i]) - w); !(d <= 2e-5*(1+math.Abs(w))) {
						t.Fatalf("step %d, gain %v, value %d: got %v, want %v", step, gain, i, value[i], w)
					}
				}
			}
		})
	}
}

// A gain of 1 changes no bit of any rule, and no gain one of a rule without a second moment.
func TestAGainOfOneIsNone(t *testing.T) {
	const n = 37
	for _, cfg := range configs() {
		t.Run(label(cfg), func(t *testing.T) {
			o := newOptimizer(t, cfg)
			gain := 1.0
			if !o.HasSecondMoment() || cfg.Centered {
				gain = 9
			}
			r := rand.New(rand.NewPCG(8, 9))
			value, state := randomValues(r, n), o.NewState(n)
			want, wantState := slices.Clone(value), cloneState(state)
			for step := range uint64(5) {
				grad := randomValues(r, n)
				if err := o.At(step, 0.5, one).WithFactor(1.3).Update(want, grad, wantState); err != nil {
					t.Fatal(err)
				}
				if err := o.At(step, 0.5, one).WithFactor(1.3).WithGain(gain).Update(value, grad, state); err != nil {
					t.Fatal(err)
				}
				for i, w := range want {
					if math.Float32bits(value[i]) != math.Float32bits(w) {
						t.Fatalf("step %d, value %d: got %v, want %v", step, i, value[i], w)
					}
				}
				sameState(t, state, wantState)
			}
		})
	}
}

// The largest gradients and gains leave value and state finite.
func TestAGainStaysInRange(t *testing.T) {
	for _, name := range []string{"adam", "adamw", "lamb", "rmsprop"} {
		o := newOptimizer(t, optim.Config{Name: name, LearningRate: 0.01})
		value, state := fill(40, 1), o.NewState(40)
		for step := range uint64(200) {
			if err := o.At(step, 1, one).WithGain(1<<20).Update(value, fill(40, math.MaxFloat32), state); err != nil {
				t.Fatal(err)
			}
		}
		for _, slot := range append(state.Slots, optim.Slot{Name: "value", Values: value}) {
			for i, v := range slot.Values {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					t.Fatalf("%s: %s[%d] is %v", name, slot.Name, i, v)
				}
			}
		}
	}
}

func fill(n int, v float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// A noisyQuadratic is Σ hw²/2 over n values with curvatures h from 1 to 0.01, whose gradient at
// batch size 1 has the variance h.
type noisyQuadratic struct {
	value, grad []float32
	h           []float64
	rand        *rand.Rand
}

func newNoisyQuadratic(n int, seed uint64) *noisyQuadratic {
	q := &noisyQuadratic{fill(n, 1), make([]float32, n), make([]float64, n), rand.New(rand.NewPCG(seed, 1))}
	for i := range q.h {
		q.h[i] = math.Pow(0.01, float64(i)/float64(n-1))
	}
	return q
}

func (q *noisyQuadratic) loss() (l float64) {
	for i, w := range q.value {
		l += q.h[i] * float64(w) * float64(w) / 2
	}
	return l
}

// step takes one with a batch of this size. The rate is that of batch size 1, scaled by the
// square-root rule.
func (q *noisyQuadratic) step(t *testing.T, o *optim.Optimizer, state *optim.State, number uint64, batch float64, withGain bool) {
	for i, h := range q.h {
		q.grad[i] = float32(h*float64(q.value[i]) + q.rand.NormFloat64()*math.Sqrt(h/batch))
	}
	pass := o.At(number, 1, one).WithFactor(math.Sqrt(batch))
	if withGain {
		pass = pass.WithGain(batch)
	}
	if err := pass.Update(q.value, q.grad, state); err != nil {
		t.Fatal(err)
	}
}

// After its batch has changed, a run goes on as one whose batch stays, at the same progress: its
// second moment needs no time to get used to it. -v prints means as in the table of
// docs/design/measured/0027-adaptive-training.md, which has n and runs of 1000 and 10.
func TestMomentsFitANewBatchAtOnce(t *testing.T) {
	const n, runs, rate = 200, 3, 0.002
	marks := []float64{10, 30, 100, 300} // of progress since the change
	curve := func(moments string, before, after float64) []float64 {
		o := newOptimizer(t, optim.Config{Name: "adam", LearningRate: rate})
		mean := make([]float64, 1+len(marks))
		for seed := range uint64(runs) {
			q, state, number := newNoisyQuadratic(n, seed), o.NewState(n), uint64(0)
			next := func(batch float64) {
				q.step(t, o, state, number, batch, moments == "gain")
				number++
			}
			for progress := 0.0; progress < 800; progress += before {
				next(before)
			}
			mean[0] += q.loss() / runs
			if moments == "reset" {
				state, number = o.NewState(n), 0
			}
			progress := 0.0
			for i, mark := range marks {
				for ; progress < mark; progress += after {
					next(after)
				}
				mean[1+i] += q.loss() / runs
			}
		}
		t.Logf("batch × %-5v %-5s %.4g", after/before, moments, mean)
		return mean
	}
	for _, c := range []struct{ before, after float64 }{{1, 8}, {8, 1}} {
		curve("kept", c.before, c.after)
		curve("reset", c.before, c.after)
		got, same := curve("gain", c.before, c.after), curve("gain", c.before, c.before)
		for i := range got {
			if ratio := got[i] / same[i]; !(ratio > 0.9 && ratio < 1.1) {
				t.Errorf("batch × %v: loss %.4g, want nearly the %.4g of a batch that stays (place %d)", c.after/c.before, got[i], same[i], i)
			}
		}
	}
}

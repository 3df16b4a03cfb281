package optim_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

func cloneState(s *optim.State) *optim.State {
	c := &optim.State{}
	for _, slot := range s.Slots {
		c.Slots = append(c.Slots, optim.Slot{Name: slot.Name, Values: append([]float32(nil), slot.Values...)})
	}
	return c
}

func sameState(t *testing.T, got, want *optim.State) {
	t.Helper()
	for k, slot := range want.Slots {
		for i, v := range slot.Values {
			if math.Float32bits(got.Slots[k].Values[i]) != math.Float32bits(v) {
				t.Fatalf("%s[%d]: got %v, want %v", slot.Name, i, got.Slots[k].Values[i], v)
			}
		}
	}
}

// A factor scales one step. Without momentum the step is that of a rate of so much, bit for bit;
// with momentum it is so many times the step along the velocity. What the rule remembers is what it
// would be without the factor, except ftrl's z, which holds rates, and the velocity of a step with
// a factor of 0, which stays as it was.
func TestAFactorScalesOneStep(t *testing.T) {
	const n = 37
	for _, cfg := range configs() {
		t.Run(label(cfg), func(t *testing.T) {
			o := newOptimizer(t, cfg)
			c := o.Config()
			r := rand.New(rand.NewPCG(4, 5))
			value, state := randomValues(r, n), o.NewState(n)
			for step := uint64(0); step < 12; step++ {
				grad := randomValues(r, n)
				factor := []float64{1, 2.7, 0.3, 0}[step%4]
				scaled, scaledState := append([]float32(nil), value...), cloneState(state)
				pass := o.At(step, 0.5, one).WithFactor(factor)
				if err := pass.Update(scaled, grad, scaledState); err != nil {
					t.Fatal(err)
				}
				if got, want := pass.LearningRate(), factor*c.LearningRateAt(step); got != want {
					t.Fatalf("rate: got %v, want %v", got, want)
				}
				before := append([]float32(nil), value...)
				plain, plainState := append([]float32(nil), value...), cloneState(state)
				if err := o.At(step, 0.5, one).Update(plain, grad, plainState); err != nil {
					t.Fatal(err)
				}
				want, wantState := append([]float32(nil), value...), cloneState(state)
				if err := o.AtRate(step, factor*c.LearningRateAt(step), 0.5, one).Update(want, grad, wantState); err != nil {
					t.Fatal(err)
				}
				switch {
				case c.Momentum > 0:
					for i := range want {
						w := float64(before[i]) + factor*(float64(plain[i])-float64(before[i]))
						if d := math.Abs(float64(scaled[i]) - w); !(d <= 3e-6*(1+math.Abs(w))) {
							t.Fatalf("step %d, factor %v, value %d: got %v, want %v: %v times the step to %v", step, factor, i, scaled[i], w, factor, plain[i])
						}
					}
				default:
					for i := range want {
						if math.Float32bits(scaled[i]) != math.Float32bits(want[i]) {
							t.Fatalf("step %d, factor %v, value %d: got %v, want %v, the step of a rate of %v", step, factor, i, scaled[i], want[i], factor*c.LearningRateAt(step))
						}
					}
				}
				switch {
				case cfg.Name == "ftrl":
					sameState(t, scaledState, wantState)
				case factor == 0 && c.Momentum > 0:
					for i, m := range scaledState.Slot("momentum") {
						if old := state.Slot("momentum")[i]; m != old {
							t.Fatalf("step %d stands still: the velocity of value %d went from %v to %v", step, i, old, m)
						}
					}
				default:
					sameState(t, scaledState, plainState)
				}
				value, state = scaled, scaledState
			}
		})
	}
}

// A velocity is scaled by the factor of the step that uses it: w ← w + φm, with m ← μm − ηg for
// every φ but 0, for which both stay.
func TestAFactorIsNotInTheVelocity(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 0.5, Momentum: 0.5})
	value, state := []float32{0}, o.NewState(1)
	w, m := 0.0, 0.0
	for step, factor := range []float64{1, 4, 4, 0.25, 0, 1} {
		if err := o.At(uint64(step), 1, one).WithFactor(factor).Update(value, []float32{1}, state); err != nil {
			t.Fatal(err)
		}
		if factor > 0 {
			m = 0.5*m - 0.5
		}
		w += factor * m // exact in float32, too
		if float64(value[0]) != w || float64(state.Slot("momentum")[0]) != m {
			t.Fatalf("step %d: got value %v and velocity %v, want %v and %v", step, value[0], state.Slot("momentum")[0], w, m)
		}
	}
}

func TestSchedulesAreReadBetweenSteps(t *testing.T) {
	type rates map[float64]float64
	for _, c := range []struct {
		name string
		s    optim.Schedule
		want rates
	}{
		{"constant", optim.Schedule{}, rates{0: 1, 0.5: 1, 1e15: 1}},
		{"factor", optim.Schedule{Kind: "factor", Every: 3}, rates{0: 1, 2.999: 1, 3: 0.1, 5.5: 0.1, 6: 0.01}},
		{"multistep", optim.Schedule{Kind: "multistep", Milestones: []uint64{2, 4}}, rates{1.99: 1, 2: 0.1, 3.5: 0.1, 4.01: 0.01}},
		{"exponential", optim.Schedule{Kind: "exponential", Every: 2}, rates{0: 1, 1: math.Sqrt(0.1), 0.5: math.Pow(0.1, 0.25), 2: 0.1}},
		{"line", optim.Schedule{Kind: "polynomial", Steps: 10, Power: 1}, rates{0: 1, 2.5: 0.75, 9.75: 0.025, 10: 0, 10.5: 0}},
		{"cosine", optim.Schedule{Kind: "cosine", Steps: 10}, rates{2.5: (1 + math.Cos(math.Pi/4)) / 2, 12.5: 0}},
		// The line of the warm-up reaches the base rate with the last of its steps, and
		// stays there until they are over.
		{"warm-up", optim.Schedule{Warmup: 4}, rates{0: 0.25, 0.5: 0.375, 1: 0.5, 3: 1, 3.5: 1, 4: 1, 4.5: 1}},
		{"warm-up, then a line", optim.Schedule{Kind: "polynomial", Power: 1, Warmup: 2, Steps: 6, WarmupFrom: 0.5}, rates{0: 0.75, 0.5: 0.875, 1.5: 1, 2: 1, 3: 0.75, 4.5: 0.375}},
	} {
		cfg := optim.Config{Name: "sgd", LearningRate: 1, Schedule: c.s}
		for at, want := range c.want {
			if got := cfg.LearningRateBy(123, at); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: rate at %v: got %v, want %v", c.name, at, got, want)
			}
			if at == math.Floor(at) {
				if got := cfg.LearningRateAt(uint64(at)); got != cfg.LearningRateBy(5, at) {
					t.Errorf("%s: rate of step %v: got %v by step and %v by progress", c.name, at, got, cfg.LearningRateBy(5, at))
				}
			}
		}
	}
}

// Rates set by hand and bias corrections go by steps, whatever the progress.
func TestProgressMovesTheScheduleAlone(t *testing.T) {
	cfg := optim.Config{Name: "adam", LearningRate: 1, Schedule: optim.Schedule{Kind: "factor", Every: 10}}.WithLearningRate(5, 0.25)
	o := newOptimizer(t, cfg)
	for _, c := range []struct {
		step     uint64
		progress float64
		want     float64
	}{{0, 0, 1}, {1, 25.5, 0.01}, {4, 10, 0.1}, {5, 30, 0.25}, {60, 2, 0.25}} {
		p := o.AtProgress(c.step, c.progress, 1, one)
		if got := p.LearningRate(); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("step %d at progress %v: got %v, want %v", c.step, c.progress, got, c.want)
		}
		got, want := []float32{1}, []float32{1}
		if err := p.Update(got, []float32{0.5}, o.NewState(1)); err != nil {
			t.Fatal(err)
		}
		if err := o.AtRate(c.step, p.LearningRate(), 1, one).Update(want, []float32{0.5}, o.NewState(1)); err != nil {
			t.Fatal(err)
		}
		if got[0] != want[0] {
			t.Errorf("step %d at progress %v: got value %v, want %v", c.step, c.progress, got[0], want[0])
		}
	}
}

// The second moment is that of the state, with the bias correction of the updates that it has had.
func TestSecondMomentIsTheRulesDivisor(t *testing.T) {
	for name, slot := range map[string]string{"sgd": "", "nag": "", "adagrad": "", "ftrl": "", "lars": "", "test": "",
		"adam": "variance", "adamw": "variance", "lamb": "variance", "rmsprop": "square"} {
		o := newOptimizer(t, optim.Config{Name: name})
		state := o.NewState(3)
		v, root, epsilon := o.SecondMoment(7, state)
		if o.HasSecondMoment() != (slot != "") || (v != nil) != (slot != "") {
			t.Errorf("%s: got %v, %v; want the slot %q", name, o.HasSecondMoment(), v, slot)
			continue
		}
		if slot == "" {
			continue
		}
		if &v[0] != &state.Slot(slot)[0] {
			t.Errorf("%s: it is not the slot %q", name, slot)
		}
		want := 1.0
		if name != "rmsprop" {
			want = 1 / math.Sqrt(1-math.Pow(o.Config().Beta2, 7))
		}
		if root != float32(want) || epsilon != float32(o.Config().Epsilon) {
			t.Errorf("%s: got %v and %v, want %v and %v", name, root, epsilon, want, o.Config().Epsilon)
		}
	}
}

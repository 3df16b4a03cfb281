package optim_test

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// A measured update is an addition and an update, and squares over the second moment before it.
func TestMeasuredUpdateAddsAndUpdates(t *testing.T) {
	for _, cfg := range []optim.Config{{Name: "adam", WeightDecay: 0.1}, {Name: "adamw", WeightDecay: 0.1, ClipGradient: 2}} {
		o, err := optim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const n = 300
		grad, x, sum := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range grad {
			grad[i], x[i] = float32(math.Sin(float64(i))), float32(math.Cos(float64(3*i)))
			sum[i] = grad[i] + x[i]
		}
		value, state := make([]float32, n), o.NewState(n)
		first := o.At(0, 1, o.Factors("w"))
		if err := first.Update(value, x, state); err != nil {
			t.Fatal(err)
		}
		var want optim.Squares
		v, root, epsilon := o.SecondMoment(1, state)
		for i, v := range v {
			d := math.Sqrt(float64(v))*float64(root) + float64(epsilon)
			for _, c := range []struct {
				to *float64
				x  float32
			}{{&want.Before, grad[i]}, {&want.Added, x[i]}, {&want.After, sum[i]}} {
				*c.to += float64(c.x) / d * float64(c.x) / d
			}
		}
		wantValue, wantState := slices.Clone(value), o.NewState(n)
		for i, s := range state.Slots {
			copy(wantState.Slots[i].Values, s.Values)
		}
		pass := o.At(1, 1, o.Factors("w"))
		if err := pass.Update(wantValue, sum, wantState); err != nil {
			t.Fatal(err)
		}
		got, err := pass.UpdateMeasured(value, grad, x, state, root, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*b }
		if !near(got.Before, want.Before) || !near(got.Added, want.Added) || !near(got.After, want.After) {
			t.Errorf("%s: squares %+v, want %+v", cfg.Name, got, want)
		}
		if !slices.Equal(value, wantValue) || !slices.Equal(grad, sum) {
			t.Errorf("%s: the value or the sum is another one", cfg.Name)
		}
		for i, s := range state.Slots {
			if !slices.Equal(s.Values, wantState.Slots[i].Values) {
				t.Errorf("%s: %s is another one", cfg.Name, s.Name)
			}
		}
		if _, err := pass.UpdateMeasured(value, grad, x[1:], state, root, epsilon); err == nil {
			t.Errorf("%s: 299 gradients for 300 values: no error", cfg.Name)
		}
	}
	for _, cfg := range []optim.Config{{Name: "sgd"}, {Name: "rmsprop"}, {Name: "lamb"}, {Name: "adam", ClipNorm: 1}} {
		o, err := optim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		pass := o.At(0, 1, o.Factors("w"))
		if _, err := pass.UpdateMeasured(make([]float32, 3), make([]float32, 3), make([]float32, 3), o.NewState(3), 1, 0); err == nil || o.HasMeasuredUpdate() {
			t.Errorf("%+v: got error %v, HasMeasuredUpdate %v", cfg, err, o.HasMeasuredUpdate())
		}
	}
}

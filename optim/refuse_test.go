package optim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// What does not belong together is an error, and nothing is changed.
func TestUpdatesRefuseWhatDoesNotFit(t *testing.T) {
	adam := newOptimizer(t, optim.Config{Name: "adam", LearningRate: 0.1})
	sgd := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9})
	good, foreign := adam.NewState(6), sgd.NewState(6)
	for _, c := range []struct {
		name   string
		update func(p optim.Pass, value []float32) error
		want   string
	}{
		{"gradients for other values", func(p optim.Pass, value []float32) error { return p.Update(value, make([]float32, 5), good) }, "update: got 5 gradients for 6 values"},
		{"no state", func(p optim.Pass, value []float32) error { return p.Update(value, make([]float32, 6), nil) }, "state: got 0 slots, want 2"},
		{"a short state", func(p optim.Pass, value []float32) error {
			return p.Update(value, make([]float32, 6), adam.NewState(5))
		}, `slot 0: got "mean" of 5 values, want "mean" of 6`},
		{"rows of nothing", func(p optim.Pass, value []float32) error { return p.UpdateRows([]int64{0}, 0, value, nil, good) }, "got rows of 0 for a table of 6 values"},
		{"rows that do not divide the table", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 4, value, make([]float32, 4), good)
		}, "got rows of 4 for a table of 6 values"},
		{"fewer rows than gradients", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, make([]float32, 4), good)
		}, "got 4 gradients for 1 rows of 2"},
		{"half a row of gradients", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, make([]float32, 3), good)
		}, "got 3 gradients for 1 rows of 2"},
		{"a row behind the last", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0, 3}, 2, value, []float32{1, 1, 1, 1}, good)
		}, "rows[1]: got row 3, want 0 to 2"},
		{"a row before the first", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{-1}, 2, value, []float32{1, 1}, good)
		}, "rows[0]: got row -1, want 0 to 2"},
		{"rows under another rule's state", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, []float32{1, 1}, foreign)
		}, "state: got 1 slots, want 2"},
		{"a slot of another name", func(_ optim.Pass, value []float32) error {
			return newOptimizer(t, optim.Config{Name: "adagrad"}).At(0, 1, one).Update(value, make([]float32, 6), sgd.NewState(6))
		}, `state: slot 0: got "momentum" of 6 values, want "`},
		{"rows without a state", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, []float32{1, 1}, nil)
		}, "state: got 0 slots, want 2"},
	} {
		value := []float32{1, 2, 3, 4, 5, 6}
		if err := c.update(adam.At(0, 1, one), value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
		if !slices.Equal(value, []float32{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%s: the values became %v", c.name, value)
		}
		if x := slices.Concat(slots(good)...); slices.Max(x) != 0 || slices.Min(x) != 0 {
			t.Errorf("%s: the state became %v", c.name, x)
		}
	}
}

// Each decay has 1 as its end, which is refused, and takes what is just below.
func TestDecaysAreBelowOne(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  func(x float64) optim.Config
	}{
		{"Momentum", func(x float64) optim.Config { return optim.Config{Name: "sgd", Momentum: x} }},
		{"Beta1", func(x float64) optim.Config { return optim.Config{Name: "adam", Beta1: x} }},
		{"Beta2", func(x float64) optim.Config { return optim.Config{Name: "adam", Beta2: x} }},
		{"Rho", func(x float64) optim.Config { return optim.Config{Name: "rmsprop", Rho: x} }},
	} {
		if err := c.cfg(0.9999).Validate(); err != nil {
			t.Errorf("%s 0.9999: %v", c.name, err)
		}
		for _, x := range []float64{1, 1.5} {
			if err := c.cfg(x).Validate(); err == nil || !strings.Contains(err.Error(), c.name+": got ") || !strings.Contains(err.Error(), "below 1") {
				t.Errorf("%s %v: got %v, want an error that names it and 1", c.name, x, err)
			}
		}
	}
}

// An empty list means what none means: configs that differ in that alone are the same one, for
// workers who compare theirs.
func TestEmptyListsAreNone(t *testing.T) {
	plain := optim.Config{Name: "sgd"}
	for name, cfg := range map[string]optim.Config{
		"changes":               {Name: "sgd", Changes: []optim.Change{}},
		"learning rate factors": {Name: "sgd", LearningRateFactors: []optim.Factor{}},
		"weight decay factors":  {Name: "sgd", WeightDecayFactors: []optim.Factor{}},
	} {
		if !cfg.Equal(plain) || cfg.Hash() != plain.Hash() {
			t.Errorf("no %s, written as an empty list: want equal to none", name)
		}
	}
}

// A schedule may have so many milestones and no more: each is looked at in every step.
func TestMilestonesAreBounded(t *testing.T) {
	for n, good := range map[int]bool{1: true, 10_000: true, 10_001: false} {
		cfg := optim.Config{Name: "sgd", Schedule: optim.Schedule{Kind: "multistep"}}
		for i := range n {
			cfg.Schedule.Milestones = append(cfg.Schedule.Milestones, uint64(1+i))
		}
		if err := cfg.Validate(); (err == nil) != good {
			t.Errorf("%d milestones: got %v, want good: %v", n, err, good)
		}
	}
}

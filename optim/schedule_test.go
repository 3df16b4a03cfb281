package optim_test

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

func TestScheduleGivesTheRateOfEachStep(t *testing.T) {
	type rates = map[uint64]float64
	for _, c := range []struct {
		name string
		base float64
		s    optim.Schedule
		want rates
	}{
		{"constant", 0.5, optim.Schedule{}, rates{0: 0.5, 1: 0.5, 1 << 40: 0.5}},
		{"factor", 1, optim.Schedule{Kind: "factor", Every: 2, Factor: 0.1},
			rates{0: 1, 1: 1, 2: 0.1, 3: 0.1, 4: 0.01, 6: 0.001, 8: 0.0001}},
		{"factor with a floor", 1, optim.Schedule{Kind: "factor", Final: 0.05}, rates{0: 1, 1: 0.1, 2: 0.05, 100: 0.05}},
		{"multistep", 1, optim.Schedule{Kind: "multistep", Milestones: []uint64{3, 5}, Factor: 0.5},
			rates{0: 1, 2: 1, 3: 0.5, 4: 0.5, 5: 0.25, 99: 0.25}},
		{"exponential", 1, optim.Schedule{Kind: "exponential", Every: 2, Factor: 0.25}, rates{0: 1, 1: 0.5, 2: 0.25, 4: 0.0625}},
		{"polynomial", 1, optim.Schedule{Kind: "polynomial", Steps: 10}, rates{0: 1, 5: 0.25, 10: 0, 11: 0}},
		{"line", 1, optim.Schedule{Kind: "polynomial", Steps: 10, Power: 1, Final: 0.2}, rates{0: 1, 5: 0.6, 10: 0.2, 11: 0.2}},
		{"cosine", 1, optim.Schedule{Kind: "cosine", Steps: 10, Final: 0.2}, rates{0: 1, 5: 0.6, 10: 0.2, 1 << 50: 0.2}},
		{"warm-up then cosine", 1, optim.Schedule{Kind: "cosine", Steps: 14, Warmup: 4, WarmupFrom: 0.2},
			rates{0: 0.4, 1: 0.6, 2: 0.8, 3: 1, 4: 1, 9: 0.5, 14: 0}},
		{"warm-up then constant", 1, optim.Schedule{Warmup: 2}, rates{0: 0.5, 1: 1, 2: 1}},
	} {
		cfg := optim.Config{Name: "sgd", LearningRate: c.base, Schedule: c.s}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for step, want := range c.want {
			if got := cfg.LearningRateAt(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: rate of step %d: got %v, want %v", c.name, step, got, want)
			}
			if got := cfg.WithDefaults().LearningRateAt(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s with defaults filled in: rate of step %d: got %v, want %v", c.name, step, got, want)
			}
		}
	}
}

func TestALearningRateSetByHandHoldsFromItsStepOn(t *testing.T) {
	cfg := optim.Config{Name: "sgd", LearningRate: 1, Schedule: optim.Schedule{Kind: "factor", Every: 2}}
	changed := cfg.WithLearningRate(5, 0.3).WithLearningRate(9, 0).WithLearningRate(7, 0.7)
	if err := changed.Validate(); err != nil {
		t.Fatal(err)
	}
	for step, want := range map[uint64]float64{0: 1, 2: 0.1, 4: 0.01, 5: 0.3, 6: 0.3, 7: 0.7, 9: 0.7, 100: 0.7} {
		if got := changed.LearningRateAt(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("rate of step %d: got %v, want %v", step, got, want)
		}
	}
	if len(cfg.Changes) != 0 {
		t.Errorf("the config it was made from: got changes %v, want none", cfg.Changes)
	}
	if cfg.Equal(changed) {
		t.Error("a config with another rate: want it not equal")
	}
}

func TestDefaultRatesAreThePublishedOnes(t *testing.T) {
	for name, want := range map[string]float64{"sgd": 0.01, "nag": 0.01, "adam": 0.001, "adamw": 0.001, "adagrad": 0.01,
		"rmsprop": 0.001, "ftrl": 0.1, "lars": 0.1, "lamb": 0.001, "test": 1} {
		if got := (optim.Config{Name: name}).LearningRateAt(0); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

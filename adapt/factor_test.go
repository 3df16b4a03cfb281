package adapt

import (
	"math"
	"strings"
	"testing"
)

func TestFactorsOfGroups(t *testing.T) {
	groups := []Noise{{Var: 1, Sqr: -1}, {Var: 0, Sqr: 0}, {Var: 0, Sqr: -1}, {Var: 2, Sqr: 1}}
	for _, tc := range []struct {
		scale float64
		want  []float64
	}{
		{0.5, []float64{.5, .5, .5, .6}},
		{1, []float64{1, 1, 1, 1}},
		{2, []float64{2, 2, 2, 1.5}},
		{4, []float64{4, 4, 4, 2}},
		{10, []float64{10, 10, 10, 2.5}},
	} {
		for i, n := range groups {
			for rule, want := range map[string]float64{
				"adascale": tc.want[i], "adamscale": math.Sqrt(tc.want[i]), "linear": tc.scale, "sqrt": math.Sqrt(tc.scale), "legw": math.Sqrt(tc.scale),
			} {
				if got, err := Factor(rule, n, tc.scale, Progress{}); err != nil || !near(got, want, 1e-12) {
					t.Errorf("%s, scale %g, group %d: got %g, %v, want %g", rule, tc.scale, i, got, err, want)
				}
			}
		}
	}
}

func TestLEGWWarmsUpLonger(t *testing.T) {
	p := Progress{Steps: 5, Examples: 1000, InitialBatch: 100, WarmupEpochs: 10}
	for _, tc := range []struct{ scale, steps, want float64 }{
		{1, 5, 1. / 20}, {4, 5, 1. / 40}, {9, 5, 1. / 60}, {1, 0, 0}, {4, 399, 2 * 399. / 400}, {4, 400, 2}, {4, 1e6, 2},
	} {
		p.Steps = tc.steps
		if got, err := Factor("legw", Noise{}, tc.scale, p); err != nil || !near(got, tc.want, 1e-12) {
			t.Errorf("scale %g after %g steps: got %g, %v, want %g", tc.scale, tc.steps, got, err, tc.want)
		}
	}
}

func TestFactorRefuses(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		scale float64
		p     Progress
		say   string
	}{
		{"adaskale", 1, Progress{}, `"adaskale" is unknown, want one of adascale, adamscale, linear, sqrt, legw`},
		{"", 1, Progress{}, `"" is unknown`},
		{"AdaScale", 1, Progress{}, `"AdaScale" is unknown`},
		{"linear", 0, Progress{}, "scale is 0"},
		{"linear", -2, Progress{}, "scale is -2"},
		{"sqrt", math.NaN(), Progress{}, "scale is NaN"},
		{"adascale", math.Inf(1), Progress{}, "scale is +Inf"},
		{"legw", 1, Progress{WarmupEpochs: -1}, "WarmupEpochs is -1"},
		{"legw", 1, Progress{WarmupEpochs: math.NaN()}, "WarmupEpochs is NaN"},
		{"legw", 1, Progress{WarmupEpochs: 1, InitialBatch: 1}, "Examples is 0"},
		{"legw", 1, Progress{WarmupEpochs: 1, Examples: 1}, "InitialBatch is 0"},
		{"legw", 1, Progress{WarmupEpochs: 1, Examples: 1, InitialBatch: 1, Steps: -1}, "Steps is -1"},
	} {
		if f, err := Factor(tc.rule, Noise{}, tc.scale, tc.p); err == nil || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%q: got %g, error %v, want an error with %q", tc.rule, f, err, tc.say)
		}
	}
	for _, rule := range Rules() {
		if err := ValidateRule(rule, Progress{}); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if err := ValidateRule("lin", Progress{}); err == nil {
		t.Error("rule lin is valid")
	}
}

func TestDefaultRule(t *testing.T) {
	for optimizer, want := range map[string]string{"sgd": "adascale", "nag": "adascale", "lars": "adascale", "adam": "adamscale", "adamw": "adamscale", "rmsprop": "adamscale"} {
		if got := DefaultRule(optimizer); got != want {
			t.Errorf("%s: got %s, want %s", optimizer, got, want)
		}
	}
}

func TestGain(t *testing.T) {
	n := Noise{Sqr: 0.00136, Var: 0.000502}
	for _, tc := range []struct{ scale, gain, efficiency float64 }{
		{1, 1, 1}, {2, 2 * 0.5779019242706394, 0.5779019242706394}, {16, 16 * 0.08364028389183362, 0.08364028389183362}, {0, 0, 0}, {-1, 0, 0}, {math.NaN(), 0, 0},
	} {
		if g, e := n.Gain(tc.scale), n.Efficiency(tc.scale); !near(g, tc.gain, 1e-12) || !near(e, tc.efficiency, 1e-12) {
			t.Errorf("scale %g: gain %g, efficiency %g, want %g, %g", tc.scale, g, e, tc.gain, tc.efficiency)
		}
	}
	// The efficiency is (φ + M0)/(φ + M) with the noise scale φ.
	phi := n.Scale(128)
	if want := 128 * 0.000502 / 0.00136; !near(phi, want, 1e-12) {
		t.Errorf("noise scale: got %g, want %g", phi, want)
	}
	if got, want := n.Efficiency(10), (phi+128)/(phi+1280); !near(got, want, 1e-12) {
		t.Errorf("efficiency at 10: got %g, want %g", got, want)
	}
	for _, e := range []float64{0.01, 0.4, 0.5, 1} {
		if got := n.Efficiency(n.LargestScale(e)); !near(got, e, 1e-12) {
			t.Errorf("efficiency at the largest scale that has %g: got %g", e, got)
		}
	}
	if s := (Noise{Sqr: 0, Var: 3}).LargestScale(0.5); !math.IsInf(s, 1) {
		t.Errorf("largest scale without a gradient: got %g, want +Inf", s)
	}
	if phi := (Noise{Sqr: -1, Var: 3}).Scale(8); !math.IsInf(phi, 1) {
		t.Errorf("noise scale without a gradient: got %g, want +Inf", phi)
	}
}

// The gain lies between 1 and the scale, whatever numbers come, and every rule but legw is 1 at
// scale 1.
func FuzzFactor(f *testing.F) {
	f.Add(1.0, 1.0, 2.0, 5.0)
	f.Add(-1.0, 0.0, 1e-9, 0.0)
	f.Add(math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, 1e9)
	f.Add(math.NaN(), math.Inf(1), 3.0, math.NaN())
	f.Add(0.0, 1e-320, 1e308, -1.0)
	f.Fuzz(func(t *testing.T, sqr, variance, scale, steps float64) {
		n := Noise{Sqr: sqr, Var: variance}
		p := Progress{Steps: steps, Examples: 1000, InitialBatch: 100, WarmupEpochs: 2}
		for _, rule := range Rules() {
			got, err := Factor(rule, n, scale, p)
			if bad := !(scale > 0) || !finite(scale) || rule == "legw" && (!(steps >= 0) || !finite(steps)); bad != (err != nil) {
				t.Fatalf("%s, scale %g, %g steps: got %g, error %v", rule, scale, steps, got, err)
			}
			if err == nil && rule != "legw" && !(got >= min(scale, math.Sqrt(scale), 1) && got <= max(scale, math.Sqrt(scale), 1)) {
				t.Fatalf("%s, noise %v, scale %g: got %g", rule, n, scale, got)
			}
			if err == nil && rule == "legw" && !(got >= 0 && got <= math.Sqrt(scale)) {
				t.Fatalf("legw, scale %g, %g steps: got %g", scale, steps, got)
			}
		}
		if e := n.Efficiency(scale); !(e >= 0) || scale >= 1 && e > 1 {
			t.Fatalf("noise %v, scale %g: efficiency %g", n, scale, e)
		}
	})
}

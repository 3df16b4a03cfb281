package suggesttest

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func params(t *testing.T, p Problem, values map[string]any) tune.Params {
	t.Helper()
	full, err := p.Space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) { return values[q.Name], nil })
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return full
}

// A function's minimum is what is said, and no point is below it.
func TestTheLeastValueIsKnown(t *testing.T) {
	list := func(x ...float64) map[string]any {
		m := make(map[string]any)
		for i, v := range x {
			m["x"+string(rune('1'+i))] = v
		}
		return m
	}
	at := map[string]map[string]any{
		"Branin":               {"x": math.Pi, "y": 2.275},
		"Hartmann6":            {"a": 0.20169, "b": 0.150011, "c": 0.476874, "d": 0.275332, "e": 0.311652, "f": 0.6573},
		"Zakharov4":            list(0, 0.5, 1, 1.5),
		"Rosenbrock4":          list(1, 1, 1, 1),
		"Styblinski-Tang5":     list(-2.903534, -2.903534, -2.903534, -2.903534, -2.903534),
		"Rastrigin4":           list(1.3, -2.2, 0.4, 3.1),
		"Schwefel3":            list(420.968746, 420.968746, 420.968746),
		"Shekel4":              list(4.000747, 4.000593, 3.999663, 3.999510),
		"Ackley5":              list(2.1, -3.3, 0.7, 4.2, -1.9),
		"Levy6":                list(1, 1, 1, 1, 1, 1),
		"Michalewicz5":         list(2.202906, 1.570796, 1.284992, 1.923058, 1.720470),
		"mixed":                {"learning rate": math.Pow(10, -1.5), "optimizer": "sgd", "momentum": 0.9, "layers": 5},
		"three branches":       {"branch": "narrow", "c": -0.5, "d": 0.6, "e": 0.1, "common": 0.35},
		"four branches":        {"branch": "b", "b1": 0.7, "b2": 0.25, "b3": 0.55},
		"pipeline":             {"scaler": "standard", "model": "network", "layers": 3, "learning rate": math.Pow(10, -2.8), "dropout": 0.25},
		"log valley":           {"learning rate": math.Pow(10, -2.5), "decay": math.Pow(10, -4.5), "batch": 64},
		"log bowl":             list(math.Pow(10, -1.5), 1e-4, math.Pow(10, -2.7), math.Sqrt(10), math.Pow(10, 1.2)),
		"log scales":           {"learning rate": math.Pow(10, -2.8), "decay": 1e-5, "epsilon": 1e-8, "momentum gap": math.Pow(10, -1.2), "width": 256},
		"support vectors":      {"c": 100.0, "gamma": math.Pow(10, -2.5), "epsilon": 0.01},
		"choices and reals":    {"activation": "gelu", "norm": "batch", "optimizer": "rmsprop", "skip": true, "depth": 5, "x": 0.25, "y": 0.6},
		"network":              {"cell": "d", "pool": "mean", "schedule": "cosine", "augment": true, "layers": 7, "filters": 72, "dropout": 0.1},
		"Hartmann6 with noise": {"a": 0.20169, "b": 0.150011, "c": 0.476874, "d": 0.275332, "e": 0.311652, "f": 0.6573},
		"bowl with noise":      list(0.2, 0.7, 0.5, 0.4),
		"Ackley3 with noise":   list(1.2, -2.3, 3.1),
		"ellipsoid with noise": list(0.5, -0.3, 0.2, -0.6, 0.1),
	}
	kinds := make(map[string]int)
	for _, p := range append(Tuning(), Judging()...) {
		if err := p.Space.Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		kinds[p.Kind]++
		least := math.Inf(1)
		values, ok := at[p.Name]
		if !ok {
			values, ok = at[strings.TrimSuffix(p.Name, " with noise")]
		}
		if ok {
			least = p.Value(params(t, p, values))
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			q, err := p.Space.Sample(rng, tune.Params{})
			if err != nil {
				t.Fatal(err)
			}
			least = min(least, p.Value(q))
		}
		if math.Abs(least-p.Min) > 1e-4*(1+math.Abs(p.Min)) {
			t.Errorf("%s: the least value found is %v, want %v", p.Name, least, p.Min)
		}
		if (p.Kind == Noisy) != (p.Noise > 0) {
			t.Errorf("%s is of kind %s and has noise %v", p.Name, p.Kind, p.Noise)
		}
	}
	for _, kind := range Kinds() {
		if kinds[kind] < 4 {
			t.Errorf("%d functions are %s, want two for tuning and two for judging", kinds[kind], kind)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		q      float64
		want   float64
	}{{[]float64{3, 1, 2}, 0.5, 2}, {[]float64{4, 1, 2, 3}, 0.5, 2.5}, {[]float64{1, 2, 3, 4, 5}, 0.25, 2}, {[]float64{7}, 0.75, 7}, {[]float64{1, 3}, 1, 3}} {
		if got := Quantile(tc.values, tc.q); got != tc.want {
			t.Errorf("quantile %v of %v: got %v, want %v", tc.q, tc.values, got, tc.want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of no values: got %v, want NaN", got)
	}
}

package suggest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// On a badly scaled, rotated quadratic function CMA-ES must reach a precision that only an adapted
// covariance gives.
func TestCMAESAdaptsToARotatedEllipsoid(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	var space tune.Space
	for _, n := range names {
		space = append(space, tune.Real(n, 0, 1))
	}
	p := suggesttest.Problem{Name: "ellipsoid", Space: space, Value: func(p tune.Params) float64 {
		sum := 0.0
		for i := range names {
			r := 0.0
			for j, n := range names {
				r += math.Cos(math.Pi*(float64(i)+0.5)*float64(j)/4) * (p.Float(n) - 0.6)
			}
			sum += math.Pow(1e3, float64(i)/3) * r * r
		}
		return sum
	}}
	for seed := range uint64(3) {
		got, _, err := p.Run(&CMAES{}, 1500, 8, seed)
		if err != nil {
			t.Fatal(err)
		}
		if got > 1e-7 {
			t.Errorf("seed %d: %g after 1500 trials, want below 1e-7", seed, got)
		}
	}
}

// done is a view with n completed trials of random parameters.
func done(p suggesttest.Problem, n int, seed uint64) *tunetest.View {
	v := &tunetest.View{SearchSpace: p.Space, Direction: tune.Min, StudySeed: seed}
	rng := tunetest.Rand(seed)
	for range n {
		params, err := p.Space.Sample(rng, tune.Params{})
		if err != nil {
			panic(err)
		}
		v.Done(params, p.Value(params))
	}
	return v
}

// What a suggester has kept from calls before must not change what it proposes.
func TestCachesChangeNothing(t *testing.T) {
	notUnderRace(t)
	for _, p := range []suggesttest.Problem{suggesttest.Hartmann6(), suggesttest.Mixed()} {
		for name, suggester := range all() {
			all := done(p, 90, 7)
			warm := suggester()
			for _, n := range []int{5, 30, 31, 48, 90} {
				v := *all
				v.All = all.All[:n]
				a, err := warm.Suggest(&v, n, rand.New(rand.NewPCG(1, uint64(n))))
				b, err2 := suggester().Suggest(&v, n, rand.New(rand.NewPCG(1, uint64(n))))
				if err != nil || err2 != nil {
					t.Fatal(name, err, err2)
				}
				if !a.Equal(b) {
					t.Errorf("%s %s after %d trials: with a cache %v, without %v", p.Name, name, n, a, b)
				}
			}
		}
	}
}

// all are the suggesters by name; for tests of what holds for any proposal, so those of Gaussian
// processes look at fewer candidates than else.
func all() map[string]func() tune.Suggester {
	return map[string]func() tune.Suggester{
		"Sobol":          func() tune.Suggester { return &Sobol{} },
		"TPE":            func() tune.Suggester { return &TPE{} },
		"TPE univariate": func() tune.Suggester { return &TPE{Univariate: true} },
		"TPE Optuna":     func() tune.Suggester { return &TPE{Rules: Optuna, Univariate: true} },
		"TPE Hyperopt":   func() tune.Suggester { return &TPE{Rules: Hyperopt, Univariate: true} },
		"GP":             func() tune.Suggester { return &GP{Candidates: 60} },
		"CMAES":          func() tune.Suggester { return &CMAES{} },
		"Auto":           func() tune.Suggester { return &Auto{gp: GP{Candidates: 60}} },
		"NSGA2":          func() tune.Suggester { return &NSGA2{Population: 10} },
		"MOTPE":          func() tune.Suggester { return &MOTPE{} },
	}
}

// randFor is a source of random numbers of a test's own.
func randFor(name string) *rand.Rand {
	h := uint64(0)
	for _, c := range name {
		h = mix(h ^ uint64(c))
	}
	return rand.New(rand.NewPCG(h, 1))
}

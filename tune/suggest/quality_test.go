package suggest

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// slow says that tests may take minutes: PARAGON_TEST_SLOW is set, as by make slowtest.
func slow() bool { return os.Getenv("PARAGON_TEST_SLOW") != "" }

// seeds is how many searches a quality test makes.
func seeds() int {
	if slow() {
		return 30
	}
	return 5
}

func regrets(t *testing.T, p suggesttest.Problem, s func() tune.Suggester, parallel int) []float64 {
	t.Helper()
	r, err := p.Regrets(s, 100, parallel, seeds())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// notUnderRace skips a test that computes for long on one goroutine.
func notUnderRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("computes on one goroutine; make test runs it without the race detector")
	}
}

// After 100 trials the median regret must be below what good implementations reach, and with eight
// at once less than three tenths of the gain over random search may be lost. bench/tune prints the
// same as a table.
func TestSearchIsAsGoodAsItShouldBe(t *testing.T) {
	notUnderRace(t)
	problems := []suggesttest.Problem{suggesttest.Branin(), suggesttest.Hartmann6(), suggesttest.Mixed()}
	for _, tc := range []struct {
		name  string
		s     func() tune.Suggester
		limit []float64 // of the problems
	}{
		{"TPE", func() tune.Suggester { return &TPE{} }, []float64{0.06, 0.30, 0.02}},
		{"TPE univariate", func() tune.Suggester { return &TPE{Univariate: true} }, []float64{0.06, 0.35, 0.06}},
		{"CMAES", func() tune.Suggester { return &CMAES{} }, []float64{0.1, 0.8, 0.1}},
	} {
		for i, p := range problems {
			random := suggesttest.Median(regrets(t, p, func() tune.Suggester { return tune.Random{} }, 1))
			one := suggesttest.Median(regrets(t, p, tc.s, 1))
			eight := suggesttest.Median(regrets(t, p, tc.s, 8))
			slack := 1.0
			if !slow() {
				slack = 1.6 // the median of few seeds is noisy
			}
			t.Logf("%s on %s: median regret %.4f, eight at once %.4f, random %.4f", tc.name, p.Name, one, eight, random)
			if one > slack*tc.limit[i] {
				t.Errorf("%s on %s: median regret %.4f, want at most %.4f", tc.name, p.Name, one, slack*tc.limit[i])
			}
			if gain := random - one; gain > 0.1 && eight-one > 0.3*slack*gain && tc.name != "CMAES" {
				t.Errorf("%s on %s: eight at once lose %.0f %% of the gain", tc.name, p.Name, 100*(eight-one)/gain)
			}
		}
	}
}

// A Gaussian process finds the minimum of smooth functions with few trials.
func TestGPFindsTheMinimum(t *testing.T) {
	notUnderRace(t)
	n := 2
	if slow() {
		n = 10
	}
	for _, tc := range []struct {
		p        suggesttest.Problem
		trials   int
		parallel int
		limit    float64
	}{{suggesttest.Branin(), 35, 1, 0.01}, {suggesttest.Branin(), 40, 4, 0.05}, {suggesttest.Mixed(), 40, 1, 0.02}} {
		r, err := tc.p.Regrets(func() tune.Suggester { return &GP{} }, tc.trials, tc.parallel, n)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %d trials, %d at once: %.4f", tc.p.Name, tc.trials, tc.parallel, r)
		if m := suggesttest.Median(r); m > tc.limit {
			t.Errorf("%s, %d trials, %d at once: median regret %.4f, want at most %v", tc.p.Name, tc.trials, tc.parallel, m, tc.limit)
		}
	}
}

// No parameters come twice while there are others: on continuous spaces never, on finite ones not
// before all were tried.
func TestNoParametersComeTwice(t *testing.T) {
	notUnderRace(t)
	finite := func(most int) suggesttest.Problem {
		return suggesttest.Problem{Name: "finite", Space: tune.Space{
			tune.Choice("a", "x", "y", "z"), tune.Int("n", 1, most), tune.Bool("b"),
			tune.Real("q", 0, 1).Quantise(0.5).When("a", "x"),
		}, Value: func(p tune.Params) float64 { return float64(p.Int("n")) }} // (3 + 2)·most·2 combinations
	}
	for name, s := range all() {
		trials, most := 30, 5
		if name == "GP" || name == "Auto" {
			trials, most = 20, 2 // each takes long
		}
		for _, p := range []suggesttest.Problem{suggesttest.Branin(), suggesttest.Mixed(), finite(most)} {
			if p.Name == "finite" {
				trials = 10 * most
			}
			_, v, err := p.Run(s(), trials, 8, 3)
			if err != nil {
				t.Fatal(err)
			}
			m := newModel(p.Space)
			seen := make(map[uint64]int)
			for i, trial := range v.All {
				h := hash(m.values(trial.Params))
				if first, ok := seen[h]; ok {
					t.Errorf("%s on %s: trial %d has the parameters of trial %d: %v", name, p.Name, i, first, trial.Params)
				}
				seen[h] = i
			}
		}
	}
}

// Proposals must stay within the space whatever it has, with trials of every state, and at any
// number of them.
func TestSuggestersServeEverySpace(t *testing.T) {
	notUnderRace(t)
	spaces := map[string]tune.Space{
		"empty":   {},
		"fixed":   {tune.Real("x", 2, 2)},
		"choices": {tune.Choice("c", 1, 2.5, 7), tune.Bool("b")},
		"normal":  {tune.Normal("n", 5, 2), tune.LogNormal("l", 0, 1), tune.Normal("q", 0, 3).Quantise(0.5)},
		"steps":   {tune.Real("q", 0.1, 1).Quantise(0.25), tune.Int("i", 2, 1<<20).Log(), tune.Int("s", 0, 100).Step(7)},
		"tree": {tune.Choice("net", "mlp", "conv"), tune.Int("layers", 1, 4).When("net", "mlp"), tune.Int("filters", 8, 64).Log().When("net", "conv"),
			tune.Choice("norm", "batch", "none").When("net", "conv"), tune.Real("momentum", 0, 1).When("norm", "batch")},
		"twice":   {tune.Choice("opt", "a", "b"), tune.Real("lr", 0.1, 1).When("opt", "a"), tune.Real("lr", 1e-5, 1e-3).Log().When("opt", "b")},
		"grid":    {tune.Grid("batch", 32, 64), tune.Real("x", 0, 1), tune.Real("y", 0, 1).When("batch", 64)},
		"derived": {tune.Int("n", 1, 10), tune.Derived("big", func(p tune.Params) any { return p.Int("n") > 5 }), tune.Real("z", 0, 1).When("big", true)},
	}
	for spaceName, space := range spaces {
		for name, suggester := range all() {
			p := suggesttest.Problem{Name: spaceName, Space: space}
			v := done(suggesttest.Problem{Name: spaceName, Space: space, Value: func(tune.Params) float64 { return 1 }}, 0, 1)
			s := suggester()
			rng := randFor(spaceName + name)
			v.FixedParts = make(map[int]tune.Params)
			trials := 40
			if name == "GP" || name == "Auto" {
				trials = 24 // each takes long; three of each state
			}
			for i := range trials {
				if spaceName == "grid" {
					v.FixedParts[i], _ = tune.Params{}.With("batch", 32*(i%2+1))
				}
				params, err := s.Suggest(v, i, rng)
				if err != nil {
					t.Fatalf("%s on %s, trial %d: %v", name, p.Name, i, err)
				}
				if err := space.Contains(params); err != nil {
					t.Fatalf("%s on %s, trial %d: %v", name, p.Name, i, err)
				}
				if spaceName == "grid" && params.Int("batch") != 32*(i%2+1) {
					t.Fatalf("%s on %s, trial %d: %v does not have its point of the grid", name, p.Name, i, params)
				}
				trial := v.Add(params)
				switch i % 8 {
				case 1: // runs on
				case 2:
					v.End(trial, tune.Failed)
				case 3:
					v.Report(trial, 1, math.Sin(float64(i)))
					v.End(trial, tune.Pruned)
				case 4:
					v.Report(trial, 2, math.Cos(float64(i)))
					trial.State = tune.Paused
				case 5:
					v.Report(trial, 1, math.NaN())
					v.End(trial, tune.Completed)
				case 6:
					v.Report(trial, 1, math.Inf(1))
					v.End(trial, tune.Pruned)
				default:
					v.Report(trial, 3, float64(i%5))
					v.End(trial, tune.Completed)
				}
			}
		}
	}
}

// A search of 10,000 trials must get its next parameters in milliseconds.
func TestProposalsStayQuick(t *testing.T) {
	notUnderRace(t)
	p := suggesttest.Hartmann6()
	n := 10_000
	v := done(p, n, 1)
	for name, s := range all() {
		suggester := s() // a GP's trials are bounded: see MaxPoints
		if _, err := suggester.Suggest(v, n, randFor("warm")); err != nil {
			t.Fatal(err)
		}
		limit := 500 * time.Millisecond
		if name == "GP" || name == "Auto" {
			limit = 4 * time.Second // some tens of milliseconds
		}
		best := time.Hour
		for i := 0; i < 3 && best > limit; i++ {
			start := processorTime(t)
			if _, err := suggester.Suggest(v, n, randFor(name+string(rune('a'+i)))); err != nil {
				t.Fatal(err)
			}
			best = min(best, processorTime(t)-start)
		}
		t.Logf("%s: %v", name, best)
		if best > limit { // some milliseconds, and many times that under the race detector
			t.Errorf("%s takes %v after %d trials", name, best, n)
		}
	}
}

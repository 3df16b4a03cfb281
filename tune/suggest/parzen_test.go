package suggest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

func readOracle(t *testing.T, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/parzen.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Abs(b)) }

func allNear(a, b []float64, tol float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !near(a[i], b[i], tol) {
			return false
		}
	}
	return true
}

func column(values ...float64) [][]float64 {
	rows := make([][]float64, len(values))
	for i, v := range values {
		rows[i] = []float64{v}
	}
	return rows
}

func TestKernelsAndDensitiesMatchOptuna(t *testing.T) {
	var oracle struct {
		Optuna map[string]struct {
			Weights []float64
			Dists   []struct {
				Mu, Sigma []float64
				Weights   [][]float64
			}
			LogPDF []float64 `json:"log_pdf"`
		} `json:"optuna_4_6"`
	}
	readOracle(t, &oracle)
	x := &dim{lo: 0, hi: 10}
	for _, tc := range []struct {
		name   string
		dims   []*dim
		obs    [][]float64
		points [][]float64
	}{
		{"uniform", []*dim{x}, column(1, 2, 2.5, 7), column(0, 1, 3, 5, 9.9)},
		{"loguniform", []*dim{{lo: 1e-5, hi: 1, log: true}}, column(1e-3, 1e-2, 0.03), column(1e-5, 1e-3, 1e-2, 0.5)},
		{"quniform_step", []*dim{{lo: 0, hi: 10, step: 0.5}}, column(2, 4, 4.5), column(0, 2, 4, 10)},
		{"int", []*dim{{lo: 1, hi: 8, step: 1}}, column(2, 4, 7), column(1, 2, 4, 8)},
		{"categorical", []*dim{{choices: 3}}, column(0, 0, 2), column(0, 1, 2)},
		{"empty", []*dim{x}, nil, column(0, 5)},
		{"multivariate", []*dim{x, {lo: 0, hi: 1}}, [][]float64{{1, 0.1}, {2, 0.9}, {7, 0.5}}, [][]float64{{1, 0.1}, {5, 0.5}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := oracle.Optuna[tc.name]
			m := newMixture(tc.dims, tc.obs, nil, optunaRules)
			if !allNear(m.weight, want.Weights, 1e-9) {
				t.Errorf("weights: got %v, want %v", m.weight, want.Weights)
			}
			for j, d := range want.Dists {
				f := m.factors[j]
				if d.Mu != nil && (!allNear(f.mu, d.Mu, 1e-9) || !allNear(f.sigma, d.Sigma, 1e-9)) {
					t.Errorf("dim %d: got mu %v sigma %v, want %v %v", j, f.mu, f.sigma, d.Mu, d.Sigma)
				}
				for i, row := range d.Weights {
					for c, w := range row {
						if got := math.Exp(f.table[f.class[i]][c]); !near(got, w, 1e-9) {
							t.Errorf("kernel %d choice %d: got %v, want %v", i, c, got, w)
						}
					}
				}
			}
			if len(tc.points) != len(want.LogPDF) {
				t.Fatalf("%d points, %d densities", len(tc.points), len(want.LogPDF))
			}
			for i, p := range tc.points {
				if got := m.evaluator().logDensity(p); !near(got, want.LogPDF[i], 1e-6) {
					t.Errorf("log density at %v: got %.9f, want %.9f", p, got, want.LogPDF[i])
				}
			}
		})
	}
}

func TestKernelsAndDensitiesMatchHyperopt(t *testing.T) {
	var oracle struct {
		Hyperopt []struct {
			Obs       []float64
			Low, High float64
			Sigmas    []float64
			Points    []float64
			LogPDF    []float64 `json:"log_pdf"`
		} `json:"hyperopt_0_3"`
	}
	readOracle(t, &oracle)
	if len(oracle.Hyperopt) == 0 {
		t.Fatal("no cases in the oracle")
	}
	rules := optunaRules
	rules.hyperopt = true
	for _, tc := range oracle.Hyperopt {
		m := newMixture([]*dim{{lo: tc.Low, hi: tc.High}}, column(tc.Obs...), nil, rules)
		got, want := 0.0, 0.0 // Hyperopt's kernels come sorted, with the prior among them
		for i := range tc.Sigmas {
			got, want = got+m.factors[0].sigma[i], want+tc.Sigmas[i]
		}
		if !near(got, want, 1e-9) {
			t.Errorf("%v: sigmas %v, want (in another order) %v", tc.Obs, m.factors[0].sigma, tc.Sigmas)
		}
		for i, p := range tc.Points {
			if got := m.evaluator().logDensity([]float64{p}); !near(got, tc.LogPDF[i], 1e-6) {
				t.Errorf("%v: log density at %v: got %.9f, want %.9f", tc.Obs, p, got, tc.LogPDF[i])
			}
		}
	}
}

func TestWeightsAndSplitMatchOracle(t *testing.T) {
	var oracle struct {
		Gamma   map[string]struct{ Optuna, Hyperopt int }
		Weights map[string][]float64
	}
	readOracle(t, &oracle)
	for key, want := range oracle.Weights {
		n, _ := strconv.Atoi(key)
		if got := observationWeights(n, 25); !allNear(got, want, 1e-9) {
			t.Errorf("weights of %d observations: got %v, want %v", n, got, want)
		}
	}
	if len(oracle.Gamma) == 0 || len(oracle.Weights) == 0 {
		t.Fatal("no cases in the oracle")
	}
	for key, want := range oracle.Gamma {
		n, _ := strconv.Atoi(key)
		if got := (&TPE{Rules: Optuna}).goodCount(n); got != want.Optuna {
			t.Errorf("%d trials: %d count as good, want %d", n, got, want.Optuna)
		}
		if got := (&TPE{Rules: Hyperopt}).goodCount(n); got != want.Hyperopt {
			t.Errorf("%d trials, Hyperopt's rule: %d count as good, want %d", n, got, want.Hyperopt)
		}
	}
}

// What sample draws must have the density that logDensity states.
func TestSamplesFollowDensity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := newMixture([]*dim{{lo: 1, hi: 8, step: 1}}, column(2, 4, 7), nil, optunaRules)
	const n = 200_000
	count := make(map[float64]int)
	for range n {
		count[m.sample(rng)[0]]++
	}
	sum := 0.0
	for v := 1.0; v <= 8; v++ {
		want := math.Exp(m.evaluator().logDensity([]float64{v}))
		sum += want
		if got := float64(count[v]) / n; math.Abs(got-want) > 5*math.Sqrt(want/n) {
			t.Errorf("value %v: drawn with frequency %.4f, density says %.4f", v, got, want)
		}
	}
	if !near(sum, 1, 1e-9) {
		t.Errorf("probabilities add up to %v", sum)
	}
}

// The mass between two bounds is what the distribution function says, to the last bit in the
// middle, and keeps its digits far above the mean.
func TestMassBetweenBounds(t *testing.T) {
	for _, a := range []float64{-40, -9, -8.6, -8.4, -1, 0} {
		for _, b := range []float64{0, 1, 8.4, 8.6, 9, 40} {
			if got, want := normalMass(a, b), normalCDF(b)-normalCDF(a); got != want {
				t.Errorf("from %v to %v: got %v, want %v", a, b, got, want)
			}
		}
	}
	if got, want := normalMass(9, 10), 1.1285122e-19; !near(got/want, 1, 1e-6) {
		t.Errorf("from 9 to 10: got %v, want %v", got, want)
	}
}

// With many observations only near kernels are added up: it must make no difference.
func TestSortedKernelsGiveTheSameDensity(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, hyperopt := range []bool{false, true} {
		rules := optunaRules
		rules.hyperopt = hyperopt
		var obs [][]float64
		for range 3000 {
			obs = append(obs, []float64{min(rng.ExpFloat64(), 10)})
		}
		m := newMixture([]*dim{{lo: 0, hi: 10}}, obs, nil, rules)
		fast := m.evaluator()
		slow := &evaluator{m: m, accepted: fast.accepted, terms: make([]float64, len(m.weight))}
		for _, w := range m.weight {
			slow.logWeight = append(slow.logWeight, math.Log(w))
		}
		if fast.logWeight != nil {
			t.Fatal("the kernels were not sorted")
		}
		for range 100 {
			x := []float64{10 * rng.Float64()}
			if a, b := fast.logDensity(x), slow.logDensity(x); !near(a, b, 1e-10) {
				t.Errorf("at %v: got %v, want %v", x, a, b)
			}
		}
	}
}

package adapt

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type samplerRow struct {
	Grads        [][]float64
	Raw          []float64
	Sqr, Var     float64
	Gain2, Gain4 float64
	K            int
}

type samplerOracle struct {
	Two    struct{ Rows []samplerRow } `json:"two_replicas"`
	Single struct{ Rows []samplerRow } `json:"single_differenced"`
	Switch []samplerRow                `json:"switch_1_to_2_resets"`
}

func TestEstimatorAgreesWithOracle(t *testing.T) {
	var o samplerOracle
	oracle(t, "noise_scale_sampler.json", &o)
	for _, tc := range []struct {
		name  string
		rows  []samplerRow
		scale float64 // the oracle's replicas share a global batch of M0
	}{
		{"two replicas", o.Two.Rows, 1},
		{"one replica, differenced", o.Single.Rows, 1},
		{"one replica, then two", o.Switch, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.rows) < 6 {
				t.Fatalf("got %d rows, want at least 6", len(tc.rows))
			}
			e := NewEstimator(0)
			var before []float64
			for i, row := range tc.rows {
				var m Measurement
				switch {
				case len(row.Grads) > 1:
					m = measure(row.Grads, tc.scale)
				case before != nil:
					m = difference(row.Grads[0], before, tc.scale)
				default:
					m = measure(row.Grads, tc.scale)
				}
				before = row.Grads[0]
				e.Add(m)
				if n, ok := m.Noise(); row.Raw != nil && (!ok || !near(n.Sqr, row.Raw[0], 1e-9) || !near(n.Var, row.Raw[1], 1e-9)) {
					t.Errorf("row %d: the step's noise is %v, %t, want %v", i, n, ok, row.Raw)
				}
				n := e.Noise()
				if !near(n.Sqr, row.Sqr, 1e-9) || !near(n.Var, row.Var, 1e-9) {
					t.Errorf("row %d: got %v, want {%g %g}", i, n, row.Sqr, row.Var)
				}
				if row.Gain2 != 0 && (!near(n.Gain(2), row.Gain2, 1e-9) || !near(n.Gain(4), row.Gain4, 1e-9)) {
					t.Errorf("row %d: gains at 2 and 4 are %g and %g, want %g and %g", i, n.Gain(2), n.Gain(4), row.Gain2, row.Gain4)
				}
				if biased := len(row.Grads) == 1 && i > 0; e.Biased() != biased {
					t.Errorf("row %d: Biased is %t, want %t", i, e.Biased(), biased)
				}
			}
		})
	}
}

// A gradient over m examples is G + N(0, σ²/m·I): ‖G‖² and tr(Cov)/M0 are known, and the estimates
// must come to them.
func TestEstimatesAreUnbiased(t *testing.T) {
	const dim, sigma, initial, steps = 50, 3.0, 32, 4000
	var rng *rand.Rand
	truth := make([]float64, dim)
	for i := range truth {
		truth[i] = math.Sqrt(2.0 / dim)
	}
	want := Noise{Sqr: 2, Var: dim * sigma * sigma / initial}
	draw := func(examples int) []float64 {
		g := make([]float64, dim)
		for i := range g {
			g[i] = truth[i] + rng.NormFloat64()*sigma/math.Sqrt(float64(examples))
		}
		return g
	}
	for _, tc := range []struct{ replicas, micro, local int }{{1, 1, 32}, {1, 2, 32}, {2, 1, 16}, {2, 2, 8}, {4, 1, 16}, {4, 2, 32}} {
		t.Run(fmt.Sprintf("replicas=%d/micro=%d", tc.replicas, tc.micro), func(t *testing.T) {
			count := tc.replicas * tc.micro
			scale := float64(count*tc.local) / initial
			runs := max(4/count, 1) // a run of few micro-gradients is some 2 % off by chance
			var got Noise
			for run := range runs {
				rng = rand.New(rand.NewPCG(uint64(count), uint64(run)))
				e := NewEstimator(0.9999) // an average over all steps
				var before []float64
				for range steps {
					grads := make([][]float64, count)
					for i := range grads {
						grads[i] = draw(tc.local)
					}
					if count > 1 {
						e.Add(measure(grads, scale))
						continue
					}
					if before != nil {
						e.Add(difference(grads[0], before, scale))
					}
					before = grads[0]
				}
				got.Sqr += e.Noise().Sqr / float64(runs)
				got.Var += e.Noise().Var / float64(runs)
			}
			if !near(got.Sqr, want.Sqr, 0.03) || !near(got.Var, want.Var, 0.03) {
				t.Errorf("got %v, want %v within 3 %%", got, want)
			}
			t.Logf("got %v, want %v", got, want)
		})
	}
}

// Micro-batches of different sizes, as at the end of an epoch, need the effective count; with the
// plain count the estimates are off.
func TestUnevenMicroBatchesAreUnbiased(t *testing.T) {
	const dim, sigma, initial, steps = 50, 3.0, 32, 4000
	rng := rand.New(rand.NewPCG(3, 4))
	sizes := []float64{64, 64, 8}
	var total, inverse float64
	for _, s := range sizes {
		total += s
		inverse += 1 / s / float64(len(sizes))
	}
	want := Noise{Sqr: 2, Var: dim * sigma * sigma / initial}
	even, uneven := NewEstimator(0.9999), NewEstimator(0.9999)
	for range steps {
		m := Measurement{Count: len(sizes), Scale: total / initial}
		mean := make([]float64, dim)
		for _, s := range sizes {
			g := make([]float64, dim)
			for i := range g {
				g[i] = math.Sqrt(2.0/dim) + rng.NormFloat64()*sigma/math.Sqrt(s)
				mean[i] += g[i] * s / total
			}
			m.MeanSqr += norm(g) / float64(len(sizes))
		}
		m.SqrMean = norm(mean)
		even.Add(m)
		m.EffectiveCount = total * inverse
		uneven.Add(m)
	}
	if n := uneven.Noise(); !near(n.Sqr, want.Sqr, 0.03) || !near(n.Var, want.Var, 0.03) {
		t.Errorf("with the effective count: got %v, want %v within 3 %%", n, want)
	}
	if n := even.Noise(); near(n.Var, want.Var, 0.5) {
		t.Errorf("with the plain count: got %v, expected it to be off by more than half from %v", n, want)
	}
}

func TestUselessMeasurementsLeaveAveragesAlone(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, m := range []Measurement{
		{Count: 2, MeanSqr: nan, SqrMean: 1, Scale: 1},
		{Count: 2, MeanSqr: inf, SqrMean: 1, Scale: 1},
		{Count: 2, MeanSqr: 2, SqrMean: nan, Scale: 1},
		{Count: 2, MeanSqr: 2, SqrMean: inf, Scale: 1},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: nan},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: inf},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: 0},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: -1},
		{Count: 2, MeanSqr: -2, SqrMean: 1, Scale: 1},
		{Count: 2, MeanSqr: 2, SqrMean: -1, Scale: 1},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: 1, EffectiveCount: 1},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: 1, EffectiveCount: nan},
		{Count: 2, MeanSqr: 2, SqrMean: 1, Scale: 1, EffectiveCount: inf},
		{Count: 2, MeanSqr: math.MaxFloat64, SqrMean: math.MaxFloat64, Scale: 1, EffectiveCount: 9},
		{Count: 1, MeanSqr: 2, SqrMean: 2, Scale: 1},
		{Count: 0, MeanSqr: 2, SqrMean: 1, Scale: 1},
		{Count: -3, MeanSqr: 2, SqrMean: 1, Scale: 1},
		{},
	} {
		e, groups := NewEstimator(0), NewEstimators(2, 0)
		good := Measurement{Count: 2, MeanSqr: 3, SqrMean: 2, Scale: 2, Biased: true}
		e.Add(good)
		groups.Add([]Measurement{good, good})
		before, groupsBefore := e.State(), fmt.Sprint(groups.State())
		e.Add(m)
		if e.State() != before {
			t.Errorf("%+v: the state went from %+v to %+v, want no change", m, before, e.State())
		}
		good.Biased = false
		groups.Add([]Measurement{good, m})
		if now := fmt.Sprint(groups.State()); now != groupsBefore {
			t.Errorf("%+v in one group: the states went from %s to %s, want no change", m, groupsBefore, now)
		}
	}
}

// A large value in an average must not become an infinity later.
func TestAveragesStayFinite(t *testing.T) {
	e := NewEstimator(0.5)
	for range 100 {
		e.Add(Measurement{Count: 2, MeanSqr: math.MaxFloat64, SqrMean: 0, Scale: 1})
		e.Add(Measurement{Count: 2, MeanSqr: math.MaxFloat64 / 4, SqrMean: math.MaxFloat64 / 4, Scale: 1e-300})
	}
	if n := e.Noise(); !finite(n.Sqr) || !finite(n.Var) {
		t.Errorf("got %v, want finite numbers", n)
	}
}

func TestLossScaleIsDividedOut(t *testing.T) {
	grads := [][]float64{{1, 2}, {3, -1}}
	scaled := [][]float64{{1024, 2048}, {3072, -1024}}
	if got, want := measure(scaled, 2).Unscale(1024), measure(grads, 2); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTotalsTakeEachGroupsFloor(t *testing.T) {
	got := Total(Noise{Sqr: -3, Var: 2}, Noise{Sqr: 4, Var: -1}, Noise{Sqr: 1, Var: 0})
	if want := (Noise{Sqr: 5, Var: 2 + 2e-6}); got.Sqr != want.Sqr || !near(got.Var, want.Var, 1e-15) {
		t.Errorf("got %v, want %v", got, want)
	}
	e := NewEstimators(2, 0)
	if got := e.Noise(); got != (Noise{Sqr: 1}) || e.Measured() {
		t.Errorf("before a measurement: got %v, measured %t, want {1 0}, false", got, e.Measured())
	}
	// Group 0 has the noise {-2, 8}, group 1 {4, 4}.
	e.Add([]Measurement{{Count: 2, MeanSqr: 6, SqrMean: 2, Scale: 2}, {Count: 2, MeanSqr: 6, SqrMean: 5, Scale: 4}})
	if g := e.Group(0); !near(g.Sqr, -2, 1e-12) || !near(g.Var, 8, 1e-12) {
		t.Errorf("group 0: got %v, want {-2 8}", g)
	}
	if n := e.Noise(); !near(n.Sqr, 4, 1e-12) || !near(n.Var, 12, 1e-12) {
		t.Errorf("total: got %v, want {4 12}", n)
	}
	e.Discard()
	if e.Measured() {
		t.Error("after Discard: measured, want not")
	}
}

// A job of two workers has one for a while: what it has measured of two stays, and what came from
// differences of steps goes.
func TestMeasurementsOutlastDifferencesOfSteps(t *testing.T) {
	noisy := func(step int) Measurement { // Var is 0.5 and 1.5 in turns
		return Measurement{Count: 2, MeanSqr: 3 + float64(step%2), SqrMean: 2.5, Scale: 1}
	}
	e, alone := NewEstimator(0.99), NewEstimator(0.99)
	for step := range 200 {
		e.Add(noisy(step))
	}
	for range 20 {
		difference := Measurement{Count: 2, MeanSqr: 30, SqrMean: 20, Scale: 1, Biased: true}
		e.Add(difference)
		alone.Add(difference)
	}
	if n := e.Noise(); !e.Biased() || !near(n.Var, 0.83*1+0.17*10, 0.2) {
		t.Errorf("with differences: %+v, biased %t, want Var between 1 and 10", n, e.Biased())
	}
	again := NewEstimator(0.99)
	if err := again.Restore(e.State()); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Estimator{e, again} {
		x.Add(noisy(1))
		if n := x.Noise(); x.Biased() || !near(n.Var, 1, 0.02) || !near(n.Sqr, 1.5, 0.02) {
			t.Errorf("after them: %+v, biased %t, want {1.5 1} from all that was measured without bias", n, x.Biased())
		}
	}
	for range 100_000 { // until nothing of them is left
		again.Add(Measurement{Count: 2, MeanSqr: 30, SqrMean: 20, Scale: 10, Biased: true})
	}
	if s := again.State(); s.Unbiased != (Sums{}) || NewEstimator(0.99).Restore(s) != nil {
		t.Errorf("after many differences: %+v, want none that is unbiased, and a state that can be restored", s)
	}
	alone.Add(noisy(1))
	if n := alone.Noise(); alone.Biased() || n.Var != 1.5 {
		t.Errorf("after nothing but differences: %+v, biased %t, want Var 1.5 of the one measurement", n, alone.Biased())
	}
}

// A restored estimator goes on bit for bit, through JSON too.
func TestRestoredEstimatorGoesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	step := func() []Measurement {
		return []Measurement{
			{Count: 4, MeanSqr: 3 + rng.Float64(), SqrMean: 1 + rng.Float64(), Scale: 1 + rng.Float64()},
			{Count: 4, MeanSqr: 3 + rng.Float64(), SqrMean: 1 + rng.Float64(), Scale: 1 + rng.Float64()},
		}
	}
	a, b := NewEstimators(2, 0.99), NewEstimators(2, 0.99)
	for range 37 {
		a.Add(step())
	}
	text, err := json.Marshal(a.State())
	if err != nil {
		t.Fatal(err)
	}
	var states []State
	if err := json.Unmarshal(text, &states); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(states); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		s := step()
		a.Add(s)
		b.Add(s)
	}
	if a.Noise() != b.Noise() || fmt.Sprint(a.State()) != fmt.Sprint(b.State()) {
		t.Errorf("got %v, want %v", b.State(), a.State())
	}
}

func TestBadStatesAreRefused(t *testing.T) {
	for _, s := range []State{
		{Weight: -1}, {Weight: 1.5}, {Weight: math.NaN()}, {Sqr: 1}, {Var: 1}, {Biased: true}, {Sqr: math.NaN(), Weight: 0.5},
		{Sqr: 1, Var: math.Inf(1), Weight: 0.5}, {Sqr: math.MaxFloat64, Weight: 0.5},
		{Weight: 0.5, Unbiased: Sums{Weight: 0.1}}, {Weight: 0.5, Biased: true, Unbiased: Sums{Weight: 0.6}}, {Weight: 0.5, Biased: true, Unbiased: Sums{Sqr: 1}},
		{Weight: 0.5, Biased: true, Unbiased: Sums{Var: math.NaN(), Weight: 0.1}},
	} {
		e := NewEstimators(2, 0)
		good := State{Sqr: 1, Var: 1, Weight: 0.5}
		if err := e.Restore([]State{good, s}); err == nil {
			t.Errorf("%+v was restored", s)
		}
		if e.Measured() {
			t.Errorf("%+v was refused, but group 0 was restored", s)
		}
		if err := NewEstimator(0).Restore(s); err == nil {
			t.Errorf("%+v was restored", s)
		}
	}
	if err := NewEstimators(2, 0).Restore(make([]State, 3)); err == nil {
		t.Error("states of 3 groups were restored into 2")
	}
}

func TestConstructorsRefuse(t *testing.T) {
	for name, f := range map[string]func(){
		"smoothing 1":        func() { NewEstimator(1) },
		"smoothing -0.1":     func() { NewEstimator(-0.1) },
		"smoothing NaN":      func() { NewEstimator(math.NaN()) },
		"no groups":          func() { NewEstimators(0, 0) },
		"groups of the step": func() { NewEstimators(2, 0).Add(make([]Measurement, 1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

package adapt

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// A source draws the measurements of steps whose noise is known: true gradients with ‖G‖² = sqr,
// and noise in dim directions whose variance is Var at M0 in all.
type source struct {
	rng       *rand.Rand
	dim       int
	sqr, var0 float64
}

// step is the measurement of count micro-gradients in a step of this scale, from the distribution
// of the norms.
func (s *source) step(count int, scale float64) Measurement {
	grads := make([][]float64, count)
	sigma := math.Sqrt(s.var0 / scale * float64(count) / float64(s.dim)) // of an element of a micro-gradient
	for i := range grads {
		g := make([]float64, s.dim)
		for j := range g {
			g[j] = math.Sqrt(s.sqr/float64(s.dim)) + sigma*s.rng.NormFloat64()
		}
		grads[i] = g
	}
	return measure(grads, scale)
}

// nothing is what an Estimator says before it has a bound: its gain is 1.
var nothing = Noise{Sqr: 1}

// Ten measurements bound nothing, whatever they are: the gain is 1 at every scale.
func TestTenMeasurementsChangeNothing(t *testing.T) {
	for seed := range uint64(100) {
		s := source{rand.New(rand.NewPCG(seed, 1)), 20, 0.02, 1}
		e := NewEstimator(0)
		for range 10 {
			e.Add(s.step(2, 1))
		}
		if n, ok := e.Bound(); ok || n != nothing {
			t.Fatalf("seed %d: after ten measurements the bound is %+v, %t, with a gain of %v, want none, and 1", seed, n, ok, n.Gain(12))
		}
	}
}

// The gain at half the true noise scale is at least the bound's in 95 of 100 runs, or nearly,
// whatever the noise and however much was measured; and the bound comes near it.
func TestTheBoundHoldsAtItsConfidence(t *testing.T) {
	const runs = 60
	for _, c := range []struct {
		part  float64 // of the signal
		dim   int
		count int
		scale float64
	}{{0.02, 20, 2, 1}, {0.5, 5, 2, 1}, {0.9, 20, 4, 2}, {0.05, 20, 2, 8}, {0, 10, 4, 4}} {
		cautious := Noise{Sqr: 2 * c.part, Var: 1 - c.part} // half the noise scale
		above, bounded, gains := map[int]int{}, map[int]int{}, map[int]float64{}
		for seed := range uint64(runs) {
			s := source{rand.New(rand.NewPCG(seed, 2)), c.dim, c.part, 1 - c.part}
			e := NewEstimator(0)
			for step := 1; step <= 512; step++ {
				e.Add(s.step(c.count, c.scale))
				if step&(step-1) == 0 && step >= 64 {
					n, ok := e.Bound()
					if ok {
						bounded[step]++
					}
					if n.Gain(16) > cautious.Gain(16) {
						above[step]++
					}
					gains[step] += n.Gain(16) / runs
				}
			}
		}
		for step := 64; step <= 512; step *= 2 {
			if above[step] > runs/8 { // 5 % and what chance adds
				t.Errorf("%+v: after %d steps the bound's gain is above that of half the noise scale in %d of %d runs, want about one in 20", c, step, above[step], runs)
			}
		}
		if bounded[64] < runs*9/10 {
			t.Errorf("%+v: after 64 steps %d of %d runs have a bound, want nearly all", c, bounded[64], runs)
		}
		if got, want := gains[512], cautious.Gain(16); got < 0.6*want {
			t.Errorf("%+v: after 512 steps the bound's gain is %.2f on average, and that of half the noise scale %.2f, want more than 0.6 of it", c, got, want)
		}
	}
}

// Where successive measurements are alike they are worth fewer samples, and the bound still holds.
func TestMeasurementsThatAreAlikeCountForLess(t *testing.T) {
	alike, apart := NewEstimator(0), NewEstimator(0)
	rng := rand.New(rand.NewPCG(3, 3))
	drift, above := 0.0, 0
	const runs = 100
	for range runs {
		for range 800 {
			drift = 0.95*drift + 0.3*rng.NormFloat64()
			a, b := 0.1+0.05*drift, 0.1+0.05*rng.NormFloat64()*0.96
			alike.Add(Measurement{Count: 2, MeanSqr: 1, SqrMean: (a + 1) / 2, Scale: 1}) // with Sqr a, and Var 1−a
			apart.Add(Measurement{Count: 2, MeanSqr: 1, SqrMean: (b + 1) / 2, Scale: 1})
		}
		if n, ok := alike.Bound(); ok && n.Gain(16) > (Noise{Sqr: 0.2, Var: 0.9}).Gain(16) {
			above++
		}
	}
	if a, b := alike.Samples(), apart.Samples(); !(a < b/2) {
		t.Errorf("measurements that are alike are worth %.1f samples, and independent ones %.1f, want less than half", a, b)
	}
	if above > runs/5 {
		t.Errorf("the bound is above the truth in %d of %d runs of measurements that are alike", above, runs)
	}
}

// In the first steps of a training gradients are larger by orders of magnitude: they do not hide
// for long what comes after.
func TestTheFirstStepsDoNotHideTheOthers(t *testing.T) {
	e := NewEstimator(0)
	for step := range 200 {
		size := 1 + 1000*math.Pow(0.5, float64(step))
		s := source{rand.New(rand.NewPCG(uint64(step), 4)), 20, 0.05 * size, 0.95 * size}
		e.Add(s.step(2, 1))
	}
	if n, ok := e.Bound(); !ok || n.Gain(16) < 2 {
		t.Errorf("got the bound %+v, %t, with a gain of %.2f, want more than 2; the true one is 9.1", n, ok, n.Gain(16))
	}
}

// Differences of steps, whose bias is not known, bound nothing; nor do averages of a version that
// did not keep how far they lie apart. What was measured without bias before still does.
func TestWhatHasNoKnownErrorBoundsNothing(t *testing.T) {
	s := source{rand.New(rand.NewPCG(5, 5)), 20, 0.05, 0.95}
	e := NewEstimator(0)
	for range 500 {
		m := s.step(2, 1)
		m.Biased = true
		e.Add(m)
	}
	if n, ok := e.Bound(); ok || n != nothing || !e.Measured() {
		t.Errorf("of differences alone: got the bound %+v, %t, want none", n, ok)
	}
	old := NewEstimator(0)
	if err := old.Restore(State{Sqr: 0.04, Var: 0.8, Weight: 0.8}); err != nil {
		t.Fatal(err)
	}
	if n, ok := old.Bound(); ok || n != nothing {
		t.Errorf("of averages alone: got the bound %+v, %t, want none", n, ok)
	}
	for range 500 {
		e.Add(s.step(2, 1))
	}
	before, ok := e.Bound()
	m := s.step(2, 1)
	m.Biased, m.MeanSqr = true, 1000
	e.Add(m)
	after, still := e.Bound()
	if !ok || !still || !near(after.Gain(16), before.Gain(16), 1e-9) {
		t.Errorf("a difference after 500 measurements: the gain went from %v to %v, want the same", before.Gain(16), after.Gain(16))
	}
}

// Measurements that stand apart are samples by themselves.
func TestMeasurementsThatStandApartAreBlocks(t *testing.T) {
	s := source{rand.New(rand.NewPCG(6, 6)), 20, 0.05, 0.95}
	e := NewEstimator(0)
	for range 30 {
		m := s.step(2, 2)
		m.Apart = true
		e.Add(m)
	}
	if n, ok := e.Bound(); !ok || n.Gain(16) < 1.5 {
		t.Errorf("of 30: got the bound %+v, %t, with a gain of %.2f, want more than 1.5", n, ok, n.Gain(16))
	}
}

// Several groups are bounded together once each is.
func TestGroupsAreBoundedTogether(t *testing.T) {
	s := source{rand.New(rand.NewPCG(7, 7)), 20, 0.1, 0.9}
	e := NewEstimators(2, 0)
	if n, ok := e.Bound(); ok || n != (Noise{Sqr: 1}) {
		t.Errorf("nothing measured: got %+v, %t", n, ok)
	}
	for range 400 {
		e.Add([]Measurement{s.step(2, 1), s.step(2, 1)})
	}
	a, _ := e.GroupBound(0)
	b, _ := e.GroupBound(1)
	n, ok := e.Bound()
	if !ok || !near(n.Sqr, a.Sqr+b.Sqr, 1e-12) || !near(n.Var, a.Var+b.Var, 1e-12) {
		t.Errorf("got %+v, %t, want the sum of %+v and %+v", n, ok, a, b)
	}
	var states []State
	text, err := json.Marshal(e.State())
	if err == nil {
		err = json.Unmarshal(text, &states)
	}
	again := NewEstimators(2, 0)
	if err == nil {
		err = again.Restore(states)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := []Measurement{s.step(2, 1), s.step(2, 1)}
	e.Add(m)
	again.Add(m)
	x, _ := e.Bound()
	if y, _ := again.Bound(); x != y {
		t.Errorf("a restored one has the bound %+v, want %+v to the bit", y, x)
	}
}

// Evidence that cannot be is refused, and squares that overflow leave none.
func TestBadEvidenceIsRefused(t *testing.T) {
	for _, v := range []Evidence{{Blocks: -1}, {Count: blockLength}, {Weight: 2}, {Weight: -1}, {Sqr2: math.NaN()}, {Unit: math.Inf(1)}, {VarVar: -1}} {
		if err := NewEstimator(0).Restore(State{Sqr: 1, Var: 1, Weight: 0.5, Evidence: v}); err == nil {
			t.Errorf("%+v was restored", v)
		}
	}
	e := NewEstimator(0)
	for i := range 200 {
		e.Add(Measurement{Count: 2, MeanSqr: math.Pow(10, float64(i%5)*70), SqrMean: 0, Scale: 1})
	}
	if n, ok := e.Bound(); !finite(n.Sqr) || !finite(n.Var) || NewEstimator(0).Restore(e.State()) != nil {
		t.Errorf("got the bound %+v, %t, and state %+v, want finite numbers that can be restored", n, ok, e.State())
	}
}

package suggest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"

	"github.com/paragon-train/paragon/tune/internal/bfgs"
)

func TestGPGradientMatchesFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var x [][]float64
	var y []float64
	for range 12 {
		p := []float64{rng.Float64(), rng.Float64(), rng.Float64()}
		x, y = append(x, p), append(y, math.Sin(5*p[0])+p[1])
	}
	theta := gpTheta{-0.5, -1, 0.2, 0.1, -2}
	grad := make([]float64, len(theta))
	theta.loss(x, y, grad)
	for i := range theta {
		const h = 1e-5
		up, down := append(gpTheta(nil), theta...), append(gpTheta(nil), theta...)
		up[i] += h
		down[i] -= h
		want := (up.loss(x, y, nil) - down.loss(x, y, nil)) / (2 * h)
		if !near(grad[i], want, 1e-5) {
			t.Errorf("∂loss/∂θ[%d]: got %v, want %v", i, grad[i], want)
		}
	}
}

func TestGPInterpolates(t *testing.T) {
	x := [][]float64{{0.1}, {0.4}, {0.8}}
	y := []float64{1, -1, 0.5}
	g := newGP(gpTheta{-1, 0, -9}, x, y)
	p := g.predictor()
	for i := range x {
		sd := p.at(x[i])
		if !near(p.means[0], y[i], 1e-3) || sd > 1e-2 {
			t.Errorf("at %v: got %v ± %v, want %v", x[i], p.means[0], sd, y[i])
		}
	}
	g = newGP(gpTheta{-3, 0, -9}, x, y)
	p = g.predictor()
	if sd := p.at([]float64{50}); !near(sd, 1, 1e-6) || !near(p.means[0], 0, 1e-6) {
		t.Errorf("far away: got %v ± %v, want 0 ± 1", p.means[0], sd)
	}
}

// Any two values of a choice have the distance 1, and so has a value from a choice that is not set.
// Numbers, scaled to [0, 1], have the distance of their values; one that is not set counts as 0.5.
func TestValuesOfAChoiceAreAllAsFarFromEachOther(t *testing.T) {
	m := newModel(tune.Space{tune.Choice("c", "p", "q", "r", "s"), tune.Real("x", 10, 20)})
	theta := gpTheta{0, 0, 0, 0}
	for _, tc := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{0, 12}, []float64{0, 12}, 0}, {[]float64{0, 12}, []float64{1, 12}, 1}, {[]float64{0, 12}, []float64{3, 12}, 1}, {[]float64{math.NaN(), 12}, []float64{2, 12}, 1},
		{[]float64{0, 12}, []float64{0, 15}, 0.3}, {[]float64{0, math.NaN()}, []float64{0, 19}, 0.4},
	} {
		if got := theta.distance(m.encode(tc.a), m.encode(tc.b), theta.inverseScales()); !near(got, tc.want, 1e-12) {
			t.Errorf("from %v to %v: got %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

// The next trial is not proposed where one runs already, though that has no value yet: the process
// takes draws of it as known values.
func TestGPProposesAwayFromRunningTrials(t *testing.T) {
	_, v, err := suggesttest.Branin().Run(&Sobol{}, 14, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]float64
	for i := range 4 {
		p, err := (&GP{}).Suggest(v, v.Len(), randFor("running"))
		if err != nil {
			t.Fatal(err)
		}
		at := []float64{(p.Float("x") + 5) / 15, p.Float("y") / 15}
		for k, o := range all {
			if d := math.Hypot(at[0]-o[0], at[1]-o[1]); d < 0.05 {
				t.Errorf("proposal %d, at %.3f of the ranges, is only %.4f from proposal %d, which runs", i, at, d, k)
			}
		}
		all = append(all, at)
		v.Add(p)
	}
}

func TestLogImprovement(t *testing.T) {
	for _, z := range []float64{-3, -1, 0, 2} {
		want := math.Log(2 * (normalPDF(z) + z*normalCDF(z)))
		if got := logImprovement(2*z, 0, 2); !near(got, want, 1e-9) {
			t.Errorf("z = %v: got %v, want %v", z, got, want)
		}
	}
	if a, b := logImprovement(-25+1e-9, 0, 1), logImprovement(-25-1e-9, 0, 1); math.Abs(a-b) > 1e-4 {
		t.Errorf("the two branches differ: %v and %v", a, b)
	}
	if v := logImprovement(-100, 0, 1); math.IsInf(v, 0) || math.IsNaN(v) {
		t.Errorf("far below: %v", v)
	}
}

func TestMinimiseFindsRosenbrocksMinimum(t *testing.T) {
	x, f := bfgs.Minimise(func(x, g []float64) float64 {
		a, b := 1-x[0], x[1]-x[0]*x[0]
		g[0], g[1] = -2*a-40*b*x[0], 20*b
		return a*a + 10*b*b
	}, []float64{-1, 1}, 100)
	if f > 1e-3 || math.Abs(x[0]-1) > 0.05 {
		t.Errorf("got %v at %v, want 0 at (1, 1)", f, x)
	}
}

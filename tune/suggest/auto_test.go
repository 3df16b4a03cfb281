package suggest

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// Auto is GP while trials and parameters are few and results have no noise, and TPE else.
func TestAutoChooses(t *testing.T) {
	noise := suggesttest.Problem{Name: "noise", Space: suggesttest.Branin().Space, Value: func(tune.Params) float64 { return 0 }, Noise: 1}
	var wide tune.Space
	for i := range autoDims + 1 {
		wide = append(wide, tune.Real("x"+string(rune('a'+i)), 0, 1))
	}
	many := suggesttest.Problem{Name: "many", Space: wide, Value: func(p tune.Params) float64 { return p.Float("xa") }}
	for _, tc := range []struct {
		p      suggesttest.Problem
		trials int
		want   bool
	}{{suggesttest.Branin(), 40, true}, {suggesttest.Branin(), autoTrials + 1, false}, {many, 40, false}, {noise, 60, false}} {
		_, v, err := tc.p.Run(&Sobol{}, tc.trials, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Auto{}).prefersGP(v); got != tc.want {
			t.Errorf("%s after %d trials: GP is preferred: got %v, want %v", tc.p.Name, tc.trials, got, tc.want)
		}
	}
}

// A proposal depends on the log alone: a suggester that has made all before proposes what a new one does.
func TestProposalsDependOnTheLogAlone(t *testing.T) {
	for name, s := range all() {
		p := suggesttest.Mixed()
		old := s()
		_, v, err := p.Run(old, 25, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		a, err := old.Suggest(v, v.Len(), randFor(name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := s().Suggest(v, v.Len(), randFor(name))
		if err != nil {
			t.Fatal(err)
		}
		if !a.Equal(b) {
			t.Errorf("%s: a suggester that has run proposes %v, a new one %v", name, a, b)
		}
	}
}

// The least posterior means at the points are those that predicting there gives.
func TestTheLeastMeanIsThePredictorsOwn(t *testing.T) {
	rng := randFor("least")
	var x [][]float64
	var y []float64
	for range 15 {
		x, y = append(x, []float64{rng.Float64(), rng.Float64()}), append(y, rng.NormFloat64())
	}
	g := newGP(gpTheta{-0.5, -0.7, 0, -1}, x, y)
	p, want := g.predictor(), math.Inf(1)
	for _, at := range x {
		p.at(at)
		want = min(want, p.means[0])
	}
	if got := g.least()[0]; !near(got, want, 1e-6) {
		t.Errorf("got %v, want %v", got, want)
	}
}

package suggest

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
	"github.com/paragon-train/paragon/tune/tunetest"
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
		want   tune.Suggester
	}{{suggesttest.Branin(), 40, &GP{}}, {suggesttest.Branin(), autoTrials + 1, &TPE{}}, {many, 40, &TPE{}}, {noise, autoNoisy - 1, &GP{}}, {noise, 40, nil}} {
		_, v, err := tc.p.Run(&Sobol{}, tc.trials, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		propose := func(s tune.Suggester) tune.Params {
			p, err := s.Suggest(v, tc.trials, randFor("auto"))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		got := propose(&Auto{})
		if tc.want != nil {
			if want := propose(tc.want); !got.Equal(want) {
				t.Errorf("%s after %d trials: got %v, want %T's %v", tc.p.Name, tc.trials, got, tc.want, want)
			}
			continue
		}
		for _, other := range []tune.Suggester{&GP{}, &TPE{}} {
			if got.Equal(propose(other)) {
				t.Errorf("%s after %d trials: got %T's proposal, want TPE's by the means", tc.p.Name, tc.trials, other)
			}
		}
	}
}

// A lucky report is not the best trial once the noise is taken out.
func TestWithoutNoiseALuckyReportIsNotTheBest(t *testing.T) {
	space := tune.Space{tune.Real("x", 0, 1)}
	v := &tunetest.View{SearchSpace: space, Direction: tune.Min}
	rng := randFor("lucky")
	for i := range 40 {
		x := (float64(i) + 0.5) / 40
		p, err := tune.Params{}.With("x", x)
		if err != nil {
			t.Fatal(err)
		}
		y := 4*(x-0.3)*(x-0.3) + 0.1*rng.NormFloat64()
		if i == 32 {
			y = -0.5 // its true value is 1.05
		}
		v.Done(p, y)
	}
	g := &GP{}
	m, recs := g.reader.read(v)
	if first := bestOf(recs, 1)[0]; first != 32 {
		t.Fatalf("by its report trial %d is the best, want 32", first)
	}
	if x := recs[bestOf(g.withoutNoise(m, recs), 1)[0]].x[0]; x < 0.15 || x > 0.45 {
		t.Errorf("without noise the best is at %v, want it near 0.3", x)
	}
	if first := bestOf(recs, 1)[0]; first != 32 {
		t.Errorf("the records themselves have changed: trial %d is the best", first)
	}
}

// A proposal depends on the log alone: a suggester that has made all before proposes what a new one
// does.
func TestProposalsDependOnTheLogAlone(t *testing.T) {
	notUnderRace(t)
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

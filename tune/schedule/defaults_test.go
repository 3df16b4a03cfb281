package schedule

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func TestOptunaHyperbandSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		o    OptunaHyperband
		good bool
	}{
		{OptunaHyperband{MaxStep: 27}, true},
		{OptunaHyperband{MaxStep: 1}, true},
		{OptunaHyperband{MinStep: 4, MaxStep: 4, Eta: 1.5}, true},
		{OptunaHyperband{}, false},
		{OptunaHyperband{MaxStep: -1}, false},
		{OptunaHyperband{MinStep: -1, MaxStep: 9}, false},
		{OptunaHyperband{MinStep: 10, MaxStep: 9}, false},
		{OptunaHyperband{MaxStep: 9, Eta: 1}, false}, // no rung would follow another
		{OptunaHyperband{MaxStep: 9, Eta: 0.5}, false},
		{OptunaHyperband{MaxStep: 9, Eta: -3}, false},
		{OptunaHyperband{MaxStep: 9, Eta: math.NaN()}, false},
	} {
		if err := c.o.Validate(); (err == nil) != c.good {
			t.Errorf("MinStep %d, MaxStep %d, Eta %v: got %v, want good: %v", c.o.MinStep, c.o.MaxStep, c.o.Eta, err, c.good)
		}
	}
}

// An Eta of zero is 3, and a MinStep of zero 1.
func TestOptunaHyperbandHasTheDefaultsItSays(t *testing.T) {
	o := &OptunaHyperband{MaxStep: 27}
	v := &tunetest.View{}
	v.Report(v.Add(tune.Params{}), 1, 0.5)
	o.Reported(v, 0, tunetest.Rand(1))
	if want := OptunaBudgets(1, 27, 3); !slices.Equal(o.budgets, want) {
		t.Errorf("got budgets %v, want %v", o.budgets, want)
	}
	for i, set := range o.sets {
		if want := []int{1, 3, 9, 27}[i]; set.MinStep != want || set.Eta != 3 {
			t.Errorf("set %d begins at step %d with a factor of %v, want %d and 3", i, set.MinStep, set.Eta, want)
		}
	}
}

// A trial that stands still is left four reports all the same, and four are looked at.
func TestAPlateauHasTheDefaultsItSays(t *testing.T) {
	for _, c := range []struct {
		p       TrialPlateau
		reports []float64
		over    bool
	}{
		{TrialPlateau{Reports: 2}, []float64{0.5, 0.5, 0.5}, false},
		{TrialPlateau{Reports: 2}, []float64{0.1, 0.9, 0.5, 0.5}, true},
		{TrialPlateau{Grace: 1}, []float64{0.5, 0.5, 0.5}, false},
		{TrialPlateau{Grace: 1}, []float64{0.5, 0.5, 0.5, 0.5}, true},
		{TrialPlateau{}, []float64{0.9, 0.5, 0.5, 0.5}, false},
		{TrialPlateau{}, []float64{0.492, 0.508, 0.492, 0.508}, true}, // a deviation below 0.01
		{TrialPlateau{}, []float64{0.485, 0.515, 0.485, 0.515}, false},
	} {
		v := &tunetest.View{}
		trial := v.Add(tune.Params{})
		for i, x := range c.reports {
			v.Report(trial, i+1, x)
		}
		if got := c.p.Prune(v, 0); (got.Trial == tune.Complete) != c.over {
			t.Errorf("%+v after %v: got %+v, want over: %v", c.p, c.reports, got, c.over)
		}
	}
}

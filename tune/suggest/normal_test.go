package suggest

import (
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A normal parameter has no bounds: one whose mean is below zero is searched there, whatever has
// been found so far. The logarithm of a lognormal one has none either, but its value is above zero.
func TestNormalParametersAreSearchedOnBothSidesOfZero(t *testing.T) {
	space := tune.Space{tune.Normal("n", -4, 1), tune.Normal("q", -4, 1).Quantise(0.25), tune.LogNormal("l", -2, 1)}
	for name, suggester := range all() {
		v, s, rng := &tunetest.View{SearchSpace: space}, suggester(), randFor("normal"+name)
		const trials = 16 // the GP's take longest
		var above, same int
		values := map[float64]bool{}
		for i := range trials {
			p, err := s.Suggest(v, i, rng)
			if err != nil {
				t.Fatalf("%s, trial %d: %v", name, i, err)
			}
			if p.Float("n") >= 0 || p.Float("q") >= 0 {
				above++ // four deviations from the mean
			}
			if l := p.Float("l"); l <= 0 || l > 100 {
				t.Errorf("%s, trial %d: the lognormal parameter is %v, want one above 0, near 0.14", name, i, l)
			}
			if values[p.Float("n")] {
				same++
			}
			values[p.Float("n")] = true
			trial := v.Add(p)
			v.Report(trial, 1, -(p.Float("n")+5)*(p.Float("n")+5)-p.Float("q"))
			v.End(trial, tune.Completed)
		}
		if above > 1 || same > trials/2 {
			t.Errorf("%s: %d of %d trials have a value of 0 or above, want none with a mean of -4 and a deviation of 1; %d were tried before", name, above, trials, same)
		}
	}
}

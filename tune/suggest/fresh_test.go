package suggest

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// Where the best point is a corner, a suggester that climbs ends on the bounds themselves: it must
// not try that point again and again. A stepped real's values are compared as the trial has them,
// 0.3, and not as sums of steps, 0.30000000000000004.
func TestCornersAndStepsDoNotComeTwice(t *testing.T) {
	notUnderRace(t)
	corner := suggesttest.Problem{Name: "corner", Space: tune.Space{tune.Real("x", 0, 1), tune.Real("y", 1, 100).Log()},
		Value: func(p tune.Params) float64 { return p.Float("x") + p.Float("y") }}
	steps := suggesttest.Problem{Name: "steps", Space: tune.Space{tune.Real("q", 0.1, 2).Quantise(0.1)},
		Value: func(p tune.Params) float64 { return p.Float("q") }}
	for name, s := range all() {
		for p, trials := range map[*suggesttest.Problem]int{&corner: 30, &steps: 20} {
			_, v, err := p.Run(s(), trials, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]int)
			for i, trial := range v.All {
				text := fmt.Sprint(trial.Params)
				if first, ok := seen[text]; ok {
					t.Errorf("%s on %s: trial %d has the parameters of trial %d: %v", name, p.Name, i, first, trial.Params)
				}
				seen[text] = i
			}
		}
	}
}

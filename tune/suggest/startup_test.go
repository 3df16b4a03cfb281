package suggest

import (
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// With eight trials at once as many proposals are quasi-random as one at a time: those that run
// count. Three must have finished.
func TestRunningTrialsCountForTheStart(t *testing.T) {
	p := suggesttest.Branin()
	for name, s := range map[string]func() tune.Suggester{"GP": func() tune.Suggester { return &GP{} }, "TPE": func() tune.Suggester { return &TPE{} },
		"MOTPE": func() tune.Suggester { return &MOTPE{} }} {
		for _, tc := range []struct {
			finished, running int
			start             bool
		}{{9, 0, true}, {10, 0, false}, {3, 6, true}, {3, 7, false}, {2, 30, true}} {
			v := &tunetest.View{SearchSpace: p.Space, Direction: tune.Min}
			for i := range tc.finished + tc.running {
				params, err := (&Sobol{}).Suggest(v, i, randFor("start"))
				if err != nil {
					t.Fatal(err)
				}
				if i < tc.finished {
					v.Done(params, p.Value(params))
				} else {
					v.Add(params)
				}
			}
			propose := func(s tune.Suggester) tune.Params {
				params, err := s.Suggest(v, v.Len(), randFor("next"))
				if err != nil {
					t.Fatal(err)
				}
				return params
			}
			if got := propose(s()).Equal(propose(&Sobol{})); got != tc.start {
				t.Errorf("%s with %d finished and %d running trials: quasi-random is %t, want %t", name, tc.finished, tc.running, got, tc.start)
			}
		}
	}
}

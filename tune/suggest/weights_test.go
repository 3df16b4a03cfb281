package suggest

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// Good trials weigh by what each alone adds to the hypervolume above a reference point of the
// feasible trials.
func TestGoodTrialsWeighByTheirHypervolume(t *testing.T) {
	var recs []record
	for _, scores := range [][]float64{{0, 4}, {1, 1}, {4, 0}, {-100, -100}} {
		recs = append(recs, record{state: recordComplete, scores: scores})
	}
	recs[3].violation = 1
	for k, x := range reference(recs) {
		if math.Abs(x+0.4) > 1e-9 { // a tenth of 4 below 0
			t.Errorf("number %d of the reference is %v, want -0.4", k, x)
		}
	}
	// The ends add 0.4 × 3 each, the middle 1 × 1.
	for i, want := range []float64{1, 1 / 1.2, 1, 1e-3} {
		if got := contributions(recs, []int{0, 1, 2, 3})[i]; math.Abs(got-want) > 1e-9 {
			t.Errorf("trial %d weighs %v, want %v", i, got, want)
		}
	}
}

// A proposal comes from where the good trials weigh much, not from where most of them are.
func TestMOTPEProposesWhereGoodTrialsWeighMuch(t *testing.T) {
	m := newModel(tune.Space{tune.Real("x", 0, 1)})
	var recs []record
	var good, rest []int
	weights := []float64{}
	for i := range 40 {
		x := float64(i-10) / 29
		if i < 10 {
			x = 0.1 + 0.02*float64(i)
			good, weights = append(good, i), append(weights, 1e-3)
		} else {
			rest = append(rest, i)
		}
		recs = append(recs, record{number: i, x: []float64{x}, state: recordComplete})
	}
	recs[9].x[0], weights[9] = 0.8, 1
	there, rng := 0, randFor("weights")
	for range 40 {
		if x := (&MOTPE{}).propose(m, sample{rowsOf(recs, good), weights}, sample{rowsOf(recs, rest), nil}, false, m.blank(), rng); x[0] > 0.6 {
			there++
		}
	}
	if there < 25 {
		t.Errorf("%d of 40 proposals are above 0.6, near the one good trial that weighs much, want most", there)
	}
}

// Scores of trials that violate constraints end below those of all feasible ones, the lower the
// more they violate. If all violate, the violation alone counts.
func TestViolatingTrialsScoreBelowAllOthers(t *testing.T) {
	for _, tc := range []struct {
		violations, scores []float64
		order              []int // best first
	}{
		{[]float64{0, 0.5, 0, 3, math.Inf(1)}, []float64{1, 9, 2, 99, 50}, []int{2, 0, 1, 3, 4}},
		{[]float64{0, 0.5, 0.1}, []float64{-7, 9, 9}, []int{0, 2, 1}},
		{[]float64{2, 0.5, 1}, []float64{3, 1, 2}, []int{1, 2, 0}},
	} {
		var data []*record
		for _, v := range tc.violations {
			data = append(data, &record{violation: v})
		}
		scores := slices.Clone(tc.scores)
		penalise(data, scores)
		for k := range len(tc.order) - 1 {
			if a, b := tc.order[k], tc.order[k+1]; !(scores[a] > scores[b]) {
				t.Errorf("violations %v, scores %v: they become %v, want trial %d above trial %d", tc.violations, tc.scores, scores, a, b)
			}
		}
		for i, v := range tc.violations {
			if v == 0 && scores[i] != tc.scores[i] {
				t.Errorf("feasible trial %d has the score %v, want %v as before", i, scores[i], tc.scores[i])
			}
		}
	}
}

package suggest

import (
	"math"
	"testing"
)

// Good trials weigh by what each alone adds to the hypervolume above a reference point of the feasible trials.
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

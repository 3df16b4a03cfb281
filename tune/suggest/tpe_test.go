package suggest

import (
	"testing"
)

// Of 600 finished trials the best 25 count as good, with the weights ln(26/rank). The rest are the
// newest 500 of the others, with those that run.
func TestTheBestTrialsAreGoodAndTheNewestOthersTheRest(t *testing.T) {
	recs := make([]record, 601)
	for i := range recs {
		recs[i] = record{number: i, x: []float64{float64(i)}, state: recordComplete, score: float64(i)}
	}
	recs[600].state = recordRunning
	for _, tc := range []struct {
		tpe         TPE
		first, rest int     // the oldest of the rest, and how many there are
		heaviest    float64 // as a part of the lightest; 0: all alike
	}{
		{TPE{}, 76, 500, 83.0708}, // ln 26 / ln(26/25)
		{TPE{IgnoreRunning: true}, 75, 500, 83.0708},
		{TPE{Rules: Optuna}, 0, 576, 0},
		{TPE{Rules: Optuna, IgnoreRunning: true}, 0, 575, 0},
	} {
		good, rest := tc.tpe.split(recs)
		if n := len(good.rows); n != 25 || good.rows[0][0] != 575 || good.rows[24][0] != 599 {
			t.Errorf("%+v: %d trials are good, from %v to %v, want 25 from 575 to 599", tc.tpe, n, good.rows[0], good.rows[n-1])
		}
		n := len(rest.rows)
		if newest := rest.rows[n-1][0] == 600; n != tc.rest || rest.rows[0][0] != float64(tc.first) || newest == tc.tpe.IgnoreRunning {
			t.Errorf("%+v: %d trials are the rest, from %v to %v, want %d from %d", tc.tpe, n, rest.rows[0], rest.rows[n-1], tc.rest, tc.first)
		}
		if tc.heaviest == 0 {
			if good.weights != nil {
				t.Errorf("%+v: good trials weigh %v, want them alike", tc.tpe, good.weights)
			}
			continue
		}
		sum := 0.0
		for _, w := range good.weights {
			sum += w
		}
		if w := good.weights; !near(w[24]/w[0], tc.heaviest, 1e-5) || !near(sum, 25, 1e-9) {
			t.Errorf("%+v: the best weighs %v times the worst good one, and all together %v, want %v and 25", tc.tpe, w[24]/w[0], sum, tc.heaviest)
		}
	}
}

package worker

import "testing"

// With Adapt the job is evaluated once for each multiple of EvaluateSteps, also where a sum of
// gains is a multiple or one bit below it.
func TestEvaluationsByProgressComeOnce(t *testing.T) {
	for _, c := range []struct {
		before, gain float64
		want         bool
	}{
		{14, 0.9, false}, {14, 1, true}, {14, 7, true}, {15, 4.9, false}, {0, 4.9, false}, {0, 5, true},
		{15, 2.9, false},               // (15 + 2.9) - 2.9 is below 15
		{4.999999999999999, 1.1, true}, // (4.999999999999999 + 1.1) - 1.1 is 5
	} {
		a := new(adaptation)
		a.scaling.progress.Steps, a.scaling.step.gain = c.before, c.gain
		a.stepped()
		v, e := evaluations{every: 5}, epochs{adapt: a}
		if got := v.due(e.progressed(1)); got != c.want {
			t.Errorf("from %v by %v: evaluation due is %t, want %t", c.before, c.gain, got, c.want)
		}
	}
}

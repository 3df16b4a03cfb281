package tune

import "testing"

// Before the first report there is no step, and a loop that goes on after the last one must not
// take a number for it.
func TestATrialThatHasNotReportedHasNoLastStep(t *testing.T) {
	for _, x := range []struct {
		name    string
		reports []Report
		step    int
		ok      bool
	}{
		{"no report", nil, 0, false},
		{"step 0", []Report{{Step: 0}}, 0, true},
		{"steps 1 and 7", []Report{{Step: 1}, {Step: 7}}, 7, true},
	} {
		trial := Trial{Reports: x.reports}
		if step, ok := trial.LastStep(); step != x.step || ok != x.ok {
			t.Errorf("%s: got step %d, %t; want %d, %t", x.name, step, ok, x.step, x.ok)
		}
	}
}

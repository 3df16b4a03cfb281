package show

import "testing"

// Marks of steps are at whole numbers, however few steps there are.
func TestMarksOfStepsAreWhole(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      string
	}{
		{1, 3, "1 2 3 "}, {1, 1, "1 "}, {0, 4, "0 1 2 3 4 "}, {0, 20000, "0 5000 1e+04 1.5e+04 2e+04 "},
	} {
		got := ""
		for _, x := range newScale(tc.low, tc.high, 0, 1, false).wholeTicks() {
			got += x.Text + " "
		}
		if got != tc.want {
			t.Errorf("steps %g to %g: got marks at %s, want %s", tc.low, tc.high, got, tc.want)
		}
	}
}

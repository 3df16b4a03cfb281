package show

import (
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// Marks of steps are at whole numbers, however few steps there are.
func TestMarksOfStepsAreWhole(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      string
	}{
		{1, 3, "1 2 3 "}, {1, 1, "1 "}, {0, 4, "0 1 2 3 4 "}, {0, 20000, "0 5000 10000 15000 20000 "},
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

// Marks are written as people write numbers: no exponent from 0.0001 to a million.
func TestMarksArePlainNumbers(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{1e-4, 1e-1, true, "0.0001 0.001 0.01 0.1 "}, {1e-6, 1e-3, true, "1e-06 1e-05 0.0001 0.001 "}, {1, 1000, true, "1 10 100 1000 "}, {16, 64, true, "16 64 "},
		{0, 40000, false, "0 10000 20000 30000 40000 "}, {0, 0.02, false, "0 0.005 0.01 0.015 0.02 "},
	} {
		got := ""
		for _, x := range newScale(tc.low, tc.high, 0, 1, tc.log).ticks() {
			got += x.Text + " "
		}
		if got != tc.want {
			t.Errorf("from %g to %g: got marks at %s, want %s", tc.low, tc.high, got, tc.want)
		}
	}
}

// An axis of whole numbers has marks at whole numbers.
func TestAnAxisOfWholeNumbersHasWholeMarks(t *testing.T) {
	space := tune.Space{tune.Int("layers", 1, 3)}
	trial := &tune.Trial{Params: tune.MustParams("layers", 2)}
	a, ok := newAxis(space, []*tune.Trial{trial}, "layers")
	got := ""
	for _, x := range a.ticks {
		got += x.Text + " "
	}
	if want := "1 2 3 "; !ok || got != want {
		t.Errorf("got marks at %s, want %s", got, want)
	}
}

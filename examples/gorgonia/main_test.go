package main

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/metricstest"
)

// The compiled program takes the very steps of gorgonia's virtual machine and solver.
func TestCompiledTakesTheStepsOfTheTape(t *testing.T) {
	want, err := tape()
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	if m := metricstest.Printed(t, func() { got, err = after(t.Context(), t.TempDir()) }); len(m) != 1 || m[0].Step != steps || len(m[0].Values) != 1 {
		t.Errorf("got the lines of metrics %+v, want one with the loss of the last step", m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != steps || len(want) != steps {
		t.Fatalf("got %d and %d losses, want %d", len(got), len(want), steps)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-4*want[i] {
			t.Fatalf("loss of step %d: got %v compiled, want the tape's %v", i, got[i], want[i])
		}
	}
	if mean := func(losses []float64) (sum float64) {
		for _, loss := range losses {
			sum += loss / float64(len(losses))
		}
		return sum
	}; mean(got[steps-20:]) > 0.9*mean(got[:20]) {
		t.Errorf("mean loss goes from %v to %v, want a tenth less at least", mean(got[:20]), mean(got[steps-20:]))
	}
}

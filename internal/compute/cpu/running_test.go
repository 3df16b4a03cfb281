package cpu

import (
	"testing"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

func TestRunningStatisticsChangeOnlyWithACommit(t *testing.T) {
	var s runningStates
	state := &plan.State{Mean: []float32{1}, Var: []float32{2}}
	r := s.of(state)
	if s.of(state) != r {
		t.Error("two normalisations of one state do not share their statistics")
	}
	move := func() {
		r.move(0, 0.5, 3, 4)
		r.moved = true
	}
	s.begin()
	move()
	if r.now().Mean[0] != 2 || state.Mean[0] != 1 {
		t.Errorf("before the commit: got mean %g within the run and %g outside, want 2 and 1", r.now().Mean[0], state.Mean[0])
	}

	// The run fails: the next one begins with what was there before it.
	s.begin()
	if r.now().Mean[0] != 1 {
		t.Errorf("after a run that failed: got mean %g, want 1", r.now().Mean[0])
	}
	move()
	move()
	s.commit()
	if state.Mean[0] != 2.5 || state.Var[0] != 3.5 {
		t.Errorf("after two batches: got mean %g and variance %g, want 2.5 and 3.5", state.Mean[0], state.Var[0])
	}
}

package worker

import (
	"testing"
	"time"
)

// After a checkpoint that failed, the next try is rank 0's by the clock, twice as late each time,
// until one of the workers knows nothing of that.
func TestAFailedCheckpointIsTriedLaterByTheClock(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSaveSchedule(CheckpointConfig{Dir: "x", EverySteps: 5, Failures: 3}, now)
	if !s.due(10) || s.due(11) || s.due(0) || s.dueByClock(now.Add(time.Hour)) {
		t.Error("want a checkpoint due after each 5 steps, and none by the clock")
	}
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		if got := s.failed(now); got != want {
			t.Errorf("failure %d: the next try is in %v, want %v", i+1, got, want)
		}
		if s.due(10) || s.dueByClock(now.Add(want-1)) || !s.dueByClock(now.Add(want)) {
			t.Errorf("failure %d: want the next checkpoint due by the clock in %v alone", i+1, want)
		}
		if got := s.tooMany(); got != (i == 2) {
			t.Errorf("failure %d: too many is %t", i+1, got)
		}
	}
	s.byConfig()
	if !s.due(10) || s.dueByClock(now.Add(time.Hour)) {
		t.Error("with new workers, want the next try when the configuration says so")
	}
}

// A checkpoint by the clock counts from the last one, and the end of an epoch saves the best model
// in any case.
func TestCheckpointsAreDueByClockAndEpoch(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSaveSchedule(CheckpointConfig{Dir: "x", Every: time.Minute, EveryEpochs: 2}, now)
	if s.dueByClock(now.Add(time.Minute-1)) || !s.dueByClock(now.Add(time.Minute)) {
		t.Error("want the first checkpoint after a minute")
	}
	for _, c := range []struct {
		epochs int
		best   bool
		want   bool
	}{{1, false, false}, {2, false, true}, {3, true, true}} {
		if got := s.dueAtEpoch(7, c.epochs, c.best); got != c.want {
			t.Errorf("after %d epochs, best %t: due is %t, want %t", c.epochs, c.best, got, c.want)
		}
	}
	nowhere := newSaveSchedule(CheckpointConfig{EverySteps: 1, Every: 1}, now)
	if nowhere.due(1) || nowhere.dueAtEpoch(1, 1, true) || nowhere.dueByClock(now.Add(1)) {
		t.Error("without a folder a checkpoint is due, want none")
	}
}

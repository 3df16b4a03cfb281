package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The test's binary is also the program of the processes that it starts.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	if err := process(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A job of processes reports what each worker did, and holds to its bound.
func TestRunTellsOfTheJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	s := settings{Batch: 4, Rate: 0.1, Pause: time.Millisecond, Slow: 5, Spell: 60 * time.Millisecond, Workers: 2}
	for _, m := range []mode{modes[2], {"2 local steps", "dist_sync", -1, 2}} {
		s.Mode = m
		r, err := run(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		if len(r.Steps) != 2 || r.Steps[0] < 1 || r.Steps[1] < 1 || r.last().Examples < 4 {
			t.Errorf("%s: got steps %v and %v examples, want some of each worker", m.Name, r.Steps, r.last().Examples)
		}
		if max := uint64(m.Staleness + 1); m.Staleness >= 0 && (r.Lead.Count == 0 || r.Lead.Max >= max) {
			t.Errorf("%s: got a lead of %d in %d values, want less than %d", m.Name, r.Lead.Max, r.Lead.Count, max)
		}
		if a := r.last().Accuracy; !(a > 0 && a <= 1) {
			t.Errorf("%s: got accuracy %v, want above 0, at most 1", m.Name, a)
		}
	}
}

// Each mode is compared with the first, and all at the examples that the slowest of them trained.
func TestRowsCompareAtEqualExamples(t *testing.T) {
	line := func(seconds, examples, accuracy float64) result {
		return result{Steps: []int{3, 1}, Snapshots: []snapshot{{}, {seconds / 2, examples / 2, accuracy / 2}, {seconds, examples, accuracy}}}
	}
	rows := rowsOf([]result{line(2, 100, 0.5), line(2, 400, 0.8)}, settings{Workers: 2})
	for i, want := range []row{
		{speed: 50, gain: 1, straggler: 0.25, accuracy: 0.5, equal: 0.5, seconds: 2},
		{speed: 200, gain: 4, straggler: 0.25, accuracy: 0.8, equal: 0.2, seconds: 0.5},
	} {
		if rows[i] != want {
			t.Errorf("row %d: got %+v, want %+v", i, rows[i], want)
		}
	}
}

func TestStragglerWanders(t *testing.T) {
	s := settings{Pause: time.Millisecond, Slow: 5, Workers: 3}
	for _, test := range []struct {
		wander, into time.Duration
		slow         int
	}{{0, time.Hour, 2}, {time.Second, 500 * time.Millisecond, 0}, {time.Second, 4500 * time.Millisecond, 1}} {
		s.Wander = test.wander
		for rank := range s.Workers {
			want := time.Millisecond
			if rank == test.slow {
				want *= 5
			}
			if got := s.pause(rank, test.into); got != want {
				t.Errorf("wander %v, after %v: rank %d pauses %v, want %v", test.wander, test.into, rank, got, want)
			}
		}
	}
}

func TestMeasureNamesWhatItRefuses(t *testing.T) {
	var out bytes.Buffer
	if err := measure(t.Context(), settings{Workers: 1, Batch: 1, Rate: 1, Pause: 1, Slow: 1, Spell: time.Second}, 1, &out); err == nil || !strings.Contains(err.Error(), "--workers 1") {
		t.Errorf("one worker: got error %v, want one that names --workers", err)
	}
}

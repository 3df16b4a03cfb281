package main

import (
	"testing"
	"time"

	"github.com/paragon-train/paragon/nn"
)

func times(ds ...int) []time.Duration {
	out := make([]time.Duration, len(ds))
	for i, d := range ds {
		out[i] = time.Duration(d)
	}
	return out
}

// Replayed lists take the times that one works out by hand.
func TestReplayOfHandMadeLists(t *testing.T) {
	free := costs{}
	for _, test := range []struct {
		name    string
		costs   costs
		parts   []time.Duration
		threads int
		want    time.Duration
	}{
		{"one thread adds up", costs{100, 10}, times(3, 5, 7), 1, 15},
		{"one piece costs no hand-out", costs{100, 10}, times(9), 8, 9},
		{"even pieces", free, times(3, 3, 3, 3), 2, 6},
		{"the long one first", free, times(5, 1, 1, 1), 2, 5},
		{"the long one last", free, times(1, 1, 1, 5), 2, 6},      // 1+1 | 1+5
		{"more threads than pieces", free, times(4, 2, 3), 16, 4}, // one each
		{"7 pieces on 3 threads", free, times(2, 2, 2, 2, 2, 2, 2), 3, 6},
		{"joining late", costs{join: 1}, times(4, 4), 2, 6},               // caller 0–4, helper 1–5, end 6
		{"too late to help", costs{join: 10}, times(2, 3), 2, 5},          // the caller did both before
		{"hand-out by one word", costs{handOut: 2}, times(1, 1, 1), 3, 5}, // taken at 0, 2, 4
		{"both", costs{join: 3, handOut: 1}, times(8, 8, 8), 3, 15},       // 0–8, 3–11, 4–12, end 15
	} {
		if got := test.costs.replay(test.parts, test.threads); got != test.want {
			t.Errorf("%s: %v on %d threads: got %d, want %d", test.name, test.parts, test.threads, got, test.want)
		}
	}
}

// An operation is its serial time and its runs one after the other; what its threads did not work
// is lost to its kind.
func TestPredictionAddsOperationsUp(t *testing.T) {
	ops := []nn.OpParts{
		{Kind: "Conv2D", Op: "a", Serial: 1, Runs: [][]time.Duration{times(4, 4), times(2)}}, // 1 + 4 + 2
		{Kind: "ReLU", Op: "b", Runs: [][]time.Duration{times(3, 3)}},                        // 3
	}
	p := predict(ops, 2, costs{})
	if p.took != 10 || p.worked != 17 {
		t.Errorf("got a step of %d with %d of work, want 10 and 17", p.took, p.worked)
	}
	want := []loss{{kind: "Conv2D", op: "a", lost: 2*7 - 11, took: 7, serial: 1, pieces: 2}, {kind: "ReLU", op: "b", took: 3, pieces: 2}}
	if len(p.losses) != 2 || p.losses[0] != want[0] || p.losses[1] != want[1] {
		t.Errorf("got losses %+v, want %+v", p.losses, want)
	}
}

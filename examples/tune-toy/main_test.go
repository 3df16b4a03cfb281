package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func TestTwentyTrialsHaveABestOneAndAPicture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toy")
	s := settings{trials: 20, epochs: 10, parallel: 4, scheduler: "fifo", dir: dir, seed: 1}
	result, err := search(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	// The last x lies between 9 and 18, and so the accuracy of all trials between these.
	if got := result.Value(result.BestTrial()); len(result.Trials()) != 20 || got < 0.9949 || got > 0.99998 {
		t.Errorf("the best of %d trials has %v, want 20 and at least 1-1.8^-9 = 0.99496", len(result.Trials()), got)
	}
	if lr := result.Trials()[0].Params.Float("lr"); lr < 0.00316 || lr > 0.00317 {
		t.Errorf("the first trial has lr %v, want the default, the middle of the logarithms: 0.003162", lr)
	}
	for _, name := range []string{"curves.png", "trials.csv", "trials/trial-000019/result.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file with something in it", name, err)
		}
	}
	s.resume = true
	again, err := search(t.Context(), s)
	if err != nil || again.DecisionHash() != result.DecisionHash() {
		t.Errorf("resumed at its end it has the hash %s, %v, want %s", again.DecisionHash(), err, result.DecisionHash())
	}
}

func TestASHAStopsMostTrials(t *testing.T) {
	result, err := search(t.Context(), settings{trials: 20, epochs: 9, parallel: 2, scheduler: "asha", dir: t.TempDir(), seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range result.Trials() {
		if x.State == tune.Pruned {
			n++
		}
	}
	if n < 5 {
		t.Errorf("%d of 20 trials were stopped, want at least 5", n)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A search over widths as a user runs it: it is killed while a trial runs at the second width, goes
// on with the decisions of one that was not killed, and replays.
func TestTuneTriesTrialsAtALowerFidelityFirst(t *testing.T) {
	t.Parallel()
	study := func() (dir string) {
		dir = t.TempDir()
		text := `name: widths
metric: value
mode: max
command: 'echo hello from {x} at {width}; echo value=1 epoch=1; sleep 0.02; echo value=$(({x} * {width})) epoch=2 step=2'
space: {x: {int: [1, 1000]}}
fidelity: {parameter: width, low: 16, high: 128, eta: 2}
samples: 12
parallel: 1
`
		if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	whole := study()
	dry, _ := tuneIn(t, whole, 0, "--dry-run", "study.yaml")
	wantText(t, "a dry run", dry, `^trial-000000: echo hello from \d+ at 16;`)
	out, _ := tuneIn(t, whole, 0, "study.yaml")
	wantText(t, "the output", out, `^trial-000000: started on local with \{x: \d+, width: 16\}$`, `attempt 2 started on local from the beginning, now with \{x: \d+, width: 32\}`,
		`^trial name +status +loc +x +width +value +iter`, `^trial-\d+ +PAUSED +local +\d+ +16 +\d+ +16 `, `^best: trial-\d+ with value \d+$`, `^  width: 128$`, `^command: echo hello from \d+ at 128;`)

	dir := study()
	l := startWith(t, launchProgram, dir, []string{"TMPDIR=" + t.TempDir()}, "tune", "study.yaml")
	l.await(t, "attempt 2 started")
	l.Process.Kill()
	<-l.done
	resumed, _ := tuneIn(t, dir, 0, "--resume", "study.yaml")
	if hashOf(t, resumed) != hashOf(t, out) {
		t.Errorf("the search that was killed has made other decisions:\n%s%s", out, resumed)
	}
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/widths")
	if hashOf(t, replayed) != hashOf(t, out) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", out, replayed)
	}
	why, _ := tuneIn(t, dir, 0, "why", "runs/widths", "1")
	wantText(t, "why", why, `step 16: value \d+: (pause|continue) \(asha promotion rung 0 at step 16\).*; among trials at step 16 0 \(\d+\)`)
	trials, err := os.ReadFile(filepath.Join(dir, "runs/widths/trials.csv"))
	if err != nil || !strings.HasPrefix(string(trials), "trial,state,param/x,param/width,value,last value,") {
		t.Errorf("trials.csv: %v: %.100s", err, trials)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "study.yaml"))
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(strings.Replace(string(text), "low: 16", "low: 32", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	_, errs := tuneIn(t, dir, 1, "--resume", "study.yaml")
	wantText(t, "other levels", errs, `Fidelity was "width" \[16, 128\] eta 2 and is now "width" \[32, 128\] eta 2: put it back`)
}

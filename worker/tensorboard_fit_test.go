package worker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/worker"
)

// shownBy is what TensorBoard shows of a folder: by tag and step, how often there is a value. It
// reads the files by name, and a start other than the first takes away what came before it from its
// step on.
func shownBy(t *testing.T, dir string) map[string]map[int64]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*")) // sorted
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]map[int64]int{}
	add := func(tag string, step int64) {
		if shown[tag] == nil {
			shown[tag] = map[int64]int{}
		}
		shown[tag][step]++
	}
	started := false
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		events, err := metrics.ReadEvents(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Start && started {
				for _, steps := range shown {
					for step := range steps {
						if step >= e.Step {
							delete(steps, step)
						}
					}
				}
			}
			started = started || e.Start
			for _, s := range e.Scalars {
				add(s.Tag, e.Step)
			}
			for _, x := range e.Texts {
				add(x.Tag, e.Step)
			}
		}
	}
	return shown
}

// A run that went on behind its checkpoint and is resumed from it shows each step once, with at
// least twelve numbers, and each epoch's test scores once.
func TestResumedRunShowsEachStepOnce(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	first := newFitRig(t, false)
	first.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 5, Keep: 10}
	first.cfg.MaxSteps = 14
	first.cfg.Observers = []worker.Observer{worker.TensorBoard(out)}
	if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
		t.Fatal(err)
	}
	removeNewest(t, dir) // that of step 14, as if the process had been killed
	second := newFitRig(t, false)
	second.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	tb := worker.TensorBoard(out)
	l := &stepList{}
	second.cfg.Observers = []worker.Observer{tb, l}
	if _, err := worker.Fit(t.Context(), second.cfg); err != nil || tb.Err() != nil {
		t.Fatal(err, tb.Err())
	}
	if l.run.Done != 10 {
		t.Fatalf("resumed after %d steps, want 10", l.run.Done)
	}
	shown := shownBy(t, filepath.Join(out, "worker-0"))
	for step := int64(1); step <= 24; step++ {
		numbers := 0
		for tag, steps := range shown {
			if steps[step] > 1 {
				t.Errorf("%s has %d values of step %d, want at most one", tag, steps[step], step)
			}
			numbers += steps[step]
		}
		if numbers < 12 {
			t.Errorf("step %d has %d numbers, want at least 12", step, numbers)
		}
	}
	if got := len(shown["train/loss"]); got != 24 {
		t.Errorf("there are losses of %d steps, want 24", got)
	}
	if got := shown["test/accuracy"]; len(got) != 3 || got[8] != 1 || got[16] != 1 || got[24] != 1 {
		t.Errorf("there are test scores of the steps %v, want 8, 16 and 24", got)
	}
	if got := shown["job/membership"]; len(got) != 2 || got[0] != 1 || got[10] != 1 {
		t.Errorf("there are texts of the steps %v, want 0 and 10", got)
	}
}

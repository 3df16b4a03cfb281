package worker

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// A run of two steps and an epoch is read back: the steps count from the beginning of the job, and what is not finite is left out.
func TestScalarsOfARunAreReadBack(t *testing.T) {
	dir := t.TempDir()
	w := TensorBoard(dir)
	w.now = func() time.Time { return time.Unix(1000, 0) }
	w.Begin(Run{Rank: 3})
	w.Step(StepInfo{Epoch: 2, Step: 0, Done: 41, Loss: 1.5, Examples: 8, Batch: 64})
	w.Step(StepInfo{Epoch: 2, Step: 1, Done: 42, Loss: math.NaN()})
	w.Evaluated(2, Evaluation{Done: 42, Scores: Scores{Loss: 3, Accuracy: 0.125}})
	w.Epoch(EpochInfo{Epoch: 2, Done: 42, Loss: 1.5, Examples: 8, Train: 2 * time.Second, Test: &Scores{Loss: 2, Accuracy: 0.25},
		Adapt: &AdaptInfo{Scale: 4, Gain: 3, NoiseScale: math.Inf(1), Progress: 120, Goodput: 12}})
	w.End()
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	files, err := filepath.Glob(filepath.Join(dir, "worker-3", "events.out.tfevents.1000.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, %v, want one", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := metrics.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	want := []metrics.Event{
		{Step: 41, Scalars: []metrics.Scalar{{Tag: "train/loss", Value: 1.5}, {Tag: "train/examples", Value: 8}, {Tag: "train/batch", Value: 64}}},
		{Step: 42, Scalars: []metrics.Scalar{{Tag: "train/examples", Value: 0}}},
		{Step: 42, Scalars: []metrics.Scalar{{Tag: "test/loss", Value: 3}, {Tag: "test/accuracy", Value: 0.125}}},
		{Step: 42, Scalars: []metrics.Scalar{
			{Tag: "epoch/loss", Value: 1.5}, {Tag: "epoch/examples_per_second", Value: 4}, {Tag: "test/loss", Value: 2}, {Tag: "test/accuracy", Value: 0.25},
			{Tag: "adapt/scale", Value: 4}, {Tag: "adapt/gain", Value: 3}, {Tag: "adapt/progress", Value: 120}, {Tag: "adapt/goodput", Value: 12}}},
	}
	if len(events) != len(want)+1 {
		t.Fatalf("got %d records, want the version and %d", len(events), len(want))
	}
	for i, e := range want {
		if got := events[i+1]; got.Step != e.Step || !slices.Equal(got.Scalars, e.Scalars) {
			t.Errorf("record %d: got step %d %v, want step %d %v", i, got.Step, got.Scalars, e.Step, e.Scalars)
		}
	}
}

// A folder that cannot be made ends no run.
func TestScalarsThatCannotBeWrittenEndNoRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := TensorBoard(file)
	w.Begin(Run{})
	w.Step(StepInfo{Done: 1, Loss: 1, Examples: 1})
	w.Epoch(EpochInfo{})
	w.End()
	if w.Err() == nil {
		t.Error("got no error of a folder that is a file")
	}
}

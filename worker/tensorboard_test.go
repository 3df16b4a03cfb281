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

// eventsOf reads the one event file of a folder, without its first two records: version and start.
func eventsOf(t *testing.T, dir string) (start int64, events []metrics.Event) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, %v, want one", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err = metrics.ReadEvents(f)
	if err != nil || len(events) < 2 || !events[1].Start {
		t.Fatalf("%s holds %+v, %v, want a version and a start first", files[0], events, err)
	}
	return events[1].Step, events[2:]
}

var oneStep = StepInfo{
	Epoch: 2, Step: 0, Done: 41, Loss: 1.5, Examples: 8, Batch: 64, Workers: 4, LearningRate: 0.25, GradientNorm: 3, Staleness: math.NaN(),
	Took: 2 * time.Second, Times: Times{Compute: time.Second, Wait: 500 * time.Millisecond, Data: 250 * time.Millisecond},
}

// A run of two steps and an epoch is read back: the steps count from the beginning of the job, and
// what is not finite is left out.
func TestScalarsOfARunAreReadBack(t *testing.T) {
	dir := t.TempDir()
	w := TensorBoard(dir)
	w.now = func() time.Time { return time.Unix(1000, 0) }
	w.Begin(Run{Rank: 3, Workers: 4, Done: 40, FirstEpoch: 2, ResumedFrom: "ckpt/step-00000040"})
	w.memory.Close()
	w.memory = nil // its numbers are not known
	w.Step(oneStep)
	w.Membership(MembershipInfo{Epoch: 2, Step: 1, Done: 41, Rank: 2, Before: 4, Workers: 3})
	second := oneStep
	second.Step, second.Done, second.Loss, second.Examples, second.Batch, second.Workers, second.Staleness = 1, 42, math.NaN(), 0, 48, 3, 0.5
	second.GradientNorm = math.NaN()
	w.Step(second)
	w.Evaluated(2, Evaluation{Done: 42, Scores: Scores{Loss: 3, Accuracy: 0.125}})
	w.Epoch(EpochInfo{Epoch: 2, Done: 42, Loss: 1.5, Examples: 8, Train: 2 * time.Second, Test: &Scores{Loss: 2, Accuracy: 0.25},
		Adapt: &AdaptInfo{Scale: 4, Gain: 3, NoiseScale: math.Inf(1), Progress: 120, Goodput: 12}})
	w.End()
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	start, events := eventsOf(t, filepath.Join(dir, "worker-3"))
	if start != 41 {
		t.Errorf("the file starts at step %d, want 41", start)
	}
	times := []metrics.Scalar{{Tag: "time/step", Value: 2}, {Tag: "time/compute", Value: 1}, {Tag: "time/wait", Value: 0.5}, {Tag: "time/data", Value: 0.25}, {Tag: "time/save", Value: 0}}
	want := []metrics.Event{
		{Step: 40, Texts: []metrics.Text{{Tag: "job/membership", Text: "The run resumed from `ckpt/step-00000040` at epoch 2, step 0: worker 3 of 4"}}},
		{Step: 41, Scalars: append([]metrics.Scalar{{Tag: "train/loss", Value: 1.5}, {Tag: "time/examples_per_second", Value: 4}, {Tag: "train/examples", Value: 8}, {Tag: "train/batch", Value: 64},
			{Tag: "train/learning_rate", Value: 0.25}, {Tag: "train/gradient_norm", Value: 3}, {Tag: "train/epoch", Value: 2}, {Tag: "train/workers", Value: 4}}, times...)},
		{Step: 41, Texts: []metrics.Text{{Tag: "job/membership", Text: "The number of workers changed from 4 to 3 at epoch 2, step 1. This is worker 2"}}},
		{Step: 42, Scalars: append([]metrics.Scalar{{Tag: "train/examples", Value: 0}, {Tag: "train/batch", Value: 48},
			{Tag: "train/learning_rate", Value: 0.25}, {Tag: "train/staleness", Value: 0.5}, {Tag: "train/epoch", Value: 2}, {Tag: "train/workers", Value: 3}}, times...)},
		{Step: 42, Scalars: []metrics.Scalar{{Tag: "test/loss", Value: 3}, {Tag: "test/accuracy", Value: 0.125}}},
		{Step: 42, Scalars: []metrics.Scalar{
			{Tag: "epoch/loss", Value: 1.5}, {Tag: "epoch/examples_per_second", Value: 4}, {Tag: "test/loss", Value: 2}, {Tag: "test/accuracy", Value: 0.25},
			{Tag: "adapt/scale", Value: 4}, {Tag: "adapt/gain", Value: 3}, {Tag: "adapt/progress", Value: 120}, {Tag: "adapt/goodput", Value: 12}}},
	}
	if len(events) != len(want) {
		t.Fatalf("got %d records, want %d", len(events), len(want))
	}
	for i, e := range want {
		if got := events[i]; got.Step != e.Step || !slices.Equal(got.Scalars, e.Scalars) || !slices.Equal(got.Texts, e.Texts) {
			t.Errorf("record %d: got step %d %v %v, want step %d %v %v", i, got.Step, got.Scalars, got.Texts, e.Step, e.Scalars, e.Texts)
		}
	}
}

// A worker that joins has a folder of its own: one that began may have had its rank, and still
// write.
func TestJoinedWorkerHasItsOwnFolder(t *testing.T) {
	dir := t.TempDir()
	w := TensorBoard(dir)
	w.Begin(Run{Rank: 0, Workers: 2, Done: 9, Joined: true, Node: 17})
	w.End()
	if start, events := eventsOf(t, filepath.Join(dir, "worker-node-17")); start != 10 || len(events) != 1 || w.Err() != nil {
		t.Errorf("the file starts at step %d with %+v, %v, want step 10 and one text", start, events, w.Err())
	}
}

// Worker 0 of a resumed run ends the curves of workers that are no longer there, at the step at
// which it resumes. Nobody else does, and a worker that joins does not: the others are there.
func TestCurvesOfWorkersThatAreGoneEndWhereTheRunResumes(t *testing.T) {
	dir := t.TempDir()
	for _, old := range []Run{{Rank: 0, Workers: 3}, {Rank: 1, Workers: 3}, {Rank: 2, Workers: 3}, {Rank: 1, Workers: 3, Joined: true, Node: 5}} {
		w := TensorBoard(dir)
		w.Begin(old)
		w.Step(oneStep)
		w.End()
	}
	for _, now := range []Run{{Rank: 1, Workers: 2, Done: 30}, {Rank: 0, Workers: 2, Done: 30, Joined: true, Node: 5}, {Rank: 0, Workers: 2, Done: 30}} {
		w := TensorBoard(dir)
		w.Begin(now)
		w.End()
		if w.Err() != nil {
			t.Fatal(w.Err())
		}
	}
	for name, want := range map[string]int{"worker-0": 2, "worker-1": 2, "worker-2": 2, "worker-node-5": 3} {
		files, err := filepath.Glob(filepath.Join(dir, name, "*"))
		if err != nil || len(files) != want {
			t.Errorf("%s has %d files, %v, want %d", name, len(files), err, want)
		}
	}
}

// A step allocates nothing.
func TestWritingAStepAllocatesNothing(t *testing.T) {
	w := TensorBoard(t.TempDir())
	w.Begin(Run{})
	defer w.End()
	s := oneStep
	if n := testing.AllocsPerRun(1000, func() {
		s.Done++
		s.GradientNorm++
		w.Step(s)
	}); n != 0 || w.Err() != nil {
		t.Errorf("a step allocates %v times, %v, want 0", n, w.Err())
	}
}

// go test ./worker -run - -bench TensorBoard
func BenchmarkTensorBoardStep(b *testing.B) {
	w := TensorBoard(b.TempDir())
	w.Begin(Run{})
	defer w.End()
	s := oneStep
	b.ReportAllocs()
	for b.Loop() {
		s.Done++
		w.Step(s)
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
	w.Step(oneStep)
	w.Membership(MembershipInfo{})
	w.Epoch(EpochInfo{})
	w.End()
	if w.Err() == nil {
		t.Error("got no error of a folder that is a file")
	}
}

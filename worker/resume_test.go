package worker_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/worker"
)

// Stopped after any step, also the first, the last of an epoch and the last of all, and resumed, a
// run on two devices ends with the bits of one that was not stopped, and both parts together tell
// the same metrics: also where it is stopped at a step after which it would have evaluated, or
// where an epoch ends.
func TestStopAtAnyStepAndResume(t *testing.T) {
	whole := newRig(t, rigConfig{devices: 2})
	metrics := new(metricsLog)
	whole.cfg.EvaluateSteps, whole.cfg.Observers = 3, metrics.observers()
	epochs, err := worker.Fit(t.Context(), whole.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range epochs {
		for s, loss := range e.Losses { // in the last step of an epoch the second device has no example
			if math.IsNaN(loss) || math.IsInf(loss, 0) {
				t.Errorf("epoch %d step %d: loss %v, want a finite one", e.Epoch, s, loss)
			}
		}
	}
	want := whole.values()
	for _, after := range []int{0, 1, 2, 5, 7, 8, 15, 23} { // 8 steps an epoch; the step after the one that was asked ends it
		if !slow() && (after == 1 || after == 5 || after == 8) { // within an epoch, as after 2
			continue
		}
		t.Run(fmt.Sprintf("after=%d", after), func(t *testing.T) {
			dir, stop := t.TempDir(), make(chan struct{})
			stopped := newRig(t, rigConfig{devices: 2})
			stopped.cfg.Stop = stop
			stopped.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir}
			got := new(metricsLog)
			stopped.cfg.EvaluateSteps, stopped.cfg.Observers = 3, append(got.observers(), &stopAfter{step: after, stop: stop})
			if after == 0 {
				close(stop)
			}
			if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
				t.Fatalf("got error %v, want ErrStopped", err)
			}
			resumed := newRig(t, rigConfig{devices: 2})
			resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
			resumed.cfg.EvaluateSteps, resumed.cfg.Observers = 3, got.observers()
			rest, err := worker.Fit(t.Context(), resumed.cfg)
			if err != nil {
				t.Fatal(err)
			}
			steps := after + 1
			for _, e := range rest {
				steps += len(e.Losses)
			}
			if steps != 24 {
				t.Errorf("both runs did %d steps, want 24", steps)
			}
			if i := firstDifference(resumed.values(), want); i >= 0 {
				t.Errorf("value %d differs from the run that was not stopped", i)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "step-00000024", "complete.json")); after == 23 && !strings.Contains(string(b), `"end_epoch"`) {
				t.Errorf("the checkpoint that the run resumed from was written over: %s, %v", b, err)
			}
			if got.String() != metrics.String() {
				t.Errorf("both runs told\n%s\nwant\n%s", got, metrics)
			}
		})
	}
}

// A metricsLog has what runs tell of the model, in full precision.
type metricsLog struct {
	evaluationLog
	strings.Builder
}

func (m *metricsLog) observers() []worker.Observer {
	return []worker.Observer{m, worker.NewMetricsLines(&m.Builder)}
}

func (m *metricsLog) Epoch(e worker.EpochInfo) {
	fmt.Fprintf(m, "epoch %d after %d steps: loss %x, test %x %x\n", e.Epoch, e.Done, e.Loss, e.Test.Loss, e.Test.Accuracy)
}

func (m *metricsLog) Evaluated(epoch int, e worker.Evaluation) {
	fmt.Fprintf(m, "step %d of epoch %d: test %x %x\n", e.Step, epoch, e.Scores.Loss, e.Scores.Accuracy)
}

// A run that resumes at or after its last step does nothing more.
func TestResumeOfAFinishedRunDoesNothing(t *testing.T) {
	for _, maxSteps := range []uint64{0, 11} {
		dir := t.TempDir()
		first := newFitRig(t, false)
		first.cfg.MaxSteps, first.cfg.Checkpoint.Dir = maxSteps, dir
		if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
			t.Fatal(err)
		}
		second := newFitRig(t, false)
		second.cfg.MaxSteps, second.cfg.Checkpoint = maxSteps, worker.CheckpointConfig{Dir: dir, Resume: true}
		epochs, err := worker.Fit(t.Context(), second.cfg)
		if err != nil || len(epochs) != 0 {
			t.Errorf("at most %d steps: resumed when done: got %d epochs and error %v, want none", maxSteps, len(epochs), err)
		}
		if i := firstDifference(second.values(), first.values()); i >= 0 {
			t.Errorf("at most %d steps: value %d differs after the resume", maxSteps, i)
		}
	}
}

// What cannot be resumed is refused with what is wrong and what to do.
func TestResumeNamesWhatItRefuses(t *testing.T) {
	manifest := func(text string) func(*testing.T, string, *rigConfig) {
		return func(t *testing.T, folder string, _ *rigConfig) {
			write(t, filepath.Join(folder, "complete.json"), []byte(text))
		}
	}
	for _, test := range []struct {
		name   string
		change func(t *testing.T, folder string, cfg *rigConfig)
		want   string
	}{
		{"half a manifest", manifest(`{"version": 1,`), "complete.json: damaged file"},
		{"a later version", manifest(`{"version": 2, "steps": 24, "epoch": 2, "step": 8, "workers": 1, "steps_per_epoch": 8}`), "got version 2"},
		{"another step", manifest(`{"version": 1, "steps": 23, "epoch": 2, "step": 8, "workers": 1, "steps_per_epoch": 8}`), "23 steps in all; want version 1 (2 with cuts, 3 of adaptive training, 4 in another order than contiguous), none below 0, at most 5000 workers, and the folder's 24 steps"},
		{"a negative step", manifest(`{"version": 1, "steps": 24, "epoch": 2, "step": -8, "workers": 1, "steps_per_epoch": 8}`), "step -8"},
		{"more workers than a job has", manifest(`{"version": 1, "steps": 24, "epoch": 2, "step": 8, "workers": 1000000000000000, "steps_per_epoch": 8}`), "1000000000000000 workers"},
		{"other data", manifest(`{"version": 1, "steps": 24, "epoch": 2, "step": 8, "workers": 3, "steps_per_epoch": 8}`), "its epochs have 8 steps and those of this run 3"},
		{"cuts of version 1", manifest(`{"version": 1, "steps": 24, "epoch": 2, "step": 1, "workers": 1, "steps_per_epoch": 8, "cuts": [{"parts": 1, "used": [2]}]}`), "got version 1"},
		{"cuts that cannot be", manifest(`{"version": 2, "steps": 24, "epoch": 2, "step": 1, "workers": 1, "steps_per_epoch": 8, "cuts": [{"parts": 2, "used": [2]}]}`), "got 2 parts and counts of used examples for 1"},
		{"more examples", func(_ *testing.T, _ string, cfg *rigConfig) { cfg.examples = 80 }, "its epochs have 8 steps and those of this run 10"},
		{"another model", func(_ *testing.T, _ string, cfg *rigConfig) { cfg.filters = 5 }, "has shape [4], and this run's model has [5]: resume with the settings of the model that wrote it"},
		{"no own file", func(t *testing.T, folder string, _ *rigConfig) {
			if err := os.Remove(filepath.Join(folder, "worker-0.safetensors")); err != nil {
				t.Fatal(err)
			}
		}, "worker-0.safetensors: damaged file: it is missing"},
		{"half an own file", cut("worker-0.safetensors"), "worker-0.safetensors"},
		{"half a store", cut("store.safetensors"), "store.safetensors"},
		{"the update on the worker", func(_ *testing.T, _ string, cfg *rigConfig) { cfg.onWorker = true }, "param/conv.weight"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			first := newFitRig(t, false)
			first.cfg.Checkpoint.Dir = dir
			if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
				t.Fatal(err)
			}
			var cfg rigConfig
			test.change(t, filepath.Join(dir, "step-00000024"), &cfg)
			second := newRig(t, cfg)
			second.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
			if _, err := worker.Fit(t.Context(), second.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Fit: got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// cut halves a file of a checkpoint.
func cut(name string) func(*testing.T, string, *rigConfig) {
	return func(t *testing.T, folder string, _ *rigConfig) {
		path := filepath.Join(folder, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, content[:len(content)/2])
	}
}

// A new run in the folder of another would lose its checkpoints to those of later steps.
func TestNewRunRefusesAUsedFolder(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"", "has checkpoints of another run, the newest after 24 steps"} {
		r := newFitRig(t, false)
		r.cfg.Checkpoint.Dir = dir
		_, err := worker.Fit(t.Context(), r.cfg)
		if i == 0 && err != nil || i == 1 && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("run %d: got error %v, want %q", i, err, want)
		}
	}
}

// Where a checkpoint cannot be written the run ends with an error that says where, and the older
// checkpoint stays.
func TestCheckpointThatCannotBeWritten(t *testing.T) {
	for _, test := range []struct {
		name  string
		block string // gets in the way
		want  string
	}{
		{"a file in the folder's place", "step-00000006", "step-00000006"},
		{"a folder in the store's place", "step-00000006/store.safetensors/x", "store.safetensors"},
		{"a folder in the worker's place", "step-00000006/worker-0.safetensors/x", "worker-0.safetensors"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			r := newFitRig(t, false)
			r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 3, Failures: 1}
			path := filepath.Join(dir, test.block)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			write(t, path, nil)
			_, err := worker.Fit(t.Context(), r.cfg)
			if err == nil || !strings.Contains(err.Error(), "checkpoint at step 6") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Fit: got error %v, want one with step 6 and %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "step-00000003", "complete.json")); err != nil {
				t.Errorf("the checkpoint before it: %v", err)
			}
		})
	}
}

func TestCheckpointConfigNamesWhatItRefuses(t *testing.T) {
	for field, cfg := range map[string]worker.CheckpointConfig{
		"EverySteps": {EverySteps: -1}, "EveryEpochs": {EveryEpochs: -1}, "Keep": {Keep: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field+" is -1") {
			t.Errorf("%+v: got error %v, want one that names %s", cfg, err, field)
		}
	}
}

// What a crash left of a checkpoint goes when a later one is complete; what is not a checkpoint
// stays.
func TestLeftoversOfCrashesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for path, stays := range map[string]bool{
		"step-00000002/worker-0.safetensors": false, "step-00000099/worker-0.safetensors": true,
		"step-2/notes": true, "curves/step-00000001": true, "step-00000004": true,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		write(t, path, nil)
		defer func() {
			if _, err := os.Stat(path); (err == nil) != stays {
				t.Errorf("%s: got error %v, want it to stay: %v", path, err, stays)
			}
		}()
	}
	r := newFitRig(t, false)
	r.cfg.Checkpoint.Dir = dir
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
}

package worker_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// frozenValues are what stays as it is on the first device, one behind the other.
func frozenValues(program *nn.Program) (all []float32) {
	for _, p := range program.Frozen() {
		all = append(all, p.Value...)
	}
	return all
}

// Whatever the optimizer and its weight decay, wherever it runs, frozen parameters and statistics
// keep the bits of rank 0's first values on all workers, devices and servers; the rest learns.
func TestWhatIsFrozenKeepsItsBits(t *testing.T) {
	cases := map[string]rigConfig{
		"update on the workers": {onWorker: true},
		"local steps":           {local: 3},
		"two devices":           {devices: 2},
		"compressed":            {compression: kvstore.Compression{Type: "2bit", Threshold: 0.5}},
	}
	names := []string{"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "lars", "lamb"}
	if !slow() { // by momentum, by squares, decoupled, and by norms of layers
		names = []string{"nag", "adamw", "lamb"}
	}
	for _, name := range names {
		cases[name] = rigConfig{optimizer: optim.Config{Name: name, LearningRate: 0.01, WeightDecay: 0.1}}
	}
	cases["ftrl"] = rigConfig{optimizer: optim.Config{Name: "ftrl", LearningRate: 0.1, L1: 0.001}}
	for name, cfg := range cases {
		t.Run(name, func(t *testing.T) {
			cfg.freeze = []string{"conv.*", "bn.*"}
			fresh := newRig(t, rigConfig{freeze: cfg.freeze})
			first, head := frozenValues(fresh.programs[0]), fresh.params()
			dir := t.TempDir()
			rigs, _, errs := fitJob(t, "dist_sync", 3, cfg, func(_ int, c *worker.FitConfig) {
				c.Checkpoint, c.Epochs = worker.CheckpointConfig{Dir: dir}, 2
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for rank, r := range rigs {
				for d, program := range r.programs {
					if got := frozenValues(program); !slices.Equal(got, first) {
						t.Errorf("rank %d device %d: frozen values are %v, want %v", rank, d, got, first)
					}
				}
			}
			if slices.Equal(rigs[0].params(), head) {
				t.Error("the head is as it was, want it trained")
			}
			to := filepath.Join(t.TempDir(), "model.safetensors")
			if _, err := checkpoint.Export(t.Context(), dir, to); err != nil {
				t.Fatal(err)
			}
			list, values := exported(t, to)
			if list != stateDict {
				t.Errorf("export has %s, want %s", list, stateDict)
			}
			var all []float32
			for _, p := range rigs[0].programs[0].Frozen() {
				all = append(all, values[p.Name]...)
			}
			if !slices.Equal(all, first) {
				t.Errorf("on the servers frozen values are %v, want %v", all, first)
			}
		})
	}
}

// A run with frozen parameters resumes with the very bits of one that was not cut off. With other
// patterns it is another run, which is said.
func TestAFrozenRunResumes(t *testing.T) {
	cfg := rigConfig{freeze: []string{"conv.*", "bn.*"}}
	whole := newRig(t, cfg)
	if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first := newRig(t, cfg)
	first.cfg.Checkpoint, first.cfg.MaxSteps = worker.CheckpointConfig{Dir: dir}, 8
	if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, cfg)
	for _, p := range second.programs[0].Frozen() { // the checkpoint's values count
		p.Value[0] += 0.5
	}
	second.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	if _, err := worker.Fit(t.Context(), second.cfg); err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(append(second.values(), frozenValues(second.programs[0])...), append(whole.values(), frozenValues(whole.programs[0])...)); i >= 0 {
		t.Errorf("value %d differs from that of the uncut run", i)
	}
	for _, freeze := range [][]string{nil, {"conv.*"}, {"conv.*", "bn.*", "fc.bias"}} {
		other := newRig(t, rigConfig{freeze: freeze})
		other.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
		if _, err := worker.Fit(t.Context(), other.cfg); err == nil || !strings.Contains(err.Error(), "ImportPart") {
			t.Errorf("resume with Freeze %q: got error %v, want one that says what to do", freeze, err)
		}
	}
}

// A worker that joins gets the frozen values of the job, not its own.
func TestAJoinerGetsWhatIsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 60, batch: 3, epochs: 2, parameters: 3, freeze: []string{"w1"},
			prepare: func(w *elasticWorker) {
				for i := range w.program.Frozen()[0].Value {
					w.program.Frozen()[0].Value[i] = float32(1 + w.number)
				}
			},
			at: func(j *elasticJob, w *elasticWorker, n int) {
				if w.number == 0 && n == 3 {
					j.start(2, true)
				}
			}})
		j.wantEnds(nil)
		j.wantOnce()
		j.wantValues()
		for _, w := range j.workers {
			wantAll(t, "w1", w.program.Frozen()[0].Value, 1)
		}
	})
}

func TestTheTableOfAnImportSaysWhatWasLeftOut(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, rigConfig{filters: 3})
	r.cfg.Checkpoint, r.cfg.MaxSteps = worker.CheckpointConfig{Dir: dir}, 1
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	loss, _ := rigNetwork(4)
	program := compile(t, loss, nn.Config{Freeze: []string{"bn.*"}})
	done, err := worker.ImportPart(t.Context(), program, dir, checkpoint.ImportConfig{Skip: []string{"fc.weight", "conv.*"}, IgnoreMismatched: true})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := worker.WriteImported(&b, done, program); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"loaded from the file", "skipped: as they were", "conv.weight, fc.weight", "bn.weight ([4], in the file [3])", "frozen: not trained"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

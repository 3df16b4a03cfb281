package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/worker"
)

// stateDict is what the network of a rig has, by PyTorch's names and with its shapes.
const stateDict = "bn.bias [4] bn.num_batches_tracked [] bn.running_mean [4] bn.running_var [4] bn.weight [4] " +
	"conv.weight [4 1 3 3] fc.bias [2] fc.weight [2 64]"

// exported reads an exported file.
func exported(t *testing.T, path string) (list string, values map[string][]float32) {
	t.Helper()
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values = map[string][]float32{}
	var all []string
	for _, info := range f.Tensors() {
		all = append(all, fmt.Sprint(info.Name, " ", info.Shape))
		if info.DType == checkpoint.I64 {
			n := make([]int64, 1)
			if err := f.ReadInt64s(info.Name, n); err != nil {
				t.Error(err)
			}
			values[info.Name] = []float32{float32(n[0])}
			continue
		}
		v := make([]float32, info.Bytes/4)
		if err := f.ReadFloat32s(info.Name, v); err != nil {
			t.Error(err)
		}
		values[info.Name] = v
	}
	if got := f.Metadata()["format"]; got != "pt" {
		t.Errorf("format: got %q, want pt", got)
	}
	slices.Sort(all)
	return strings.Join(all, " "), values
}

// Whoever updates the parameters, the export of a checkpoint is the model as it was then, and its
// import a program with the same values.
func TestExportIsTheModel(t *testing.T) {
	for name, cfg := range map[string]rigConfig{"workers": {onWorker: true}, "local steps": {local: 3}, "two devices": {devices: 2}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newRig(t, cfg)
			r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir}
			if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "model.safetensors")
			e, err := checkpoint.Export(t.Context(), dir, to)
			if err != nil {
				t.Fatal(err)
			}
			if e.Steps != 24 || e.Tensors != 8 || !e.Verified || e.Flat || !strings.HasSuffix(e.From, "step-00000024") {
				t.Errorf("got %+v", e)
			}
			list, values := exported(t, to)
			if list != stateDict || values["bn.num_batches_tracked"][0] != 24 {
				t.Errorf("got %s with %v batches, want %s with 24", list, values["bn.num_batches_tracked"], stateDict)
			}
			first := r.programs[0]
			for _, p := range append(slices.Clone(first.Params()), first.State()...) {
				if !slices.Equal(values[p.Name], p.Value) {
					t.Errorf("%s: got %v, want %v", p.Name, values[p.Name], p.Value)
				}
			}
			again := newRig(t, rigConfig{})
			unused, err := worker.ImportModel(t.Context(), again.programs[0], to)
			if err != nil || len(unused) != 0 {
				t.Fatalf("import: %v, unused %q", err, unused)
			}
			for i, p := range again.programs[0].Params() {
				if !slices.Equal(p.Value, first.Params()[i].Value) {
					t.Errorf("import: %s differs", p.Name)
				}
			}
		})
	}
}

// In the middle of an epoch each worker has statistics of its own: the export has their mean, and
// one of an older checkpoint by its folder.
func TestExportAveragesStatistics(t *testing.T) {
	dir := t.TempDir()
	_, _, errs := fitJob(t, "dist_sync", 2, rigConfig{}, func(_ int, c *worker.FitConfig) {
		c.MaxSteps, c.Checkpoint = 3, worker.CheckpointConfig{Dir: dir, EverySteps: 2}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := checkpoint.Export(t.Context(), filepath.Join(dir, "step-00000002")+"/", to); err != nil {
		t.Fatal(err)
	}
	_, values := exported(t, to)
	own := make([][]float32, 2)
	for rank := range own {
		f, err := checkpoint.Open(filepath.Join(dir, "step-00000002", checkpoint.WorkerFile(rank)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		own[rank] = make([]float32, 4)
		if err := f.ReadFloat32s("device0/bn.running_mean", own[rank]); err != nil {
			t.Fatal(err)
		}
	}
	for i, got := range values["bn.running_mean"] {
		if want := float32((float64(own[0][i]) + float64(own[1][i])) / 2); got != want {
			t.Errorf("mean of channel %d: got %v, want %v of %v and %v", i, got, want, own[0][i], own[1][i])
		}
	}
	if slices.Equal(own[0], own[1]) {
		t.Errorf("both workers have %v, want statistics of their own", own[0])
	}
}

// A damaged checkpoint is not exported, nor imported.
func TestExportVerifies(t *testing.T) {
	dir, _ := threeCheckpoints(t)
	to := filepath.Join(t.TempDir(), "model.safetensors")
	path := filepath.Join(dir, "step-00000024", "store.safetensors")
	content := contentOf(t, path)
	at := bytes.Index(content, []byte("conv.weight")) + 4000
	content[at] ^= 1
	write(t, path, content)
	_, err := checkpoint.Export(t.Context(), dir, to)
	if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "an older checkpoint is") || !strings.Contains(err.Error(), "step-00000016") {
		t.Errorf("got error %v, want one that names the older checkpoint", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got a file (%v), want none", err)
	}
	r := newFitRig(t, false)
	before := r.values()
	if _, err := worker.ImportModel(t.Context(), r.programs[0], path); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("import: got error %v", err)
	}
	if i := firstDifference(r.values(), before); i >= 0 {
		t.Errorf("import: value %d has changed", i)
	}
	if _, err := checkpoint.Export(t.Context(), filepath.Join(dir, "step-00000016"), to); err != nil {
		t.Error(err)
	}
}

// An export of the version before has no shapes, and says so.
func TestExportOfAnOlderVersionSaysThatItIsFlat(t *testing.T) {
	dir, _ := threeCheckpoints(t)
	path := filepath.Join(dir, "step-00000024", "store.safetensors")
	asBefore(t, path)
	to := filepath.Join(t.TempDir(), "model.safetensors")
	e, err := checkpoint.Export(t.Context(), path, to)
	if err != nil || !e.Flat || e.Verified {
		t.Fatalf("got %+v (%v), want flat and not verified", e, err)
	}
	if list, _ := exported(t, to); !strings.Contains(list, "conv.weight [36]") || !strings.Contains(list, "bn.running_mean [4]") {
		t.Errorf("got %s", list)
	}
	r := newFitRig(t, false)
	if _, err := worker.ImportModel(t.Context(), r.programs[0], path); err != nil { // by the number of values
		t.Error(err)
	}
}

// In the middle of a round of local steps the model is what the workers agreed on last, not the
// copy of one of them.
func TestExportInTheMiddleOfLocalSteps(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, rigConfig{local: 3})
	r.cfg.MaxSteps, r.cfg.Checkpoint = 6, worker.CheckpointConfig{Dir: dir, EverySteps: 5}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := checkpoint.Export(t.Context(), filepath.Join(dir, "step-00000005"), to); err != nil {
		t.Fatal(err)
	}
	_, values := exported(t, to)
	read := func(file, tensor string) []float32 {
		f, err := checkpoint.Open(filepath.Join(dir, "step-00000005", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		v := make([]float32, 36)
		if err := f.ReadFloat32s(tensor, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	store, own := read("store.safetensors", "conv.weight"), read("worker-0.safetensors", "param/conv.weight")
	if !slices.Equal(values["conv.weight"], store) || slices.Equal(own, store) {
		t.Errorf("conv.weight: got %v, want the store's %v, not the worker's %v", values["conv.weight"], store, own)
	}
}

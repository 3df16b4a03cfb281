package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
)

// A file of the store becomes a state dict: shapes as told, statistics beside the parameters,
// nothing of the optimizer or of the workers' own keys.
func TestCtlExportWritesAStateDict(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	from, to := filepath.Join(t.TempDir(), "store.safetensors"), filepath.Join(t.TempDir(), "model.safetensors")
	for _, err := range []error{
		kv.Init(t.Context(), "conv.weight", make([]float32, 18)), kv.SetShape("conv.weight", 2, 1, 3, 3), kv.InitRows(t.Context(), "table.weight", 3, 2, nil),
		kv.InitAverage(t.Context(), "bn.running_mean", make([]float32, 2)), kv.InitAverage(t.Context(), "paragon/agreed", make([]float32, 2)),
		kv.InitTable(t.Context(), "words", kvstore.Table{RowLen: 2}), kv.Push(t.Context(), "conv.weight", make([]float32, 18)), kv.Save(t.Context(), from),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, stderr := runCtl("export", from, to)
	if code != 0 || !strings.Contains(out, "wrote 4 tensors") || !strings.Contains(stderr, "left out, because PyTorch has no open vocabularies: words") {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	f, err := checkpoint.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, dims := range map[string]int{"conv.weight": 4, "table.weight": 2, "bn.running_mean": 1, "bn.num_batches_tracked": 0} {
		if info, err := f.Tensor(name); err != nil || len(info.Shape) != dims {
			t.Errorf("%s: got the shape %v (%v), want %d dimensions", name, info.Shape, err, dims)
		}
	}
	for text, args := range map[string][]string{"want a checkpoint and a file .safetensors": {from}, "a file .safetensors, or a folder with --format hf:": {from, "model.pth"}} {
		if code, _, stderr := runCtl(append([]string{"export"}, args...)...); code != 2 || !strings.Contains(stderr, text) {
			t.Errorf("%q: exit code %d: %s, want 2 with %q", args, code, stderr, text)
		}
	}
	if code, _, stderr := runCtl("export", filepath.Join(t.TempDir(), "none"), to); code != 1 || !strings.Contains(stderr, "no complete checkpoint") {
		t.Errorf("no checkpoint: exit code %d: %s", code, stderr)
	}
}

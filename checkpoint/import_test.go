package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
)

// pretrained writes a model of another head, whose names begin with prefix.
func pretrained(t *testing.T, prefix string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	err := checkpoint.Save(path, nil, []checkpoint.Tensor{
		checkpoint.Float32s(prefix+"conv.weight", []int{2, 1}, []float32{1, 2}),
		checkpoint.Float32s(prefix+"bn.running_mean", []int{2}, []float32{3, 4}),
		checkpoint.Int64s(prefix+"bn.num_batches_tracked", nil, []int64{7}),
		checkpoint.Float32s(prefix+"fc.weight", []int{3}, []float32{5, 6, 7}),
		checkpoint.Float32s(prefix+"pooler.weight", []int{1}, []float32{8}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// model is what it goes into.
func model() []checkpoint.Array {
	return []checkpoint.Array{
		{Name: "conv.weight", Shape: []int{2, 1}, Values: []float32{-1, -1}},
		{Name: "bn.running_mean", Shape: []int{2}, Values: []float32{-1, -1}},
		{Name: "fc.weight", Shape: []int{2}, Values: []float32{-1, -1}},
		{Name: "fc.bias", Shape: []int{1}, Values: []float32{-1}},
	}
}

func TestImportTakesAPartOfAModel(t *testing.T) {
	for name, c := range map[string]struct {
		prefix string
		cfg    checkpoint.ImportConfig
	}{
		"skip":       {"", checkpoint.ImportConfig{Skip: []string{"fc.*"}}},
		"mismatched": {"", checkpoint.ImportConfig{Skip: []string{"fc.bias"}, IgnoreMismatched: true}},
		"rename":     {"backbone.", checkpoint.ImportConfig{Skip: []string{"fc.*"}, Rename: []string{"backbone.*=*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			into := model()
			got, err := checkpoint.ImportPart(t.Context(), pretrained(t, c.prefix), into, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"conv.weight", "bn.running_mean"}; !slices.Equal(got.Loaded, want) {
				t.Errorf("loaded: got %q, want %q", got.Loaded, want)
			}
			if want := []string{"pooler.weight"}; !slices.Equal(got.Unused, want) {
				t.Errorf("unused: got %q, want %q", got.Unused, want)
			}
			if kept := len(got.Skipped) + len(got.Mismatched); kept != 2 {
				t.Errorf("kept: got %q and %v, want the two arrays of fc", got.Skipped, got.Mismatched)
			}
			for i, want := range [][]float32{{1, 2}, {3, 4}, {-1, -1}, {-1}} {
				if !slices.Equal(into[i].Values, want) {
					t.Errorf("%s: got %v, want %v", into[i].Name, into[i].Values, want)
				}
			}
		})
	}
}

// An error names what does not fit, and what to do; nothing has changed then.
func TestImportOfAPartSaysWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		cfg  checkpoint.ImportConfig
		want []string
	}{
		{checkpoint.ImportConfig{}, []string{`"fc.bias"`, "the file lacks 1 array of the model", "pooler.weight", "ImportConfig.Skip"}},
		{checkpoint.ImportConfig{Skip: []string{"fc.bias"}}, []string{`"fc.weight": got shape [3], want [2]`, "ImportConfig.IgnoreMismatched"}},
		{checkpoint.ImportConfig{Skip: []string{"head.*"}}, []string{`"head.*" matches no name`, "conv.weight"}},
		{checkpoint.ImportConfig{Skip: []string{"["}}, []string{"ImportConfig.Skip[0]"}},
		{checkpoint.ImportConfig{Rename: []string{"backbone.*=*"}}, []string{`"backbone.*=*" changes no name`, "bn.running_mean"}},
		{checkpoint.ImportConfig{Rename: []string{"*.weight=w"}}, []string{`would both be "w"`}},
		{checkpoint.ImportConfig{Rename: []string{"fc"}}, []string{"ImportConfig.Rename[0]", "OLD=NEW"}},
	} {
		into := model()
		_, err := checkpoint.ImportPart(t.Context(), pretrained(t, ""), into, c.cfg)
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: got error %v, want one with %s", c.cfg, err, part)
			}
		}
		if into[0].Values[0] != -1 {
			t.Errorf("%+v: conv.weight has changed", c.cfg)
		}
	}
}

// A file of torch.save is recognised by its first bytes, whatever its name, and never read.
func TestAPickleIsAnsweredWithHowToConvertIt(t *testing.T) {
	zip := "PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x12\x00archive/data.pklFB"
	old := "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
	plain := "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s." // pickle.dumps({"a": 1})
	for _, content := range []string{zip, old, plain} {
		for _, name := range []string{"resnet18.pth", "model.pt", "pytorch_model.bin", "weights", "model.safetensors"} {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := checkpoint.Import(t.Context(), path, model())
			if !errors.Is(err, checkpoint.ErrPickle) || !strings.Contains(err.Error(), "import torch, safetensors.torch") || !strings.Contains(err.Error(), "weights_only=True") {
				t.Errorf("%s with %.4q: got error %v, want how to convert it", name, content, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "model.pth")
	if err := os.WriteFile(path, []byte("neither of them"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Import(t.Context(), path, model()); !errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, checkpoint.ErrPickle) {
		t.Errorf("another file: got error %v, want ErrDamaged", err)
	}
}

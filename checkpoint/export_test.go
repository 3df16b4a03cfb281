package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A state dict as PyTorch's library writes one, with numbers of several types, comes into arrays
// whole or not at all.
func TestImportTakesAStateDictWholeOrNotAtAll(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "model.safetensors")
	err := os.WriteFile(path, raw(`{"__metadata__":{"format":"pt"},"bn.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]},`+
		`"w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},`+
		`"b":{"dtype":"BF16","shape":[1],"data_offsets":[20,22]},"f8":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[22,23]}}`,
		"\x07\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x80\x3f\x00\x00\x00\xc0"+"\x00\x3c\x00\xc0"+"\x40\x40"+"\x00"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	array := func(name string, shape ...int) Array {
		n, _ := elements(shape)
		return Array{name, shape, make([]float32, n)}
	}
	w, h, b := array("w", 1, 2), array("h", 2), array("b", 1)
	unused, err := Import(ctx, path, []Array{w, h, b})
	if got := fmt.Sprint(w.Values, h.Values, b.Values, unused); err != nil || got != "[1 -2] [1 -2] [3] [f8]" {
		t.Errorf("got %s (%v), want [1 -2] [1 -2] [3] [f8]", got, err)
	}
	for text, other := range map[string]Array{
		`"v": no such tensor`:               array("v", 1),
		`"h": got shape [2], want [2 1]`:    array("h", 2, 1),
		`"h": got shape [2], want [3]`:      array("h", 3),
		`tensor "f8": got type F8_E4M3`:     array("f8", 1),
		`bn.num_batches_tracked": got type`: array("bn.num_batches_tracked"),
	} {
		w := array("w", 1, 2)
		if _, err := Import(ctx, path, []Array{w, other}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got error %v, want one with %s", err, text)
		}
		if w.Values[0] != 0 {
			t.Errorf("%s: w has changed", text)
		}
	}
}

func TestExportNamesWhatItCannotRead(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	for text, from := range map[string]string{
		"no such file":              filepath.Join(dir, "none.safetensors"),
		"no complete checkpoint":    dir,
		"no complete checkpoint th": filepath.Join(dir, "step-00000007"),
	} {
		if _, err := Export(ctx, from, filepath.Join(dir, "out.safetensors")); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("export %s: got error %v, want one with %q", from, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out.safetensors")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got an output (%v), want none", err)
	}
}

// What a file says of its keys may be anything.
func FuzzExport(f *testing.F) {
	f.Add(`[{"name":"w","form":"dense","round":3},{"name":"bn.running_mean","form":"dense","average":true},{"name":"open","form":"open"}]`)
	f.Add(`[{"name":"state/bn.running_mean","average":true},{"name":"paragon/x"}]`)
	f.Fuzz(func(t *testing.T, keys string) {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "a.safetensors"), filepath.Join(dir, "b.safetensors")
		two := []float32{1, 2}
		if err := Save(from, map[string]string{StoreKeys: keys}, []Tensor{Float32s("w", []int{2, 1}, two), Float32s("bn.running_mean", []int{2}, two)}); err != nil {
			t.Skip(err) // not UTF-8
		}
		e, err := Export(context.Background(), from, to)
		if err != nil {
			return
		}
		out, err := Open(to)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if len(out.Tensors()) != e.Tensors || e.Tensors > 3 {
			t.Errorf("got %d tensors, want the %d that it told", len(out.Tensors()), e.Tensors)
		}
	})
}

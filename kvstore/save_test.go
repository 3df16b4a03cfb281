package kvstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// local returns a store within the process, with an optimizer if its name is not empty, and a key
// "x" of so many values of 1.
func local(t *testing.T, optimizer string, size int) kvstore.Store {
	t.Helper()
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	if optimizer != "" {
		if err := kv.SetOptimizer(t.Context(), optim.Config{Name: optimizer, LearningRate: 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	value := make([]float32, size)
	for i := range value {
		value[i] = 1
	}
	if err := kv.Init(t.Context(), "x", value); err != nil {
		t.Fatal(err)
	}
	return kv
}

// Other tools find each key under its name, and the optimizer's state beside it.
func TestSaveWritesTensorsByName(t *testing.T) {
	kv, file := local(t, "adam", 3), filepath.Join(t.TempDir(), "x.safetensors")
	must(kv.InitRows(t.Context(), "rows", 4, 2, nil))
	must(kv.Push(t.Context(), "x", []float32{1, 2, 3}))
	if err := kv.Save(t.Context(), "file://"+file); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, x := range f.Tensors() {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "rows rows/mean rows/variance x x/mean x/variance" {
		t.Errorf("got tensors %s", got)
	}
	mean := make([]float32, 3)
	if err := f.ReadFloat32s("x/mean", mean); err != nil || mean[2] < 0.29 || mean[2] > 0.31 {
		t.Errorf("x/mean: got %v and error %v, want 0.3 at the end", mean, err)
	}
	if x, err := f.Tensor("rows"); err != nil || len(x.Shape) != 2 || x.Shape[0] != 4 || x.Shape[1] != 2 {
		t.Errorf("rows: got %+v and error %v, want the shape [4 2]", x, err)
	}
	if cfg := f.Metadata()["paragon.optimizer"]; !strings.Contains(cfg, "adam") {
		t.Errorf("metadata: got optimizer %q", cfg)
	}
}

// What was saved without an optimizer goes on under one as if it had just been set.
func TestLoadOfBareParametersBeginsTheOptimizersState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	bare := local(t, "", 3)
	must(bare.Push(t.Context(), "x", []float32{4, 5, 6}))
	must(bare.Save(t.Context(), file))
	kv := local(t, "adagrad", 3)
	must(kv.Push(t.Context(), "x", []float32{9, 9, 9})) // is forgotten
	if err := kv.Load(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, 3)
	must(kv.PushPull(t.Context(), "x", [][]float32{{1, 1, 1}}, [][]float32{out}))
	for i, want := range []float32{3.5, 4.5, 5.5} { // the first step of adagrad is the learning rate
		if d := out[i] - want; d > 1e-5 || d < -1e-5 {
			t.Errorf("value %d: got %v, want %v", i, out[i], want)
		}
	}
}

func TestLoadRefusesWhatDoesNotFit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	must(local(t, "adam", 3).Save(t.Context(), file))
	err := local(t, "", 4).Load(t.Context(), file)
	if !errors.Is(err, kvstore.ErrSize) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("another size: got error %v, want %v that names the key", err, kvstore.ErrSize)
	}
	err = local(t, "adagrad", 3).Load(t.Context(), file)
	if !errors.Is(err, kvstore.ErrConflict) || !strings.Contains(err.Error(), "adagrad") {
		t.Errorf("another optimizer: got error %v, want %v that names it", err, kvstore.ErrConflict)
	}
	kv := local(t, "adam", 3)
	must(kv.Init(t.Context(), "x/mean", make([]float32, 3)))
	if err := kv.Save(t.Context(), file); err == nil || !strings.Contains(err.Error(), "x/mean") {
		t.Errorf("a key named like a slot: got error %v, want one that names it", err)
	}
}

// Local devices send 16 bits each; the sum is exact for these numbers.
func TestDevicesCompressTo16Bits(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "device")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	must(kv.Init(t.Context(), "x", make([]float32, 2)))
	for _, kind := range []string{"fp16", "bf16"} {
		must(kv.SetCompression(t.Context(), kvstore.Compression{Type: kind, Pull: kind}))
		out := make([]float32, 2)
		must(kv.PushPull(t.Context(), "x", [][]float32{{1, 2}, {0.5, 1 + 1e-6}}, [][]float32{out}))
		if out[0] != 1.5 || out[1] != 3 {
			t.Errorf("%s: got %v, want [1.5 3]", kind, out)
		}
	}
}

func TestSaveNamesTheURIsItCannotWrite(t *testing.T) {
	kv, dir := local(t, "", 1), t.TempDir()
	for _, test := range []struct{ uri, want string }{
		{"", "no path"},
		{"s3://bucket/x", `scheme "s3"`},
		{"file://elsewhere/x", `host "elsewhere"`},
		{"file://" + dir + "/x#1", "%23"},
		{"file://" + dir + "/x?a", "%3F"},
	} {
		if err := kv.Save(t.Context(), test.uri); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("save to %q: got error %v, want one with %q", test.uri, err, test.want)
		}
	}
	if err := kv.Save(t.Context(), filepath.Join(dir, "plain#path?")); err != nil {
		t.Errorf("save to a plain path with # and ?: %v", err)
	}
}

// Files have the shapes that the program told, also of the optimizer's state, and they come back
// with the file.
func TestSaveKeepsShapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	kv := local(t, "adam", 24)
	must(kv.SetShape("x", 24)) // says nothing, before and after
	must(kv.SetShape("x", 2, 3, 4))
	must(kv.SetShape("x", 24))
	must(kv.Init(t.Context(), "number", []float32{1}))
	must(kv.SetShape("number"))
	must(kv.Save(t.Context(), file))
	wantShapes(t, file, map[string]string{"x": "[2 3 4]", "x/mean": "[2 3 4]", "number": "[]", "number/variance": "[]"})

	again := local(t, "adam", 24) // which tells no shape that says more
	must(again.SetShape("x", 24))
	must(again.Load(t.Context(), file))
	must(again.Save(t.Context(), file))
	wantShapes(t, file, map[string]string{"x": "[2 3 4]", "x/variance": "[2 3 4]", "number": "[]"})

	other := local(t, "adam", 24)
	must(other.SetShape("x", 4, 6))
	if err := other.Load(t.Context(), file); !errors.Is(err, kvstore.ErrSize) || !strings.Contains(err.Error(), "[2 3 4]") || !strings.Contains(err.Error(), "[4 6]") {
		t.Errorf("load into another shape: got error %v, want one with both", err)
	}
	loaded, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	must(loaded.Load(t.Context(), file))
	must(loaded.Init(t.Context(), "x", make([]float32, 24)))
	if err := loaded.SetShape("x", 6, 4); !errors.Is(err, kvstore.ErrSize) {
		t.Errorf("another shape than the file's: got error %v", err)
	}
}

func wantShapes(t *testing.T, file string, want map[string]string) {
	t.Helper()
	f, err := checkpoint.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, shape := range want {
		if info, err := f.Tensor(name); err != nil || fmt.Sprint(info.Shape) != shape {
			t.Errorf("%s: got the shape %v (%v), want %s", name, info.Shape, err, shape)
		}
	}
}

// What the metadata of a file says of keys may be anything.
func FuzzDeclarations(f *testing.F) {
	f.Add("2", `[{"name":"x","form":"dense","size":6,"shape":[2,3],"round":1,"slots":["mean"]}]`, `{"name":"adam"}`)
	f.Add("1", `[{"name":"x","form":"rows","size":6,"row_length":3,"table":"{}"},{"name":"o","form":"open","row_length":2,"size":2}]`, "")
	f.Add("2", `[{"name":"x","form":"dense","size":18446744073709551615,"shape":[4294967296,4294967296]}]`, "")
	f.Fuzz(func(t *testing.T, layout, keys, optimizer string) {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		six := []float32{1, 2, 3, 4, 5, 6}
		err := checkpoint.Save(path, map[string]string{"paragon.store": layout, "paragon.keys": keys, "paragon.optimizer": optimizer}, []checkpoint.Tensor{
			checkpoint.Float32s("x", []int{2, 3}, six), checkpoint.Float32s("x/mean", []int{2, 3}, six), checkpoint.Float32s("o", []int{1, 2}, six[:2]),
			checkpoint.Int64s("o/ids", []int{1}, []int64{7}),
		})
		if err != nil {
			t.Skip(err) // not UTF-8
		}
		declared, err := kvstore.Declarations(path)
		if err != nil {
			return
		}
		for _, d := range declared {
			if d.Size > 6 || d.Name == "" {
				t.Errorf("got %+v of a file with 6 values", d)
			}
		}
	})
}

// A load finds the damage of the last key before it has changed the first.
func TestLoadOfADamagedFileChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	kv := local(t, "adam", 3)
	must(kv.Init(t.Context(), "z", make([]float32, 5)))
	must(kv.Save(t.Context(), file))
	content, err := os.ReadFile(file)
	must(err)
	content[len(content)-1] ^= 0x80 // of z/variance
	must(os.WriteFile(file, content, 0o666))
	must(kv.Push(t.Context(), "x", []float32{1, 2, 3}))
	before, after := make([]float32, 3), make([]float32, 3)
	must(kv.Pull(t.Context(), "x", before))
	if err := kv.Load(t.Context(), file); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), `x.safetensors: tensor "z/variance"`) {
		t.Errorf("got error %v, want %v that names file and tensor", err, checkpoint.ErrDamaged)
	}
	must(kv.Pull(t.Context(), "x", after))
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("x: got %v, want %v as before", after, before)
	}
}

// A file that somebody else wrote may have keys of any name: an error shows the beginning of a long
// one.
func TestErrorsShowTheBeginningOfALongKey(t *testing.T) {
	long := strings.Repeat("k", 1000)
	file := filepath.Join(t.TempDir(), "x.safetensors")
	saved := local(t, "adam", 3)
	must(saved.Init(t.Context(), long, make([]float32, 5)))
	must(saved.Save(t.Context(), file))
	other := local(t, "adam", 3)
	must(other.Init(t.Context(), long, make([]float32, 6)))
	err := other.Load(t.Context(), file)
	if err == nil || strings.Contains(err.Error(), long) || !strings.Contains(err.Error(), "kkk\"... (1000 bytes)") {
		t.Errorf("got %v, want an error with the beginning of the key", err)
	}
}

// A file whose velocities do not hold the learning rate is not for an optimizer whose velocities
// do, and the other way round.
func TestLoadRefusesVelocitiesOfAnotherKind(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "x.safetensors")
	of := func(velocity string) kvstore.Store {
		kv := local(t, "", 1)
		err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.5, Momentum: 0.9, Velocity: velocity})
		if err := errors.Join(err, kv.Init(ctx, "w", []float32{1})); err != nil {
			t.Fatal(err)
		}
		return kv
	}
	for _, saved := range []string{"", optim.Gradients} {
		if err := of(saved).Save(ctx, file); err != nil {
			t.Fatal(err)
		}
		for _, velocity := range []string{"", optim.Gradients} {
			err := of(velocity).Load(ctx, file)
			switch {
			case velocity == saved && err != nil:
				t.Errorf("of %q into %q: %v", saved, velocity, err)
			case velocity != saved && (!errors.Is(err, kvstore.ErrConflict) || !strings.Contains(err.Error(), "Velocity")):
				t.Errorf("of %q into %q: got error %v, want %v that names Velocity", saved, velocity, err, kvstore.ErrConflict)
			}
		}
	}
}

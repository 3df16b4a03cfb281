package indexfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/objects"
	"github.com/paragon-train/paragon/internal/objects/objectstest"
)

var shard = objects.Info{Name: "train/a.tar", Size: 1000, Version: "v1"}

func TestAnIndexIsFoundAgain(t *testing.T) {
	store, other := objectstest.New(nil), objectstest.New(nil)
	other.Address = "memory://other"
	for _, f := range []Folder{{Path: t.TempDir()}, {Path: filepath.Join(t.TempDir(), "made"), Shared: true}} {
		for _, index := range [][]byte{{}, []byte("first"), []byte("another one")} {
			if err := f.Save(store, shard, "tar", index); err != nil {
				t.Fatal(err)
			}
			if got, ok := f.Load(store, shard, "tar"); !ok || !bytes.Equal(got, index) {
				t.Errorf("shared %t: got %q, %t, want %q", f.Shared, got, ok, index)
			}
		}
		if _, ok := f.Load(other, shard, "tar"); ok == f.Shared {
			t.Errorf("shared %t: a store elsewhere has this index: %t", f.Shared, ok)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(f.File(store, shard, "tar")), ".*")); err != nil || len(left) > 0 {
			t.Errorf("files are left: %q, %v", left, err)
		}
	}
	if got, want := (Folder{Path: "/data"}).File(store, shard, "tar"), filepath.FromSlash("/data/train/a.tar.index"); got != want {
		t.Errorf("the index is %s, want %s", got, want)
	}
}

func TestAnIndexOfAnotherStateIsNone(t *testing.T) {
	store, f := objectstest.New(nil), Folder{Path: t.TempDir()}
	if _, ok := f.Load(store, shard, "tar"); ok {
		t.Error("an index is there before it was kept")
	}
	if err := f.Save(store, shard, "tar", []byte("index")); err != nil {
		t.Fatal(err)
	}
	for what, changed := range map[string]objects.Info{
		"size":    {Name: shard.Name, Size: 1001, Version: "v1"},
		"version": {Name: shard.Name, Size: 1000, Version: "v2"},
		"name":    {Name: "train/b.tar", Size: 1000, Version: "v1"},
	} {
		if _, ok := f.Load(store, changed, "tar"); ok {
			t.Errorf("an index counts for a shard of another %s", what)
		}
	}
	if _, ok := f.Load(store, shard, "tfrecord"); ok {
		t.Error("an index counts for another format")
	}
	unknown := objects.Info{Name: shard.Name, Size: shard.Size}
	if err := f.Save(store, unknown, "tar", []byte("index")); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Load(store, unknown, "tar"); ok {
		t.Error("a shard of no known version has an index")
	}
	if _, ok := (Folder{}).Load(store, shard, "tar"); ok {
		t.Error("without a folder there is an index")
	}
	if err := (Folder{}).Save(store, shard, "tar", nil); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

func TestADamagedIndexIsNone(t *testing.T) {
	store, f := objectstest.New(nil), Folder{Path: t.TempDir()}
	if err := f.Save(store, shard, "tar", []byte("some index")); err != nil {
		t.Fatal(err)
	}
	name := f.File(store, shard, "tar")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, ok := f.Load(store, shard, "tar"); ok {
			t.Errorf("%s at byte %d: got %q, want none", what, at, got)
		}
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		try("flipped", i, damaged)
		try("cut", i, whole[:i])
	}
}

func TestAnIndexThatCannotBeKeptIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Folder{Path: file}).Save(objectstest.New(nil), shard, "tar", nil); err == nil {
		t.Error("an index in a folder that is a file: got no error")
	}
}

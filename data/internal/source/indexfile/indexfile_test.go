package indexfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

var shard = objects.Info{Name: "train/a.tar", Size: 1000, Version: "v1"}

// far is a place of a shard in a bucket, with a folder of caches.
func far(t *testing.T) sidecar.Place {
	return sidecar.Place{Store: objectstest.New(nil), Object: shard, CacheDir: t.TempDir()}
}

func TestAnIndexIsFoundAgain(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "train"), 0o777); err != nil {
		t.Fatal(err)
	}
	local, err := objects.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	near := sidecar.Place{Store: local, Object: shard}
	for _, place := range []sidecar.Place{far(t), near} {
		for _, index := range [][]byte{{}, []byte("first"), []byte("another one")} {
			path, err := Save(place, "tar", index)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := Load(place, "tar"); !ok || !bytes.Equal(got, index) {
				t.Errorf("%s: got %q, %t, want %q", path, got, ok, index)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "train", "a.tar.index")); err != nil {
		t.Errorf("no index is beside the shard: %v", err)
	}
}

func TestAnIndexOfAnotherStateIsNone(t *testing.T) {
	place := far(t)
	if _, ok := Load(place, "tar"); ok {
		t.Error("an index is there before it was kept")
	}
	path, err := Save(place, "tar", []byte("index"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := load(f, describe(shard, "tfrecord")); ok {
		t.Error("an index counts for another format")
	}
	for what, changed := range map[string]objects.Info{
		"size":    {Name: shard.Name, Size: 1001, Version: "v1"},
		"version": {Name: shard.Name, Size: 1000, Version: "v2"},
		"name":    {Name: "train/b.tar", Size: 1000, Version: "v1"},
	} {
		if f, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		if _, ok := load(f, describe(changed, "tar")); ok {
			t.Errorf("an index counts for a shard of another %s", what)
		}
	}
	place.Object.Version = ""
	if _, err := Save(place, "tar", nil); !errors.Is(err, ErrNoVersion) {
		t.Errorf("a shard of no known version: got %v, want %v", err, ErrNoVersion)
	}
	if _, ok := Load(place, "tar"); ok {
		t.Error("a shard of no known version has an index")
	}
	if _, err := Save(sidecar.Place{Store: place.Store, Object: shard}, "tar", nil); !errors.Is(err, sidecar.ErrNoPlace) {
		t.Errorf("without a folder: got %v, want %v", err, sidecar.ErrNoPlace)
	}
}

func TestADamagedIndexIsNone(t *testing.T) {
	place := far(t)
	name, err := Save(place, "tar", []byte("some index"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, ok := Load(place, "tar"); ok {
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

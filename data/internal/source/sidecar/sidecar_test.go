package sidecar

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// only fails the test unless a folder has these files alone.
func only(t *testing.T, dir string, want int) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != want {
		t.Errorf("%s has %d files, want %d: %v", dir, len(all), want, all)
	}
}

func TestAFileIsKeptBesideLocalData(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	store, err := objects.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := Place{Store: store, Object: objects.Info{Name: "train.rec", Size: 5}, CacheDir: cache}
	for _, content := range []string{"first", "second"} {
		path, err := p.Write("train.idx", text(content))
		if want := filepath.Join(dir, "train.idx"); err != nil || path != want {
			t.Fatalf("got %q and error %v, want %q", path, err, want)
		}
		if got := read(t, path); got != content {
			t.Errorf("the file has %q, want %q", got, content)
		}
	}
	only(t, dir, 1)
	only(t, cache, 0)
}

func TestAWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	store, err := objects.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	broken := errors.New("broken")
	_, err = Place{Store: store, Object: objects.Info{Name: "a"}}.Write("a.idx", func(w io.Writer) error {
		io.WriteString(w, "half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
	only(t, dir, 0)
}

func TestAFileOfABucketIsKeptForItsVersion(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "made", "here")
	p := Place{Store: objectstest.New(nil), Object: objects.Info{Name: "train.rec", Size: 5, Version: "v1"}, CacheDir: cache}
	if _, err := p.OpenCached("train.idx"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before writing: got error %v, want %v", err, fs.ErrNotExist)
	}
	path, err := p.Write("train.idx", text("index"))
	if err != nil || filepath.Dir(path) != cache {
		t.Fatalf("got %q and error %v, want a file in %s", path, err, cache)
	}
	f, err := p.OpenCached("train.idx")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "index" {
		t.Errorf("the file has %q (%v), want index", got, err)
	}
	p.Object.Version = "v2"
	if _, err := p.OpenCached("train.idx"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("for another version: got error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestWithoutAPlaceNothingIsWritten(t *testing.T) {
	p := Place{Store: objectstest.New(nil), Object: objects.Info{Name: "train.rec"}}
	if path, err := p.Write("train.idx", text("index")); !errors.Is(err, ErrNoPlace) {
		t.Errorf("got %q and error %v, want %v", path, err, ErrNoPlace)
	}
}

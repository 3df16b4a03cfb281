package phototrain_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/photos"
	"github.com/paragon-train/paragon/internal/testing/phototrain"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

const images, classes = 30, 5

// formats makes one set of images in each format, below a folder, and returns their places in it.
func formats(t *testing.T, root string) map[string]string {
	t.Helper()
	folder := filepath.Join(root, "folder")
	if err := photos.Make(folder, photos.Config{Images: images, Classes: classes, Seed: 1, Largest: 48}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		photos.Record(filepath.Join(root, "set.rec"), folder), photos.Tars(root, folder, 3), photos.List(filepath.Join(root, "set.lst"), folder),
		photos.MDS(root, folder, 3), photos.TFRecords(root, folder, 3),
	); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"folder": "folder/", "rec": "set.rec", "tar": "shard-{000000..000002}.tar", "list": "set.lst", "MDS": "index.json", "TFRecord": "train-{00000..00002}-of-00003",
	}
}

func local(t *testing.T) kvstore.Store {
	t.Helper()
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return kv
}

func train(t *testing.T, r phototrain.Run) string {
	t.Helper()
	r.Size, r.Classes, r.Batch, r.Epochs, r.Store = 16, classes, 8, 2, local(t)
	result, err := phototrain.Train(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", r.URL, err)
	}
	return result.Hash
}

// The same images in the same order give the same run, bit for bit, in every format, whatever the
// number of readers.
func TestARunIsTheSameInEveryFormat(t *testing.T) {
	root := t.TempDir()
	var want string
	for name, path := range formats(t, root) {
		for _, readers := range []int{1, 8} {
			got := train(t, phototrain.Run{URL: filepath.Join(root, path), Readers: readers})
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s with %d readers: the run ends with hash %s, others with %s", name, readers, got, want)
			}
		}
	}
}

// stopAfter asks a run to stop after some steps.
type stopAfter struct {
	steps int
	stop  chan struct{}
}

func (s *stopAfter) Begin(worker.Run) {}
func (s *stopAfter) Step(worker.StepInfo) {
	if s.steps--; s.steps == 0 {
		close(s.stop)
	}
}
func (s *stopAfter) Epoch(worker.EpochInfo) {}
func (s *stopAfter) End()                   {}

// A run that was stopped at any step and resumed, in another process as it were, ends with the hash
// of one that was not.
func TestAStoppedRunGoesOnInEveryFormat(t *testing.T) {
	root := t.TempDir()
	paths := formats(t, root)
	want := train(t, phototrain.Run{URL: filepath.Join(root, paths["folder"])})
	after := 2
	for name, path := range paths {
		after = 1 + (after+3)%7
		r := phototrain.Run{URL: filepath.Join(root, path), Checkpoint: worker.CheckpointConfig{Dir: t.TempDir()}}
		s := &stopAfter{after, make(chan struct{})}
		first := r
		first.Stop, first.Observers, first.Readers = s.stop, []worker.Observer{s}, 3
		first.Size, first.Classes, first.Batch, first.Epochs, first.Store = 16, classes, 8, 2, local(t)
		if _, err := phototrain.Train(t.Context(), first); !errors.Is(err, worker.ErrStopped) {
			t.Fatalf("%s: got error %v, want %v", name, err, worker.ErrStopped)
		}
		r.Checkpoint.Resume = true
		if got := train(t, r); got != want {
			t.Errorf("%s: stopped after %d steps and resumed, the run ends with hash %s, want %s", name, after, got, want)
		}
	}
}

// Each image is used once in each pass over the data, and is the one that it must be.
func TestEachImageIsUsedOnce(t *testing.T) {
	root := t.TempDir()
	paths := formats(t, root)
	run := func(path string) phototrain.Run {
		return phototrain.Run{URL: filepath.Join(root, path), Size: 16, Batch: 7, Epochs: 3, Store: local(t)}
	}
	prints, err := phototrain.Prints(t.Context(), run(paths["folder"]))
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range paths {
		for _, window := range []int{0, 2} {
			r := run(path)
			r.Window = window
			counts, err := phototrain.Count(t.Context(), r, prints)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, n := range counts {
				if n != 3 {
					t.Errorf("%s, mixed in windows of %d blocks: image %d was used %d times, want 3", name, window, i, n)
				}
			}
		}
	}
}

// A web server gives the same run, with a cache on disk that is empty and with one that is full.
func TestARunIsTheSameFromAWebServer(t *testing.T) {
	root := t.TempDir()
	paths := formats(t, root)
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	defer server.Close()
	want := train(t, phototrain.Run{URL: filepath.Join(root, paths["folder"])})
	for _, name := range []string{"rec", "tar", "list", "MDS", "TFRecord"} {
		open := data.OpenOptions{CacheDir: t.TempDir()}
		for _, cache := range []string{"cold", "warm"} {
			if got := train(t, phototrain.Run{URL: server.URL + "/" + paths[name], Open: open}); got != want {
				t.Errorf("%s with a %s cache: the run ends with hash %s, want %s", name, cache, got, want)
			}
		}
	}
}

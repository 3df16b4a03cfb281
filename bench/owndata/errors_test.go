//go:build !nobuckets

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/testing/photos"
	"github.com/paragon-train/paragon/internal/testing/phototrain"
	"github.com/paragon-train/paragon/internal/testing/s3test"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// A scene has a set of images in each format, on the disk and in a stand-in of S3.
type scene struct {
	*testing.T
	root   string
	server *s3test.Server
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t, t.TempDir(), s3test.New(t)}
	folder := s.path("folder")
	if err := photos.Make(folder, photos.Config{Images: 24, Classes: 3, Largest: 32}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(photos.Record(s.path("set.rec"), folder), photos.Tars(s.root, folder, 3), s.server.AddFolder("set", s.root)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// change replaces a file by what f makes of it.
func (s *scene) change(path string, f func(content []byte) []byte) {
	s.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(content), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) train(r phototrain.Run) error {
	s.Helper()
	kv, err := kvstore.Create(s.Context(), "local", kvstore.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		s.Fatal(err)
	}
	defer kv.Close()
	r.Size, r.Classes, r.Batch, r.Epochs, r.Store = 16, 3, 4, 3, kv
	_, err = phototrain.Train(s.Context(), r)
	return err
}

func half(content []byte) []byte { return content[:len(content)/2] }

// twice appends the label of a new sample two times to a tar file.
func twice(content []byte) []byte {
	var out bytes.Buffer

	// The blocks of its end are left out.
	out.Write(content[:len(content)-1024])
	w := tar.NewWriter(&out)
	for range 2 {
		_ = w.WriteHeader(&tar.Header{Name: "class002/again.cls", Mode: 0o644, Size: 1})
		_, _ = w.Write([]byte("1"))
	}
	_ = w.Close()
	return out.Bytes()
}

// afterStep calls f once, after the first step.
type afterStep struct{ f func() }

func (a *afterStep) Begin(worker.Run) {}
func (a *afterStep) Step(worker.StepInfo) {
	if a.f != nil {
		a.f()
		a.f = nil
	}
}
func (a *afterStep) Epoch(worker.EpochInfo) {}
func (a *afterStep) End()                   {}

// What is wrong with the data, or with the place where it lies, ends a training with an error that
// names the thing and says what is wrong with it and what to do.
func TestErrorsNameTheThing(t *testing.T) {
	const shards, image = "shard-{000000..000002}.tar", "class001/0000004.jpg"
	for _, c := range []struct {
		name string

		// is must be found by errors.Is; nil: it is none of these.
		is error

		run  func(s *scene) phototrain.Run
		says []string
	}{
		{"a truncated JPEG", nil, func(s *scene) phototrain.Run {
			s.change(s.path("folder", image), half)
			return phototrain.Run{URL: s.path("folder")}
		}, []string{image, "cut short", "BadExamples", "launch data check"}},
		{"a truncated JPEG in a .rec file", nil, func(s *scene) phototrain.Run {
			s.change(s.path("folder", image), half)
			if err := photos.Record(s.path("set.rec"), s.path("folder")); err != nil {
				s.Fatal(err)
			}
			return phototrain.Run{URL: s.path("set.rec")}
		}, []string{"set.rec, record 9 at byte", "cut short"}},
		{"a .rec file that was cut", nil, func(s *scene) phototrain.Run {
			s.change(s.path("set.rec"), half)
			return phototrain.Run{URL: s.path("set.rec")}
		}, []string{"set.idx: line", "the .rec file ends at byte", "not copied to its end"}},
		{"a .rec file that was cut, without an index", nil, func(s *scene) phototrain.Run {
			s.change(s.path("set.rec"), half)
			if err := os.Remove(s.path("set.idx")); err != nil {
				s.Fatal(err)
			}
			return phototrain.Run{URL: s.path("set.rec")}
		}, []string{"set.rec, record 12 at byte", "not copied to its end", "launch data check"}},
		{"a tar file with a key twice", nil, func(s *scene) phototrain.Run {
			s.change(s.path("shard-000001.tar"), twice)
			return phototrain.Run{URL: s.path(shards)}
		}, []string{"shard-000001.tar", "class002/again", "two members"}},
		{"a tar file that was cut", nil, func(s *scene) phototrain.Run {
			s.change(s.path("shard-000001.tar"), half)
			return phototrain.Run{URL: s.path(shards)}
		}, []string{"shard-000001.tar", "cut short"}},
		{"a file that is not there", fs.ErrNotExist, func(s *scene) phototrain.Run { return phototrain.Run{URL: s.path("none.rec")} }, []string{"none.rec"}},
		{"a folder that is not there", fs.ErrNotExist, func(s *scene) phototrain.Run { return phototrain.Run{URL: s.path("none")} }, []string{"none"}},
		{"a shard that is not there", fs.ErrNotExist, func(s *scene) phototrain.Run {
			if err := os.Remove(s.path("shard-000001.tar")); err != nil {
				s.Fatal(err)
			}
			return phototrain.Run{URL: s.path(shards)}
		}, []string{"shard-000001.tar"}},
		{"an object that is not there", fs.ErrNotExist, func(s *scene) phototrain.Run { return phototrain.Run{URL: s.server.URL("set/none.rec")} },
			[]string{"none.rec in s3://bucket/set"}},
		{"a bucket that is not there", fs.ErrNotExist, func(s *scene) phototrain.Run {
			return phototrain.Run{URL: strings.Replace(s.server.URL("set/folder"), "s3://bucket/", "s3://buckets/", 1)}
		}, []string{"s3://buckets/set/folder"}},
		{"an account that is not known", fs.ErrPermission, func(s *scene) phototrain.Run {
			s.Setenv("AWS_ACCESS_KEY_ID", "somebody")
			return phototrain.Run{URL: s.server.URL("set/set.rec")}
		}, []string{"set.rec in s3://bucket/set", "credentials", "AWS_PROFILE"}},
		{"a file that changes", objects.ErrChanged, func(s *scene) phototrain.Run {
			return phototrain.Run{URL: s.path("set.rec"), Observers: []worker.Observer{&afterStep{func() { s.change(s.path("set.rec"), bytes.ToUpper) }}}}
		}, []string{"set.rec", "changed"}},
		{"an object that changes", objects.ErrChanged, func(s *scene) phototrain.Run {
			return phototrain.Run{URL: s.server.URL("set/folder"), Observers: []worker.Observer{&afterStep{func() { s.server.Put("set/folder/"+image, []byte("another")) }}}}
		}, []string{image, "s3://bucket/set/folder", "changed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			err := s.train(c.run(s))
			t.Log(err)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got error %v, want one that is %q", err, c.is)
			}
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want one that says %q", err, want)
				}
			}
		})
	}
}

// warnings are messages of a log.
type warnings struct {
	// mu guards text.
	mu sync.Mutex

	text strings.Builder
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// A cache on a disk that is full is a warning, and no more: the run ends as one without a cache.
func TestAFullDiskOfTheCacheIsAWarning(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	if err := mountSmall(dir); err != nil {
		t.Skipf("no small file system: %v", err)
	}
	defer unmount(dir)
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 60<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	var log warnings
	r := phototrain.Run{URL: s.server.URL("set/set.rec")}
	r.Open.CacheDir, r.Open.Logger = dir, slog.New(slog.NewTextHandler(&log, nil))
	if err := s.train(r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.text.String()), "\n")
	t.Logf("%q", lines)
	full := func(line string) bool {
		return strings.Contains(line, "level=WARN") && strings.Contains(line, dir) && strings.Contains(line, "no space left on device")
	}
	if !slices.ContainsFunc(lines, full) {
		t.Errorf("got the log %q, want a warning that names %s and says that it is full", lines, dir)
	}
}

package bucket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob/fileblob"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/bucket"
)

// clouds make empty places in stand-ins of clouds, where the build has their SDKs.
var clouds = map[string]func(t *testing.T) string{}

// places are a folder, and buckets of several drivers, all empty.
func places(t *testing.T) map[string]checkpoint.Place {
	t.Helper()
	file, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	opened := func(uri string) checkpoint.Place {
		p, err := checkpoint.OpenPlace(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := map[string]checkpoint.Place{
		"folder":   checkpoint.Folder(t.TempDir()),
		"file":     opened("file://" + t.TempDir() + "/new"),
		"mem":      opened("mem://" + url.PathEscape(t.Name()) + "/a/prefix"),
		"fileblob": bucket.Of(file),
	}
	for name, empty := range clouds {
		all[name] = opened(empty(t))
	}
	for _, p := range all {
		t.Cleanup(func() { p.Close() })
	}
	return all
}

func write(p checkpoint.Place, name, text string) error {
	return p.Write(context.Background(), name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func read(t *testing.T, p checkpoint.Place, name string) string {
	t.Helper()
	r, err := p.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	size, err := r.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		t.Fatalf("%s: read %d of %d bytes: %v", name, n, size, err)
	}
	return string(b)
}

// All places promise the same.
func TestPlacesKeepFiles(t *testing.T) {
	for kind, p := range places(t) {
		t.Run(kind, func(t *testing.T) {
			if names, err := p.List(t.Context(), ""); err != nil || len(names) != 0 {
				t.Errorf("an empty place: got %v and error %v", names, err)
			}
			if _, err := p.Open(t.Context(), "step-1/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open what is not there: got error %v, want %v", err, fs.ErrNotExist)
			}
			if err := p.Remove(t.Context(), "step-1/none"); err != nil {
				t.Errorf("remove what is not there: %v", err)
			}
			for _, name := range []string{"step-2/b", "step-1/b", "step-1/a", "other"} {
				if err := write(p, name, "of "+name); err != nil {
					t.Fatal(err)
				}
			}
			if err := write(p, "step-1/a", "again"); err != nil {
				t.Fatal(err)
			}
			if a, b := read(t, p, "step-1/a"), read(t, p, "step-2/b"); a != "again" || b != "of step-2/b" {
				t.Errorf("got %q and %q", a, b)
			}
			names, err := p.List(t.Context(), "step-")
			if want := []string{"step-1/a", "step-1/b", "step-2/b"}; err != nil || !slices.Equal(names, want) {
				t.Errorf("list: got %v and error %v, want %v", names, err, want)
			}
			if err := p.Remove(t.Context(), "step-1/b"); err != nil {
				t.Error(err)
			}
			if names, _ := p.List(t.Context(), "step-1/"); !slices.Equal(names, []string{"step-1/a"}) {
				t.Errorf("after a removal: got %v", names)
			}
		})
	}
}

// What fails or is given up in the middle of writing leaves what was there.
func TestAWriteThatFailsChangesNothing(t *testing.T) {
	for kind, p := range places(t) {
		t.Run(kind, func(t *testing.T) {
			if err := write(p, "x", "old"); err != nil {
				t.Fatal(err)
			}
			full := errors.New("full")
			half := func(end func() error) func(io.Writer) error {
				return func(w io.Writer) error {
					if _, err := io.WriteString(w, strings.Repeat("new", 100_000)); err != nil {
						return err
					}
					return end()
				}
			}
			for _, name := range []string{"x", "y"} {
				if err := p.Write(t.Context(), name, half(func() error { return full })); !errors.Is(err, full) {
					t.Errorf("write %s: got error %v, want %v", name, err, full)
				}
				ctx, cancel := context.WithCancel(t.Context())
				err := p.Write(ctx, name, half(func() error { cancel(); return ctx.Err() }))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("write %s that is given up: got error %v, want %v", name, err, context.Canceled)
				}
			}
			if got := read(t, p, "x"); got != "old" {
				t.Errorf("after writes that failed: got %.20q, want %q", got, "old")
			}
			if names, err := p.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"x"}) {
				t.Errorf("list: got %v and error %v, want x alone", names, err)
			}
		})
	}
}

// Tensors are read in any order.
func TestCheckpointsLieInPlaces(t *testing.T) {
	for kind, p := range places(t) {
		t.Run(kind, func(t *testing.T) {
			a, b := make([]float32, 300_000), []float32{1, 2}
			for i := range a {
				a[i] = float32(i)
			}
			if err := checkpoint.SaveTo(t.Context(), p, "step-1/store.safetensors", map[string]string{"of": kind}, []checkpoint.Tensor{
				checkpoint.Float32s("a", []int{len(a)}, a), checkpoint.Float32s("b", []int{2}, b),
			}); err != nil {
				t.Fatal(err)
			}
			f, err := checkpoint.OpenIn(t.Context(), p, "step-1/store.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for range 2 {
				gotA, gotB := make([]float32, len(a)), make([]float32, 2)
				if err := errors.Join(f.ReadFloat32s("b", gotB), f.ReadFloat32s("a", gotA)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(gotA, a) || !slices.Equal(gotB, b) || f.Metadata()["of"] != kind {
					t.Errorf("got other values than were saved, or metadata %v", f.Metadata())
				}
			}
		})
	}
}

// Package sourcetest has what every source of examples must do, as tests: each format calls Run
// with a Format that writes its files and opens them.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// A Format makes sources of one format.
type Format struct {
	// Files writes the examples in their order: the file's bytes by name. The images are not
	// empty, and are no real images. Each has one label, the number of its class, from 0 on,
	// which never falls from one example to the next; ClassName has its name. Names of the
	// examples are distinct and rise, and end in .jpg; a format without names leaves them out.
	Files func(examples []source.Example) map[string][]byte
	// Open opens the source of these files.
	Open func(ctx context.Context, store objects.Store) (source.Source, error)
	// Damage damages example i of the files, and no other, so that reading it is a
	// *source.BadError. Nil: the format has nothing in which damage shows.
	Damage func(files map[string][]byte, i int)
	// BytesPerExample is the most memory that an example may take in an open source whose names
	// have 30 bytes.
	BytesPerExample int
	// Sized says that the format knows the length of an example, so Range must have it.
	Sized bool
}

// ClassName is the name of the class of a label.
func ClassName(label int) string { return fmt.Sprintf("class%03d", label) }

// Examples makes n examples of at most size bytes each, in classes of ten.
func Examples(n, size int) []source.Example {
	rng := rand.New(rand.NewPCG(34, uint64(n)))
	examples := make([]source.Example, n)
	for i := range examples {
		image := make([]byte, 1+rng.IntN(size))
		for k := range image {
			image[k] = byte(rng.Uint32())
		}
		label := i / 10
		examples[i] = source.Example{Image: image, Labels: []float32{float32(label)}, Name: fmt.Sprintf("%s/image_%08d_.jpg", ClassName(label), i)}
	}
	return examples
}

// Run checks all that a source promises.
func Run(t *testing.T, f Format) {
	t.Run("examples come back in order", f.order)
	t.Run("readers at once get the same bytes", f.concurrent)
	t.Run("an index out of range is an error", f.outOfRange)
	t.Run("a context that has ended ends reading", f.canceled)
	t.Run("a storage that fails is no damage", f.storage)
	if f.Damage != nil {
		t.Run("damage is one bad example", f.damage)
	}
	t.Run("cut files are errors", f.cut)
	t.Run("the fingerprint is that of the bytes", f.fingerprint)
	t.Run("ranges and blocks lie in the data", f.ranges)
	t.Run("memory is bounded", f.memory)
}

func (f Format) open(t *testing.T, s objects.Store) source.Source {
	t.Helper()
	src, err := f.Open(t.Context(), s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return src
}

func (f Format) store(examples []source.Example) *objectstest.Memory {
	return objectstest.New(f.Files(examples))
}

func same(got, want source.Example) error {
	if !bytes.Equal(got.Image, want.Image) {
		return fmt.Errorf("got an image of %d bytes that begins with %x, want %d bytes that begin with %x",
			len(got.Image), got.Image[:min(8, len(got.Image))], len(want.Image), want.Image[:min(8, len(want.Image))])
	}
	if !slices.Equal(got.Labels, want.Labels) {
		return fmt.Errorf("got labels %v, want %v", got.Labels, want.Labels)
	}
	if got.Name == "" {
		return errors.New("it has no name")
	}
	return nil
}

func (f Format) order(t *testing.T) {
	want := Examples(47, 300)
	src := f.open(t, f.store(want))
	if src.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", src.Len(), len(want))
	}
	if c := src.Classes(); c != nil {
		for label, name := range c {
			if name != ClassName(label) {
				t.Errorf("class %d is %q, want %q", label, name, ClassName(label))
			}
		}
	}
	buf := bytes.Repeat([]byte{0xa5}, 1000)
	for i := range want {
		for _, b := range [][]byte{nil, make([]byte, 3), buf, buf[:0]} {
			got, err := src.Read(t.Context(), i, b)
			if err == nil {
				err = same(got, want[i])
			}
			if err != nil {
				t.Errorf("example %d into a buffer of %d of %d bytes: %v", i, len(b), cap(b), err)
			}
		}
	}
}

func (f Format) concurrent(t *testing.T) {
	want := Examples(60, 2000)
	src := f.open(t, f.store(want))
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(reader)))
			var buf []byte
			for range 3 {
				var err error
				if buf, err = readAll(t.Context(), src, want, rng.Perm(len(want)), buf); err != nil {
					t.Errorf("reader %d, %v", reader, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// readAll reads examples in some order, by way of buf, and returns the buffer that the last one is
// in.
func readAll(ctx context.Context, src source.Source, want []source.Example, order []int, buf []byte) ([]byte, error) {
	for _, i := range order {
		got, err := src.Read(ctx, i, buf)
		if err == nil {
			err = same(got, want[i])
		}
		if err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
		buf = got.Image
	}
	return buf, nil
}

func (f Format) outOfRange(t *testing.T) {
	src := f.open(t, f.store(Examples(12, 50)))
	for _, i := range []int{-1, 12, math.MaxInt} {
		_, err := src.Read(t.Context(), i, nil)
		var bad *source.BadError
		if err == nil || errors.As(err, &bad) {
			t.Errorf("reading example %d of 12 gives %v, want an error that is no *BadError", i, err)
		}
		if r, ok := src.Range(i); ok {
			t.Errorf("example %d of 12 has the range %+v", i, r)
		}
	}
}

func (f Format) canceled(t *testing.T) {
	s := f.store(Examples(12, 50))
	src := f.open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := src.Read(ctx, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("reading gives %v, want %v", err, context.Canceled)
	}
	if _, err := f.Open(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("opening gives %v, want %v", err, context.Canceled)
	}
}

func (f Format) storage(t *testing.T) {
	s := f.store(Examples(12, 50))
	src := f.open(t, s)
	broken := errors.New("the disk is broken")
	fail := true
	s.Fail = func(objectstest.Call) error {
		if fail {
			return broken
		}
		return nil
	}
	_, err := src.Read(t.Context(), 3, nil)
	var bad *source.BadError
	if !errors.Is(err, broken) || errors.As(err, &bad) {
		t.Errorf("reading gives %v, want %v, and no *BadError", err, broken)
	}
	fail = false
	if _, err := src.Read(t.Context(), 3, nil); err != nil {
		t.Errorf("reading after the storage was mended: %v", err)
	}
}

func (f Format) damage(t *testing.T) {
	want := Examples(23, 300)
	for _, damaged := range []int{0, 11, 22} {
		files := f.Files(want)
		f.Damage(files, damaged)
		src := f.open(t, objectstest.New(files))
		for i := range want {
			got, err := src.Read(t.Context(), i, nil)
			if i == damaged {
				var bad *source.BadError
				if !errors.As(err, &bad) || bad.Example != i || bad.Name == "" || bad.Err == nil {
					t.Errorf("example %d, which is damaged, gives %#v, want a *BadError of it with its name", i, err)
				}
				continue
			}
			if err == nil {
				err = same(got, want[i])
			}
			if err != nil {
				t.Errorf("example %d, with %d damaged: %v", i, damaged, err)
			}
		}
	}
}

// cut cuts each file at several places: opening or reading says so, or all examples that are left
// are right.
func (f Format) cut(t *testing.T) {
	want := Examples(5, 40)
	whole := f.Files(want)
	for name, data := range whole {
		for at := 0; at < len(data); at += 1 + len(data)/60 {
			files := maps.Clone(whole)
			files[name] = data[:at]
			src, err := f.Open(t.Context(), objectstest.New(files))
			if err != nil {
				continue
			}
			for i := range src.Len() {
				src.Read(t.Context(), i, nil)
			}
			src.Close()
		}
	}
}

func (f Format) fingerprint(t *testing.T) {
	examples := Examples(30, 200)
	first := f.store(examples)
	print := f.open(t, first).Fingerprint()
	if print == "" {
		t.Fatal("the fingerprint is empty")
	}
	copied := f.store(examples)
	copied.Address = "memory://other"
	for name, data := range f.Files(examples) {
		// Its versions are others.
		copied.Put(name, data)
	}
	if got := f.open(t, copied).Fingerprint(); got != print {
		t.Errorf("a copy in another place has the fingerprint %s, want %s", got, print)
	}
	changes := map[string]func(e []source.Example) []source.Example{
		"without the last example":  func(e []source.Example) []source.Example { return e[:len(e)-1] },
		"without the first example": func(e []source.Example) []source.Example { return e[1:] },
		"with a longer image": func(e []source.Example) []source.Example {
			e[7].Image = append(e[7].Image, make([]byte, 64)...)
			return e
		},
		"with two images of other lengths exchanged": func(e []source.Example) []source.Example {
			e[3].Image, e[4].Image = make([]byte, 1000), make([]byte, 5)
			return e
		},
		"with these two the other way round": func(e []source.Example) []source.Example {
			e[3].Image, e[4].Image = make([]byte, 5), make([]byte, 1000)
			return e
		},
	}
	seen := map[string]string{print: "unchanged"}
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		got := f.open(t, f.store(changes[what](slices.Clone(examples)))).Fingerprint()
		if other, ok := seen[got]; ok {
			t.Errorf("data %s has the fingerprint of data %s", what, other)
		}
		seen[got] = what
	}
}

func (f Format) ranges(t *testing.T) {
	want := Examples(40, 400)
	s := f.store(want)
	src := f.open(t, s)
	for i := range want {
		r, ok := src.Range(i)
		if !ok {
			if f.Sized {
				t.Errorf("example %d has no range", i)
			}
			continue
		}
		if object, err := s.Stat(t.Context(), r.Object.Name); err != nil || r.Object != object {
			t.Errorf("the range of example %d is of %+v, want %+v (%v)", i, r.Object, object, err)
		}
		if r.Off < 0 || r.Length < int64(len(want[i].Image)) || r.Off+r.Length > r.Object.Size {
			t.Errorf("example %d of %d bytes has %d bytes at %d of %s, which has %d", i, len(want[i].Image), r.Length, r.Off, r.Object.Name, r.Object.Size)
		}
	}
	for k, first := range src.Blocks() {
		switch {
		case k == 0 && first != 0:
			t.Errorf("the first block begins at example %d, want 0", first)
		case k > 0 && first <= src.Blocks()[k-1], first >= len(want):
			t.Errorf("block %d begins at example %d, after %d, of %d", k, first, src.Blocks()[max(0, k-1)], len(want))
		}
	}
}

func (f Format) memory(t *testing.T) {
	const n = 20_000
	s := f.store(Examples(n, 1))
	before := heap()
	src := f.open(t, s)
	took := float64(heap()-before) / n
	runtime.KeepAlive(s)
	runtime.KeepAlive(src)
	t.Logf("%.1f bytes an example", took)
	if took > float64(f.BytesPerExample) {
		t.Errorf("an example takes %.1f bytes of memory, want at most %d", took, f.BytesPerExample)
	}
}

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package objectstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Suite says how the stores to test are made.
type Suite struct {
	// Make makes a store of these objects. The suite closes it.
	Make func(t *testing.T, contents map[string][]byte) objects.Store
	// Replace replaces an object of the store that was made last; nil: nothing can.
	Replace func(t *testing.T, name string, data []byte)
	// Remove removes an object of the store that was made last; nil: nothing can.
	Remove func(t *testing.T, name string)
	// NoList says that the store has no lists.
	NoList bool
}

// contents are objects whose names are hard to sort, to escape and to tell from folders.
func contents() map[string][]byte {
	all := map[string][]byte{
		"empty":    {},
		"one":      {1},
		"long.bin": bytes.Repeat([]byte("0123456789abcdef"), 20_000),
	}
	for _, name := range []string{
		"a/x", "a-b", "a/b/c", "a.b", "a b/c d", "a0", "train/cat/1.jpg", "train/cat.jpg", "train/Cat/1.jpg", "train/10/1.jpg", "train/2/1.jpg",
		"odd/50%.txt", "odd/a+b", "odd/a&b=c", "odd/a#b", "odd/a'b", "odd/Straße/日本.png", "odd/.hidden", "odd/%41",
	} {
		all[name] = []byte("of " + name)
	}
	return all
}

// TestStore tests that a store keeps what objects.Store promises.
func TestStore(t *testing.T, s Suite) {
	t.Run("ReadsAreTheBytesOfTheObject", s.readsAreTheBytesOfTheObject)
	t.Run("RangesThatAreNotInTheObjectAreErrors", s.rangesThatAreNotInTheObjectAreErrors)
	t.Run("WhatIsNotThereIsErrNotExist", s.whatIsNotThereIsErrNotExist)
	t.Run("ManyReadAtOnce", s.manyReadAtOnce)
	t.Run("ACallEndsWithItsContext", s.aCallEndsWithItsContext)
	s.run(t, s.Replace != nil, "AnObjectThatWasReplacedIsErrChanged", s.anObjectThatWasReplacedIsErrChanged)
	s.run(t, s.Remove != nil, "AnObjectThatWasRemovedIsAnError", s.anObjectThatWasRemovedIsAnError)
	s.run(t, !s.NoList, "ListsAreInTheOrderOfNames", s.listsAreInTheOrderOfNames)
	t.Run("AReaderReadsOneObject", s.aReaderReadsOneObject)
}

// open makes a store of the contents, which is closed with the test.
func (s Suite) open(t *testing.T) (objects.Store, map[string][]byte) {
	t.Helper()
	all := contents()
	store := s.Make(t, all)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store, all
}

func (s Suite) readsAreTheBytesOfTheObject(t *testing.T) {
	store, all := s.open(t)
	for name, data := range all {
		info := stat(t, store, name)
		if info.Name != name || info.Size != int64(len(data)) {
			t.Errorf("stat %s: got %+v, want %d bytes", name, info, len(data))
		}
		for _, r := range [][2]int{{0, len(data)}, {len(data) / 3, len(data) / 3}, {len(data), 0}, {0, 0}, {max(0, len(data)-1), min(1, len(data))}} {
			p := make([]byte, r[1])
			if err := store.ReadRange(t.Context(), info, p, int64(r[0])); err != nil || !bytes.Equal(p, data[r[0]:r[0]+r[1]]) {
				t.Errorf("read %s: %d bytes from byte %d: got %.40q and error %v, want %.40q", name, r[1], r[0], p, err, data[r[0]:r[0]+r[1]])
			}
		}
	}
}

func (s Suite) rangesThatAreNotInTheObjectAreErrors(t *testing.T) {
	store, _ := s.open(t)
	info := stat(t, store, "long.bin")
	for _, r := range [][2]int64{{info.Size - 1, 2}, {info.Size, 1}, {info.Size + 10, 1}} {
		err := store.ReadRange(t.Context(), info, make([]byte, r[1]), r[0])
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes from byte %d of %d: got error %v, want %v", r[1], r[0], info.Size, err, io.ErrUnexpectedEOF)
		}
		names(t, err, store, "long.bin")
	}
	names(t, store.ReadRange(t.Context(), info, make([]byte, 2), -1), store, "long.bin")
}

func (s Suite) whatIsNotThereIsErrNotExist(t *testing.T) {
	store, _ := s.open(t)
	for _, name := range []string{"none", "a", "train/cat", "train/none.jpg", "none/none", "one/none"} {
		_, err := store.Stat(t.Context(), name)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: got error %v, want %v", name, err, fs.ErrNotExist)
		}
		names(t, err, store, name)
		err = store.ReadRange(t.Context(), objects.Info{Name: name, Size: 10}, make([]byte, 1), 0)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read %s: got error %v, want %v", name, err, fs.ErrNotExist)
		}
		names(t, err, store, name)
	}
}

func (s Suite) manyReadAtOnce(t *testing.T) {
	store, all := s.open(t)
	var readers sync.WaitGroup
	for name, data := range all {
		info := stat(t, store, name)
		for range 3 {
			readers.Go(func() { readParts(t, store, info, data) })
		}
	}
	readers.Wait()
}

// readParts wants five overlapping parts of an object to be as they are in data.
func readParts(t *testing.T, store objects.Store, info objects.Info, data []byte) {
	for i := 0; i < len(data); i += 1 + len(data)/4 {
		p := make([]byte, (len(data)-i+1)/2)
		if err := store.ReadRange(t.Context(), info, p, int64(i)); err != nil || !bytes.Equal(p, data[i:i+len(p)]) {
			t.Errorf("read %s from byte %d: got other bytes, or error %v", info.Name, i, err)
		}
	}
}

func (s Suite) aCallEndsWithItsContext(t *testing.T) {
	store, _ := s.open(t)
	info := stat(t, store, "long.bin")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.ReadRange(ctx, info, make([]byte, 100), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("read: got error %v, want %v", err, context.Canceled)
	}
	if s.NoList {
		return
	}
	if _, err := list(ctx, store, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("list: got error %v, want %v", err, context.Canceled)
	}
}

func (s Suite) anObjectThatWasReplacedIsErrChanged(t *testing.T) {
	for _, data := range []string{"of a later version", "1"} {
		store, all := s.open(t)
		info, other := stat(t, store, "long.bin"), stat(t, store, "one")
		p := make([]byte, 10)
		if err := store.ReadRange(t.Context(), info, p, 0); err != nil {
			t.Fatal(err)
		}
		s.Replace(t, "long.bin", append([]byte(data), all["long.bin"][len(data):]...))
		err := store.ReadRange(t.Context(), info, p, 5)
		if !errors.Is(err, objects.ErrChanged) {
			t.Errorf("got error %v, want %v", err, objects.ErrChanged)
		}
		names(t, err, store, "long.bin")
		again := stat(t, store, "long.bin")
		if again.Version == info.Version {
			t.Errorf("the object that was replaced has version %q still", again.Version)
		}
		p = make([]byte, len(data))
		if err := store.ReadRange(t.Context(), again, p, 0); err != nil || string(p) != data {
			t.Errorf("after a new Stat: got %q and error %v, want %q", p, err, data)
		}
		if err := store.ReadRange(t.Context(), other, p[:1], 0); err != nil {
			t.Errorf("an object that was not replaced: %v", err)
		}
	}
}

func (s Suite) anObjectThatWasRemovedIsAnError(t *testing.T) {
	store, _ := s.open(t)
	info := stat(t, store, "long.bin")
	s.Remove(t, "long.bin")
	if _, err := store.Stat(t.Context(), "long.bin"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat: got error %v, want %v", err, fs.ErrNotExist)
	}
	if err := store.ReadRange(t.Context(), info, make([]byte, 1), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: got error %v, want %v", err, fs.ErrNotExist)
	}
}

func (s Suite) listsAreInTheOrderOfNames(t *testing.T) {
	store, all := s.open(t)
	for _, prefix := range []string{"", "a", "a/", "a/b/", "a b", "train/cat", "train/c", "train/cat/", "none", "none/", "odd/", "one", "one/", "../", "/"} {
		var want []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		infos, err := list(t.Context(), store, prefix)
		var got []string
		for _, info := range infos {
			got = append(got, info.Name)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("list %q: got %q and error %v, want %q", prefix, got, err, want)
		}
		for _, info := range infos {
			if again := stat(t, store, info.Name); again != info {
				t.Errorf("list has %+v, stat %+v", info, again)
			}
		}
	}
	n := 0
	for _, err := range store.List(t.Context(), "train/") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
}

func (s Suite) aReaderReadsOneObject(t *testing.T) {
	store, all := s.open(t)
	want := all["long.bin"]
	r := objects.NewReader(t.Context(), store, stat(t, store, "long.bin"))
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes and error %v, want the object's %d", len(got), err, len(want))
	}
}

// run runs a test that not every store can have.
func (s Suite) run(t *testing.T, has bool, name string, test func(t *testing.T)) {
	if has {
		t.Run(name, test)
	}
}

// names fails the test unless err names the store and the object.
func names(t *testing.T, err error, store objects.Store, object string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error", object)
		return
	}
	for _, want := range []string{store.URL(), object} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}

func stat(t *testing.T, store objects.Store, name string) objects.Info {
	t.Helper()
	info, err := store.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// list returns a list up to its first error.
func list(ctx context.Context, store objects.Store, prefix string) (all []objects.Info, err error) {
	for info, err := range store.List(ctx, prefix) {
		if err != nil {
			return all, err
		}
		all = append(all, info)
	}
	return all, nil
}

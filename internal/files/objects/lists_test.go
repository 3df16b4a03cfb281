package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func newLists(t *testing.T, store objects.Store, cfg objects.ListsConfig) *objects.Lists {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lists, err := objects.NewLists(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return lists
}

func collect(t *testing.T, store objects.Store, prefix string) (all []objects.Info) {
	t.Helper()
	for info, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}

// listCalls is how often a store was listed.
func listCalls(m *objectstest.Memory) (n int) {
	for _, c := range m.Calls() {
		if c.Kind == objectstest.List {
			n++
		}
	}
	return n
}

func TestAListsIsAStore(t *testing.T) {
	var store *objectstest.Memory
	objectstest.TestStore(t, objectstest.Suite{
		Make: func(t *testing.T, contents map[string][]byte) objects.Store {
			store = objectstest.New(contents)
			return newLists(t, store, objects.ListsConfig{Dir: t.TempDir()})
		},
		Replace: func(_ *testing.T, name string, data []byte) { store.Put(name, data) },
		Remove:  func(_ *testing.T, name string) { store.Remove(name) },
	})
}

// hard are objects whose names and versions are hard to write down.
func hard() *objectstest.Memory {
	names := map[string][]byte{}
	for _, name := range []string{"a", "a\tb", "a\nb", "a\\b", `a"b`, "a b", "aé", "a\xff\xfe", "a\x7f", "日本/1.jpg", strings.Repeat("x", 1024), strings.Repeat("x", 1024) + "y"} {
		names[name] = []byte(name)
	}
	return objectstest.New(names)
}

// A list that was kept is the same as the store's, for this process and for those that come later.
func TestAListIsMadeOnce(t *testing.T) {
	memory, dir := hard(), t.TempDir()
	want := collect(t, memory, "")
	for range 3 {
		lists := newLists(t, memory, objects.ListsConfig{Dir: dir})
		for range 2 {
			if got := collect(t, lists, ""); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	if n := listCalls(memory); n != 2 {
		t.Errorf("the store was listed %d times, want once by the test and once", n)
	}
	// Other prefixes and other stores have other lists.
	lists := newLists(t, memory, objects.ListsConfig{Dir: dir})
	if got := collect(t, lists, "日"); len(got) != 1 {
		t.Errorf("another prefix: got %v", got)
	}
	other := objectstest.New(map[string][]byte{"b": nil})
	other.Address = "memory://other"
	if got := collect(t, newLists(t, other, objects.ListsConfig{Dir: dir}), ""); len(got) != 1 {
		t.Errorf("another store: got %v", got)
	}
}

func TestAListIsMadeAnewWhenItIsOldOrOnDemand(t *testing.T) {
	memory, dir := objectstest.New(map[string][]byte{"a": nil}), t.TempDir()
	collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir}), "")
	memory.Put("b", nil)
	if got := collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir}), ""); len(got) != 1 {
		t.Errorf("got %v, want the list that was kept", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "lists", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %q and error %v, want one", files, err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(files[0], hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir, MaxAge: 30 * time.Minute}), ""); len(got) != 2 {
		t.Errorf("an old list: got %v, want a new one", got)
	}
	memory.Put("c", nil)
	refreshed := newLists(t, memory, objects.ListsConfig{Dir: dir, Refresh: true})
	before := listCalls(memory)
	for range 2 {
		if got := collect(t, refreshed, ""); len(got) != 3 {
			t.Errorf("refreshed: got %v, want a new list", got)
		}
	}
	if n := listCalls(memory) - before; n != 1 {
		t.Errorf("refreshed: the store was listed %d times, want once", n)
	}
}

// What was not listed to its end is not kept, and neither is what cannot be.
func TestOnlyWholeListsAreKept(t *testing.T) {
	memory, dir := objectstest.New(map[string][]byte{"a": nil, "b": nil}), t.TempDir()
	broken := errors.New("broken")
	memory.Fail = func(c objectstest.Call) error {
		if c.Kind == objectstest.List && c.Number == 2 {
			return broken
		}
		return nil
	}
	lists := newLists(t, memory, objects.ListsConfig{Dir: dir})
	for range lists.List(t.Context(), "") {
		break
	}
	for _, err := range lists.List(t.Context(), "") {
		if !errors.Is(err, broken) {
			t.Errorf("got error %v, want %v", err, broken)
		}
	}
	if got := collect(t, lists, ""); len(got) != 2 {
		t.Errorf("got %v, want both", got)
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, nil)
	var log bytes.Buffer
	lists = newLists(t, memory, objects.ListsConfig{Dir: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got := collect(t, lists, ""); len(got) != 2 || !strings.Contains(log.String(), "cannot be kept") {
		t.Errorf("without a folder: got %v and the log %q", got, log.String())
	}
	if _, err := objects.NewLists(memory, objects.ListsConfig{}); err == nil {
		t.Error("no folder: got no error")
	}
}

// Each byte of the file counts: a file with another one is not used.
func TestADamagedListIsMadeAnew(t *testing.T) {
	memory, dir := hard(), t.TempDir()
	want := collect(t, memory, "")
	collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir}), "")
	files, err := filepath.Glob(filepath.Join(dir, "lists", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %q and error %v, want one", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, damaged []byte) {
		if err := os.WriteFile(files[0], damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		before := listCalls(memory)
		if got := collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir}), ""); !slices.Equal(got, want) {
			t.Errorf("%s: got %v", what, got)
		}
		if listCalls(memory) == before {
			t.Errorf("%s: the list was used", what)
		}
	}
	for i := 0; i < len(whole); i += 97 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		check(fmt.Sprintf("byte %d of %d", i, len(whole)), damaged)
		check(fmt.Sprintf("cut at byte %d of %d", i, len(whole)), whole[:i])
	}
	check("more after the end", append(bytes.Clone(whole), "x\n"...))
}

// An object that has changed since it was listed is an error, and the next job lists anew.
func TestAChangedObjectRemovesTheList(t *testing.T) {
	memory, dir := objectstest.New(map[string][]byte{"a": []byte("old")}), t.TempDir()
	lists := newLists(t, memory, objects.ListsConfig{Dir: dir})
	object := collect(t, lists, "")[0]
	memory.Put("a", []byte("new"))
	for i := range 2 {
		err := lists.ReadRange(t.Context(), object, make([]byte, 3), 0)
		if !errors.Is(err, objects.ErrChanged) || strings.Contains(err.Error(), "run again to list anew") != (i == 0) {
			t.Errorf("read %d: got error %v, want %v, and the first time what to do", i+1, err, objects.ErrChanged)
		}
	}
	again := collect(t, newLists(t, memory, objects.ListsConfig{Dir: dir}), "")[0]
	if again.Version == object.Version {
		t.Error("the old list was used")
	}
}

// Those who list at once wait for one of them.
func TestListsAtOnceAreMadeOnce(t *testing.T) {
	memory, dir := objectstest.New(map[string][]byte{"a": nil, "b": nil}), t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		lists := newLists(t, memory, objects.ListsConfig{Dir: dir})
		all.Go(func() {
			if got := collect(t, lists, ""); len(got) != 2 {
				t.Errorf("got %v, want both", got)
			}
		})
	}
	all.Wait()
	if n := listCalls(memory); n != 1 {
		t.Errorf("the store was listed %d times, want once", n)
	}
}

// A vast store has objects whose names it makes up.
type vast struct {
	objects.Store
	count int
	lists atomic.Int32
}

func (v *vast) URL() string { return "memory://vast" }

func (v *vast) List(context.Context, string) iter.Seq2[objects.Info, error] {
	v.lists.Add(1)
	return func(yield func(objects.Info, error) bool) {
		for i := range v.count {
			class, number := strconv.Itoa(10_000_000+i/1300), strconv.Itoa(10_000_000+i)
			if !yield(objects.Info{Name: "train/n" + class + "/n" + class + "_" + number + ".JPEG", Size: int64(100_000 + i%977),
				Version: "d41d8cd98f00b204e9800998" + number}, nil) {
				return
			}
		}
	}
}

// A vast store is listed once, takes no memory while it is, and few bytes on the disk.
func TestAListOfAVastStoreTakesNoMemory(t *testing.T) {
	store, dir := &vast{count: 100_000}, t.TempDir()
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		store.count = 1_000_000
	}
	var base runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&base)
	for pass := range 2 {
		n, most := 0, uint64(0)
		for info, err := range newLists(t, store, objects.ListsConfig{Dir: dir}).List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%(store.count/4) == 0 {
				runtime.GC()
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc-min(now.HeapAlloc, base.HeapAlloc))
				if want := fmt.Sprintf("_%d.JPEG", 10_000_000+n-1); !strings.HasSuffix(info.Name, want) {
					t.Errorf("object %d is %s", n-1, info.Name)
				}
			}
		}
		if n != store.count || most > 4<<20 {
			t.Errorf("pass %d: got %d objects with %d bytes of memory, want %d and less than 4 MiB", pass+1, n, most, store.count)
		}
	}
	if n := store.lists.Load(); n != 1 {
		t.Errorf("the store was listed %d times, want once", n)
	}
	files, err := filepath.Glob(filepath.Join(dir, "lists", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %q and error %v, want one", files, err)
	}
	if size := sizeOf(t, files); size > 70*int64(store.count) {
		t.Errorf("the list has %d bytes an object, want at most 70", size/int64(store.count))
	}
}

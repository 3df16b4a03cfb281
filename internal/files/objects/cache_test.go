package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
	"github.com/paragon-train/paragon/internal/files/vfs"
)

// page is the smallest size of a block.
const page = 64 << 10

// small is a cache of 16 blocks of 64 KiB.
func small(dir string) objects.CacheConfig {
	return objects.CacheConfig{Dir: dir, Block: page, Bytes: 16 * (page + 24), Logger: slog.New(slog.DiscardHandler)}
}

func newCache(t *testing.T, store objects.Store, cfg objects.CacheConfig) *objects.Cache {
	t.Helper()
	cache, err := objects.NewCache(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// blockFiles are the files of blocks, and what else is in the cache's folders of blocks.
func blockFiles(t *testing.T, dir string) (blocks, others []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if strings.Contains(filepath.Base(path), ".") {
			others = append(others, path)
		} else {
			blocks = append(blocks, path)
		}
	}
	return blocks, others
}

func sizeOf(t *testing.T, paths []string) (size int64) {
	t.Helper()
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}

// readAll reads an object by ranges of so many bytes and checks them.
func readAll(t *testing.T, store objects.Store, object objects.Info, data []byte, step int) {
	t.Helper()
	for off := 0; off < len(data); off += step {
		p := make([]byte, min(step, len(data)-off))
		if err := store.ReadRange(t.Context(), object, p, int64(off)); err != nil || !bytes.Equal(p, data[off:off+len(p)]) {
			t.Fatalf("%d bytes from byte %d: got others, or error %v", len(p), off, err)
		}
	}
}

func TestACacheIsAStore(t *testing.T) {
	var store *objectstest.Memory
	objectstest.TestStore(t, objectstest.Suite{
		Make: func(t *testing.T, contents map[string][]byte) objects.Store {
			store = objectstest.New(contents)
			return newCache(t, store, small(t.TempDir()))
		},
	})
}

// What was read comes from the disk, also for a cache that is opened later.
func TestABlockIsFetchedOnce(t *testing.T) {
	data := random(10*page + 100)
	memory := objectstest.New(map[string][]byte{"a": data})
	object, dir := info(t, memory, "a"), t.TempDir()
	for range 2 {
		cache := newCache(t, memory, small(dir))
		for _, step := range []int{1000, page, 3*page - 1, len(data)} {
			readAll(t, cache, object, data, step)
		}
	}
	if n := len(memory.Calls()); n != 1+11 {
		t.Errorf("got %d calls, want a stat and 11 reads", n)
	}
	memory.Put("a", random(5*page)) // Another version has other blocks.
	readAll(t, newCache(t, memory, small(dir)), info(t, memory, "a"), random(5*page), page)
	if blocks, others := blockFiles(t, dir); len(blocks) < 5 || len(others) != 0 {
		t.Errorf("got %d blocks and %q, want blocks alone", len(blocks), others)
	}
}

// Objects without a version may change: they are read anew.
func TestAnObjectWithoutAVersionIsNotKept(t *testing.T) {
	data := random(page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object, dir := info(t, memory, "a"), t.TempDir()
	object.Version = ""
	readAll(t, newCache(t, memory, small(dir)), object, data, page)
	if blocks, _ := blockFiles(t, dir); len(blocks) != 0 {
		t.Errorf("got %d blocks, want none", len(blocks))
	}
}

// Whatever is wrong with a block's file, the data is right and the block is fetched anew.
func TestADamagedBlockIsFetchedAnew(t *testing.T) {
	data := random(2 * page)
	for name, damage := range map[string]func(f *os.File, size int64) error{
		"a byte of data": func(f *os.File, size int64) error { return flip(f, size-100) },
		"magic":          func(f *os.File, _ int64) error { return flip(f, 0) },
		"length":         func(f *os.File, _ int64) error { return flip(f, 9) },
		"checksum":       func(f *os.File, _ int64) error { return flip(f, 17) },
		"cut":            func(f *os.File, size int64) error { return f.Truncate(size - 1) },
		"empty":          func(f *os.File, _ int64) error { return f.Truncate(0) },
		"longer":         func(f *os.File, size int64) error { return f.Truncate(size + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			memory := objectstest.New(map[string][]byte{"a": data})
			object, dir := info(t, memory, "a"), t.TempDir()
			cache := newCache(t, memory, small(dir))
			readAll(t, cache, object, data, page)
			blocks, _ := blockFiles(t, dir)
			f, err := os.OpenFile(blocks[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(damage(f, sizeOf(t, blocks[:1])), f.Close()); err != nil {
				t.Fatal(err)
			}
			readAll(t, cache, object, data, page)
			readAll(t, cache, object, data, page)
			if n := len(memory.Calls()); n != 1+3 {
				t.Errorf("got %d calls, want a stat and 3 reads", n)
			}
		})
	}
}

func flip(f *os.File, off int64) error {
	p := make([]byte, 1)
	if _, err := f.ReadAt(p, off); err != nil {
		return err
	}
	p[0] ^= 1
	_, err := f.WriteAt(p, off)
	return err
}

// The bound holds, and the blocks that were used last stay.
func TestTheCacheStaysBelowItsBound(t *testing.T) {
	data := random(40 * page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object, dir := info(t, memory, "a"), t.TempDir()
	cfg := small(dir)
	cache := newCache(t, memory, cfg)
	readAll(t, cache, object, data[:12*page], page)
	blocks, _ := blockFiles(t, dir)
	for _, path := range blocks { // They were read an hour ago.
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	readAll(t, cache, object, data[:page], page) // One of them is used again.
	for i := 12; i < 20; i++ {
		p := make([]byte, page)
		if err := cache.ReadRange(t.Context(), object, p, int64(i*page)); err != nil {
			t.Fatal(err)
		}
		blocks, _ := blockFiles(t, dir)
		if size := sizeOf(t, blocks); size > cfg.Bytes {
			t.Fatalf("%d blocks have %d bytes, want at most %d", len(blocks), size, cfg.Bytes)
		}
	}
	before := len(memory.Calls())
	readAll(t, cache, object, data[:page], page)
	if n := len(memory.Calls()) - before; n != 0 {
		t.Error("the block that was used again is gone")
	}
	blocks, _ = blockFiles(t, dir)
	if len(blocks) < 13 {
		t.Errorf("%d blocks are left, want nearly 16", len(blocks))
	}
	// A smaller bound holds from the beginning.
	for i := range 3 {
		writeFile(t, filepath.Join(dir, "aa", fmt.Sprint("extra", i)), make([]byte, 3*page))
	}
	if err := os.Remove(filepath.Join(dir, "used")); err != nil {
		t.Fatal(err)
	}
	newCache(t, memory, cfg)
	blocks, _ = blockFiles(t, dir)
	if size := sizeOf(t, blocks); size > cfg.Bytes {
		t.Errorf("after opening %d bytes are left, want at most %d", size, cfg.Bytes)
	}
}

// Part files that killed processes left are removed when files are counted; those under way count
// as whole blocks, and their locks stay.
func TestPartFilesCountWhileTheyAreWritten(t *testing.T) {
	data := random(40 * page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object, dir := info(t, memory, "a"), t.TempDir()
	left, written := filepath.Join(dir, "aa", "left.part"), filepath.Join(dir, "bb", "written.part")
	writeFile(t, left, make([]byte, 100))
	writeFile(t, written, nil)
	lock, err := lockfile.Create(filepath.Join(dir, "bb", "written.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(lock.Name(), long, long); err != nil {
		t.Fatal(err)
	}
	cfg := small(dir)
	cache := newCache(t, memory, cfg)
	for i := range 40 {
		p := make([]byte, page)
		if err := cache.ReadRange(t.Context(), object, p, int64(i*page)); err != nil || !bytes.Equal(p, data[i*page:(i+1)*page]) {
			t.Fatalf("block %d: got other bytes, or error %v", i, err)
		}
		if blocks, _ := blockFiles(t, dir); len(blocks) > 15 {
			t.Fatalf("got %d blocks besides one that is written, want at most 15", len(blocks))
		}
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part file of a killed process: got error %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Stat(written); err != nil || !lockfile.At(lock, lock.Name()) {
		t.Errorf("a part file that is written, or its lock, is gone: %v", err)
	}
}

// A block that another process has fetched between a look and the lock is not fetched again.
func TestABlockIsLookedForAgainUnderItsLock(t *testing.T) {
	data := random(100 * page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object, cfg := info(t, memory, "a"), small(t.TempDir())
	cfg.Bytes *= 10
	var all sync.WaitGroup

	// Each is like a process of its own.
	for range 4 {
		cache := newCache(t, memory, cfg)
		all.Go(func() { readAll(t, cache, object, data, page) })
	}
	all.Wait()
	if n := len(memory.Calls()) - 1; n != 100 {
		t.Errorf("100 blocks were fetched %d times", n)
	}
}

func TestATooSmallBoundIsRefused(t *testing.T) {
	memory := objectstest.New(nil)
	for _, cfg := range []objects.CacheConfig{
		{},
		{Dir: t.TempDir(), Bytes: 63 << 20},
		{Dir: t.TempDir(), Block: 1000},
		{Dir: t.TempDir(), Block: 128 << 20},
		{Dir: filepath.Join(t.TempDir(), "file", "below")},
	} {
		if strings.HasSuffix(cfg.Dir, "below") {
			writeFile(t, filepath.Dir(cfg.Dir), nil)
		}
		if _, err := objects.NewCache(memory, cfg); err == nil {
			t.Errorf("%+v: got no error", cfg)
		}
	}
}

// A full disk costs one warning and no read.
func TestAFullDiskCostsAWarning(t *testing.T) {
	for _, room := range []int64{0, 100, 3*page + 100} {
		data := random(20 * page)
		memory := objectstest.New(map[string][]byte{"a": data})
		object, dir := info(t, memory, "a"), t.TempDir()
		var log bytes.Buffer
		cfg := small(dir).On(&vfs.Faulty{FS: vfs.OS{}, CrashAfter: -1, Room: room})
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cache := newCache(t, memory, cfg)
		readAll(t, cache, object, data, 1000)
		readAll(t, cache, object, data, page)
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "no space left") {
			t.Errorf("room for %d bytes: got %d lines of log, want one:\n%s", room, n, log.String())
		}
		blocks, others := blockFiles(t, dir)
		if len(others) != 0 || int64(len(blocks)) != room/page {
			t.Errorf("room for %d bytes: got %d blocks and %q", room, len(blocks), others)
		}
	}
}

// Each operation of the file system may be the last one that works: reads are right, and what is
// left is not taken for a block.
func TestACrashLeavesNoBadBlock(t *testing.T) {
	data := random(3 * page)
	for after := range 20 {
		memory := objectstest.New(map[string][]byte{"a": data})
		object, dir := info(t, memory, "a"), t.TempDir()
		readAll(t, newCache(t, memory, small(dir).On(&vfs.Faulty{FS: vfs.OS{}, CrashAfter: after, Room: -1})), object, data, page)
		readAll(t, newCache(t, memory, small(dir)), object, data, page)
		if blocks, _ := blockFiles(t, dir); len(blocks) != 3 {
			t.Errorf("crash after %d operations: got %d blocks, want 3", after, len(blocks))
		}
	}
}

// Many readers of one block wait for one fetch, and one that gives up does not make the others
// fail.
func TestReadersOfABlockShareAFetch(t *testing.T) {
	data := random(page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object := info(t, memory, "a")
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan bool)
	memory.Fail = func(c objectstest.Call) error {
		if c.Kind == objectstest.Read && c.Number == 1 {
			close(entered)
			<-ctx.Done()
			return context.Canceled
		}
		return nil
	}
	cache := newCache(t, memory, small(t.TempDir()))
	var readers sync.WaitGroup
	readers.Go(func() {
		if err := cache.ReadRange(ctx, object, make([]byte, 10), 0); !errors.Is(err, context.Canceled) {
			t.Errorf("the one who gave up: got error %v", err)
		}
	})
	<-entered
	for i := range 10 {
		readers.Go(func() {
			p := make([]byte, 100)
			if err := cache.ReadRange(t.Context(), object, p, int64(i*100)); err != nil || !bytes.Equal(p, data[i*100:i*100+100]) {
				t.Errorf("reader %d: got other bytes, or error %v", i, err)
			}
		})
	}
	cancel()
	readers.Wait()
	reads := 0
	for _, c := range memory.Calls() {
		if c.Kind == objectstest.Read && c.Length == page {
			reads++
		}
	}
	if reads != 2 {
		t.Errorf("the block was fetched %d times, want one that was given up and one", reads)
	}
}

// The error of a fetch is that of the bytes that were asked for.
func TestAFetchThatFailsReadsWhatWasAskedFor(t *testing.T) {
	data := random(page)
	memory := objectstest.New(map[string][]byte{"a": data})
	object := info(t, memory, "a")
	memory.Cut("a", 1000)
	cache := newCache(t, memory, small(t.TempDir()))
	readAll(t, cache, object, data[:1000], 500)
	err := cache.ReadRange(t.Context(), object, make([]byte, 10), 995)
	if err == nil || !strings.Contains(err.Error(), "10 bytes from byte 995") {
		t.Errorf("got error %v, want one that names the range", err)
	}
	memory.Remove("a")
	if err := cache.ReadRange(t.Context(), object, make([]byte, 10), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, fs.ErrNotExist)
	}
}

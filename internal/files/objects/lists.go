package objects

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// A ListsConfig says where Lists keeps what it has listed.
type ListsConfig struct {
	// Dir is a folder, which is made; that of a Cache serves. All processes of a host may share
	// it.
	Dir string
	// MaxAge is how old a list may be; 0 means 24 hours.
	MaxAge time.Duration
	// Refresh lists anew, once, what another process has kept.
	Refresh bool
	// Wait is how long a list waits for another process that makes the same one; 0 means 10
	// minutes.
	Wait time.Duration
	// Logger is told which kept lists are used; nil means slog.Default.
	Logger *slog.Logger
}

func (c ListsConfig) withDefaults() ListsConfig {
	c.MaxAge = cmp.Or(c.MaxAge, 24*time.Hour)
	c.Wait = cmp.Or(c.Wait, 10*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// A Lists is a Store over another one that keeps its lists in files, so that the million objects of
// a bucket are listed once: by one process of a host, and not again when a job restarts.
//
// What was added to the store since is seen when the list has reached MaxAge, or with Refresh. An
// object that has changed or is gone is an error when it is read; then the kept lists of its store
// are removed, so that the next job lists anew. No list is held in memory.
type Lists struct {
	store Store
	cfg   ListsConfig

	began time.Time

	// mu guards fresh.
	mu sync.Mutex

	// fresh has the prefixes whose lists were made since.
	fresh map[string]bool
}

// NewLists makes a Lists over a store. Its Close closes the store, too.
func NewLists(store Store, cfg ListsConfig) (*Lists, error) {
	if cfg.Dir == "" {
		return nil, errors.New("objects: lists: got no Dir")
	}
	return &Lists{store: store, cfg: cfg.withDefaults(), began: time.Now(), fresh: map[string]bool{}}, nil
}

// URL implements Store.
func (l *Lists) URL() string { return l.store.URL() }

// Stat implements Store.
func (l *Lists) Stat(ctx context.Context, name string) (Info, error) { return l.store.Stat(ctx, name) }

// Folders passes on what the store knows of folders.
func (l *Lists) Folders(ctx context.Context) ([]string, error) { return foldersOf(ctx, l.store) }

// Close implements Store. The lists stay.
func (l *Lists) Close() error { return l.store.Close() }

// ReadRange implements Store.
func (l *Lists) ReadRange(ctx context.Context, object Info, p []byte, off int64) error {
	err := l.store.ReadRange(ctx, object, p, off)
	if !errors.Is(err, ErrChanged) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, statErr := os.Stat(l.dir()); statErr != nil || os.RemoveAll(l.dir()) != nil {
		return err
	}
	return fmt.Errorf("%w; the kept lists of %s are removed: run again to list anew", err, l.URL())
}

// dir has the lists of the store.
func (l *Lists) dir() string { return filepath.Join(l.cfg.Dir, "lists", hashed(l.URL())) }

// path is the file of a list.
func (l *Lists) path(prefix string) string { return filepath.Join(l.dir(), hashed(prefix)) }

func hashed(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:16])
}

// List implements Store.
func (l *Lists) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		// What another process makes between here and the lock counts as made meanwhile.
		before, _ := os.Stat(l.path(prefix))
		if l.kept(prefix, yield) {
			return
		}
		lock, err := l.lock(ctx, prefix, before)
		if err != nil {
			l.cfg.Logger.Warn("the list of the data's objects cannot be kept", "store", l.URL(), "err", err)
			l.store.List(ctx, prefix)(yield)
			return
		}

		// Another process has made the list meanwhile.
		if lock == nil {
			if !l.kept(prefix, yield) {
				l.store.List(ctx, prefix)(yield)
			}
			return
		}
		defer lock.unlock()
		l.list(ctx, prefix, yield)
	}
}

// list lists what the store has, and keeps it if it comes to its end.
func (l *Lists) list(ctx context.Context, prefix string, yield func(Info, error) bool) {
	path := l.path(prefix)
	w, err := createList(path+partSuffix, l.URL(), prefix)
	for info, listErr := range l.store.List(ctx, prefix) {
		if listErr == nil && err == nil {
			err = w.add(info)
		}
		if !yield(info, listErr) || listErr != nil {
			w.discard()
			return
		}
	}
	if err == nil {
		err = w.keep(path)
	}
	if err != nil {
		w.discard()
		l.cfg.Logger.Warn("the list of the data's objects cannot be kept", "store", l.URL(), "err", err)
		return
	}
	l.mu.Lock()
	l.fresh[prefix] = true
	l.mu.Unlock()
}

// kept yields a list from its file. It reports false, without a call of yield, if there is none
// that is sound and not too old.
func (l *Lists) kept(prefix string, yield func(Info, error) bool) bool {
	path := l.path(prefix)
	if !l.usable(path, prefix) {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	n, err := verifyList(f, l.URL(), prefix)
	if err != nil {
		l.cfg.Logger.Warn("a kept list of the data's objects is damaged; listing anew", "file", path, "err", err)
		return false
	}
	l.cfg.Logger.Info("using the kept list of the data's objects", "store", l.URL(), "objects", n, "file", path)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false
	}
	r := listReader{r: bufio.NewReaderSize(f, 64<<10)}
	for range 2 {
		// The first two lines are about the list. They were read when it was opened.
		_ = r.skip()
	}
	for range n {
		info, err := r.next()
		if err != nil {
			err = fmt.Errorf("objects: list %q in %s: %s: %w", prefix, l.URL(), path, err)
		}
		if !yield(info, err) || err != nil {
			break
		}
	}
	return true
}

// usable reports whether a list's file may be used by its age. One that was made since this Lists
// was is new enough.
func (l *Lists) usable(path, prefix string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	l.mu.Lock()
	fresh := l.fresh[prefix]
	l.mu.Unlock()
	if l.cfg.Refresh {
		return fresh || info.ModTime().After(l.began)
	}
	return fresh || time.Since(info.ModTime()) < l.cfg.MaxAge
}

// lock takes the right to make a list. It returns nil when another process has made it since the
// list's file was before, which is nil where there was none.
func (l *Lists) lock(ctx context.Context, prefix string, before fs.FileInfo) (*fileLock, error) {
	path := l.path(prefix)
	deadline := time.Now().Add(l.cfg.Wait)
	for {
		lock, err := takeLock(path)
		if err != nil && !errors.Is(err, lockfile.ErrTaken) {
			return nil, err
		}
		now, statErr := os.Stat(path)
		made := statErr == nil && (before == nil || !os.SameFile(before, now))
		switch {
		case made:
			if lock != nil {
				lock.unlock()
			}
			l.mu.Lock()
			l.fresh[prefix] = true
			l.mu.Unlock()
			return nil, nil
		case lock != nil:
			return lock, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("another process has been listing for %v", l.cfg.Wait)
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

package vfs

import (
	"errors"
	"sync"
	"syscall"
)

// ErrCrashed is what every operation after a crash returns.
var ErrCrashed = errors.New("vfs: crashed")

// ErrFull is the machine's "no space left on device".
var ErrFull error = syscall.ENOSPC

// Faulty is another file system whose writing operations fail on demand:
// create, append, write, sync, close, rename, remove, make and sync a folder. They are
// counted together. Reading is passed on.
type Faulty struct {
	FS
	// CrashAfter lets so many operations happen and then none: they and all
	// later ones return ErrCrashed. Below zero is never.
	CrashAfter int
	// Room is how many bytes the disk still takes. A write that goes over it
	// writes what fits and returns ErrFull. Below zero is no limit.
	Room int64

	// mu guards done, and Room from here on.
	mu sync.Mutex

	done int
}

// Operations returns how many operations happened.
func (f *Faulty) Operations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// next counts an operation that is about to happen. Behind the last one that may, nothing happens
// any more.
func (f *Faulty) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.CrashAfter >= 0 && f.done >= f.CrashAfter {
		return ErrCrashed
	}
	f.done++
	return nil
}

// Create implements FS.
func (f *Faulty) Create(path string) (File, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	w, err := f.FS.Create(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, w}, nil
}

// Append implements FS.
func (f *Faulty) Append(path string, size int64) (File, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	w, err := f.FS.Append(path, size)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, w}, nil
}

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

// Remove implements FS.
func (f *Faulty) Remove(path string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultyFile struct {
	f *Faulty
	w File
}

func (w *faultyFile) Write(p []byte) (int, error) {
	if err := w.f.next(); err != nil {
		return 0, err
	}
	w.f.mu.Lock()
	full := w.f.Room >= 0 && int64(len(p)) > w.f.Room
	if full {
		p = p[:w.f.Room]
	}
	if w.f.Room >= 0 {
		w.f.Room -= int64(len(p))
	}
	w.f.mu.Unlock()
	n, err := w.w.Write(p)
	if err == nil && full {
		err = ErrFull
	}
	return n, err
}

func (w *faultyFile) Sync() error {
	if err := w.f.next(); err != nil {
		return err
	}
	return w.w.Sync()
}

func (w *faultyFile) Close() error {
	if err := w.f.next(); err != nil {
		return err
	}
	return w.w.Close()
}

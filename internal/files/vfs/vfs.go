// Package vfs is the small part of a file system that is needed to write a
// file so that a crash leaves the old contents or the new, and never a mix.
//
// WriteFile does that. OS is the machine's file system; Mem is one in memory
// that knows what is on the disk and what only in the cache, and can lose the
// latter; Faulty makes operation number k of another file system fail. With
// these a test goes through all places where a crash can happen.
package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// An FS is what WriteFile and those who keep files need. Paths are those of
// the machine. Errors answer errors.Is for fs.ErrNotExist.
type FS interface {
	// Create makes the file, or empties it, and opens it for writing.
	Create(path string) (File, error)
	// Append opens the file for writing behind its first size bytes, and cuts off
	// what stands after them. A file that is shorter is an error.
	Append(path string, size int64) (File, error)
	// Open opens the file for reading.
	Open(path string) (Reader, error)
	// Rename gives the file a new name, in place of a file that has it.
	Rename(from, to string) error
	// Remove takes the file away.
	Remove(path string) error
	// MkdirAll makes the folder and those above it.
	MkdirAll(dir string) error
	// SyncDir makes the names in the folder survive a crash.
	SyncDir(dir string) error
	// List returns the names of the files in the folder, sorted.
	List(dir string) ([]string, error)
}

// A File is open for writing. What was written survives a crash after Sync.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// A Reader is open for reading.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size returns the length of the file in bytes.
	Size() (int64, error)
}

// TempSuffix ends the name of a file under way: WriteFile's is the file's, a
// random number and this. Such a file may be left after a crash; it means nothing.
const TempSuffix = ".tmp"

// WriteFile gives the file the contents that write writes. It is written beside
// its place, synced, renamed, and the folder is synced: when WriteFile returns
// without error, the contents survive a crash; when it does not, or a crash
// comes before, the file is what it was or, if only the last sync failed,
// possibly the new one. The error names the path and how many bytes had been
// written. Several calls, of several processes too, may write one path at once:
// the last one's contents stay.
func WriteFile(fsys FS, path string, write func(io.Writer) error) (err error) {
	temp := fmt.Sprintf("%s.%016x%s", path, rand.Uint64(), TempSuffix)
	f, err := fsys.Create(temp)
	if err != nil {
		return fmt.Errorf("vfs: write %s: create: %w", path, err)
	}
	w := &counter{w: f}
	renamed := false
	defer func() {
		if err != nil && !renamed {
			// The first error is the one that matters.
			_ = fsys.Remove(temp)
		}
	}()
	if err := write(w); err != nil {
		_ = f.Close()
		return fmt.Errorf("vfs: write %s: after %d bytes: %w", path, w.n, err)
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return fmt.Errorf("vfs: write %s: sync %d bytes: %w", path, w.n, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("vfs: write %s: close after %d bytes: %w", path, w.n, err)
	}
	if err := fsys.Rename(temp, path); err != nil {
		return fmt.Errorf("vfs: write %s: rename %d bytes into place: %w", path, w.n, err)
	}
	renamed = true
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("vfs: write %s: sync its folder after %d bytes: %w", path, w.n, err)
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// OS is the machine's file system.
type OS struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("is %s, not a file", info.Mode().Type())}
	}
	return info.Size(), nil
}

// Create implements FS.
func (OS) Create(path string) (File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Append implements FS.
func (OS) Append(path string, size int64) (File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := cut(f, size); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// cut leaves the first size bytes and goes to their end.
func cut(f *os.File, size int64) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == size {
		return err
	}
	if end < size {
		return &fs.PathError{Op: "append", Path: f.Name(), Err: fmt.Errorf("has %d bytes, want at least %d", end, size)}
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err = f.Seek(size, io.SeekStart)
	return err
}

// Open implements FS.
func (OS) Open(path string) (Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

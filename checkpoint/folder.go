package checkpoint

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// folder is the Place of a folder. Each file is written under another name, synced and renamed
// (vfs.WriteFile).
type folder struct {
	fsys vfs.FS
	dir  string
}

// path is a name's path on this system.
func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Write writes a file in place of the one of this name. After a crash the old one or the new one
// is there, whole.
func (f folder) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	path := f.path(name)
	if err := f.fsys.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return vfs.WriteFile(f.fsys, path, func(w io.Writer) error { return write(until{ctx, w}) })
}

// until refuses to write once its context has ended.
type until struct {
	ctx context.Context
	w   io.Writer
}

// Write fails once the context has ended, so that a large file is not written to its end in
// vain.
func (u until) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.w.Write(p)
}

// Open opens a file to read at any offset.
func (f folder) Open(_ context.Context, name string) (Source, error) {
	return f.fsys.Open(f.path(name))
}

// List also returns files that a crash has left half written, so that they can be removed.
func (f folder) List(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	from := f.path(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		// Somebody else may have removed it just now.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		rel, err := filepath.Rel(f.dir, path)
		if name := filepath.ToSlash(rel); err == nil && !d.IsDir() && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// Remove also removes the folders within the place that are empty then.
func (f folder) Remove(_ context.Context, name string) error {
	path := f.path(name)
	if err := f.fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(path); dir != filepath.Clean(f.dir) && len(dir) > len(f.dir); dir = filepath.Dir(dir) {
		// A folder with another file in it stays.
		if os.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// Close does nothing.
func (folder) Close() error { return nil }

package vfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// Mem is a file system in memory. It keeps apart what a crash cannot take and
// what it can: contents that were not synced, and names whose folder was not.
// Folders themselves always survive. The zero value is empty and ready.
type Mem struct {
	// mu guards the fields below.
	mu sync.Mutex

	names   map[string]*memFile
	durable map[string]*memFile
}

type memFile struct {
	data   []byte
	synced []byte
}

func (m *Mem) init() {
	if m.names == nil {
		m.names, m.durable = map[string]*memFile{}, map[string]*memFile{}
	}
}

// Crash returns what is there after a crash: the names and the contents that
// were synced, and those that were not if names or contents say that they got
// to the disk by chance. Open files of m go on writing to m alone.
func (m *Mem) Crash(names, contents bool) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init()
	from := m.durable
	if names {
		from = m.names
	}
	after := &Mem{}
	after.init()
	for path, f := range from {
		data := f.synced
		if contents {
			data = f.data
		}
		g := &memFile{data: bytes.Clone(data), synced: bytes.Clone(data)}
		after.names[path], after.durable[path] = g, g
	}
	return after
}

// Create implements FS.
func (m *Mem) Create(path string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init()
	f := &memFile{}
	m.names[filepath.Clean(path)] = f
	return &memWriter{m: m, f: f}, nil
}

// Append implements FS.
func (m *Mem) Append(path string, size int64) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.names[filepath.Clean(path)]
	if !ok {
		return nil, &fs.PathError{Op: "append", Path: path, Err: fs.ErrNotExist}
	}
	if int64(len(f.data)) < size {
		return nil, &fs.PathError{Op: "append", Path: path, Err: fmt.Errorf("has %d bytes, want at least %d", len(f.data), size)}
	}
	f.data = f.data[:size]
	return &memWriter{m: m, f: f}, nil
}

// Open implements FS.
func (m *Mem) Open(path string) (Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.names[filepath.Clean(path)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return memReader{bytes.NewReader(bytes.Clone(f.data))}, nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.names[filepath.Clean(from)]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(m.names, filepath.Clean(from))
	m.names[filepath.Clean(to)] = f
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.names[filepath.Clean(path)]; !ok {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	delete(m.names, filepath.Clean(path))
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(string) error { return nil }

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init()
	dir = filepath.Clean(dir)
	for path := range m.durable {
		if filepath.Dir(path) == dir {
			delete(m.durable, path)
		}
	}
	for path, f := range m.names {
		if filepath.Dir(path) == dir {
			m.durable[path] = f
		}
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for path := range m.names {
		if filepath.Dir(path) == filepath.Clean(dir) {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

type memWriter struct {
	m      *Mem
	f      *memFile
	closed bool
}

func (w *memWriter) Write(p []byte) (int, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.closed {
		return 0, fmt.Errorf("vfs: write: %w", fs.ErrClosed)
	}
	w.f.data = append(w.f.data, p...)
	return len(p), nil
}

func (w *memWriter) Sync() error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.closed {
		return fmt.Errorf("vfs: sync: %w", fs.ErrClosed)
	}
	w.f.synced = bytes.Clone(w.f.data)
	return nil
}

func (w *memWriter) Close() error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.closed = true
	return nil
}

type memReader struct{ *bytes.Reader }

func (r memReader) Size() (int64, error) { return r.Reader.Size(), nil }
func (r memReader) Close() error         { return nil }

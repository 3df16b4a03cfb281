package run

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A resultFile is the file of --result. It has a name only when it is whole; until then a temporary
// file beside it keeps the place.
type resultFile struct {
	path string

	// next is nil once it is written.
	next *os.File
}

// openResult makes sure that the result can be written, and removes the result of an earlier job: a
// launch that is killed leaves none. Links are followed, so that the earlier result is not left
// where one leads.
func openResult(path string) (*resultFile, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("launch: --result %s is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("launch: --result: %w", err)
	}

	// This ends: Stat has found that the links do.
	for {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			// ".." of a folder that is a link is that of its target.
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return nil, fmt.Errorf("launch: --result: %w", err)
			}
			to = filepath.Join(dir, to)
		}
		path = to
	}
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			// Its path is that of the temporary file.
			err = failed.Err
		}
		return nil, fmt.Errorf("launch: --result %s: create a file in %s: %w", path, filepath.Dir(path), err)
	}
	f := &resultFile{path: path, next: next}

	// Everybody may read the result: there are no secrets inside.
	err = next.Chmod(0o644)
	if err == nil {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		f.drop()
		return nil, fmt.Errorf("launch: --result: %w", err)
	}
	return f, nil
}

// write writes the result.
func (f *resultFile) write(r *control.Result) error {
	defer f.drop()
	b, err := control.EncodeResult(r)
	if err == nil {
		_, err = f.next.Write(b)
	}
	if err == nil {
		err = f.next.Sync()
	}
	if err == nil {
		err = os.Rename(f.next.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("launch: --result: %w", err)
	}
	return nil
}

// drop removes the temporary file, unless it has become the result.
func (f *resultFile) drop() {
	f.next.Close()
	os.Remove(f.next.Name())
}

// lastMetrics keeps the newest metrics that worker 0 printed.
type lastMetrics struct {
	reader control.MetricsReader

	// mu guards all fields.
	mu sync.Mutex

	last *control.Metrics
}

// take takes a line of a process.
func (m *lastMetrics) take(l control.Line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	got, ok := m.reader.Read(l)
	if !ok {
		return
	}

	// JSON has no NaN and no infinity.
	maps.DeleteFunc(got.Values, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(got.Values) > 0 {
		m.last = &got
	}
}

// get returns the newest metrics; nil: none came.
func (m *lastMetrics) get() *control.Metrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

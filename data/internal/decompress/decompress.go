// Package decompress has the decompressors that data knows by name: gzip, and what programs add.
package decompress

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A Func opens a decompressing reader.
type Func func(io.Reader) (io.ReadCloser, error)

var (
	mu    sync.Mutex
	known = map[string]Func{"gzip": func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }}
)

// suffixes are how names of compressed files end.
var suffixes = []struct{ suffix, name string }{{".gz", "gzip"}, {".zst", "zstd"}, {".zstd", "zstd"}, {".br", "brotli"}, {".snappy", "snappy"}, {".bz2", "bzip2"}, {".xz", "xz"}}

// Register adds a decompressor or replaces one.
func Register(name string, open Func) {
	mu.Lock()
	defer mu.Unlock()
	known[name] = open
}

// ErrUnknown is in the error's chain if no decompressor has the name.
var ErrUnknown = errors.New("no decompressor of this name is registered")

// ErrTooLarge is in the error's chain if more bytes come out than may.
var ErrTooLarge = errors.New("larger than allowed once decompressed")

// Open opens the decompressor of a name.
func Open(name string, r io.Reader) (io.ReadCloser, error) {
	mu.Lock()
	open := known[name]
	var names []string
	for n := range known {
		names = append(names, n)
	}
	mu.Unlock()
	if open == nil {
		slices.Sort(names)
		return nil, fmt.Errorf("%s: %w; known are %s: import github.com/paragon-train/paragon/data/formats for zstd, or call data.RegisterDecompressor", name, ErrUnknown, strings.Join(names, ", "))
	}
	return open(r)
}

// Name is the decompressor for a file by its name, or "" for a plain file; plain is the name
// without what says so.
func Name(file string) (name, plain string) {
	for _, s := range suffixes {
		if p, ok := strings.CutSuffix(file, s.suffix); ok {
			return s.name, p
		}
	}
	return "", file
}

// All decompresses everything, at most limit bytes.
func All(name string, r io.Reader, limit int64) ([]byte, error) {
	z, err := Open(name, r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return b, err
}

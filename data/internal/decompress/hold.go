package decompress

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// Held is a store with one object, whose bytes are in memory.
type Held struct {
	url    string
	object objects.Info
	bytes  []byte
}

// Hold makes a store of what came out of a compressed object. It has the object's name.
func Hold(under objects.Store, object objects.Info, b []byte) *Held {
	return &Held{under.URL(), objects.Info{Name: object.Name, Size: int64(len(b))}, b}
}

// Object describes what is held.
func (h *Held) Object() objects.Info { return h.object }

// URL implements objects.Store.
func (h *Held) URL() string { return h.url }

// List implements objects.Store.
func (h *Held) List(context.Context, string) iter.Seq2[objects.Info, error] {
	return func(yield func(objects.Info, error) bool) { yield(h.object, nil) }
}

// Stat implements objects.Store.
func (h *Held) Stat(_ context.Context, name string) (objects.Info, error) {
	if name != h.object.Name {
		return objects.Info{}, fmt.Errorf("%s: %s: %w", h.url, name, fs.ErrNotExist)
	}
	return h.object, nil
}

// ReadRange implements objects.Store.
func (h *Held) ReadRange(_ context.Context, object objects.Info, p []byte, off int64) error {
	if off < 0 || off > int64(len(h.bytes)) || copy(p, h.bytes[off:]) < len(p) {
		return fmt.Errorf("%s: %s: bytes %d to %d: %w", h.url, object.Name, off, off+int64(len(p)), io.ErrUnexpectedEOF)
	}
	return nil
}

// Close implements objects.Store.
func (h *Held) Close() error { return nil }

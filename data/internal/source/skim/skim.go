// Package skim reads small pieces of a large object in rising order, such as the heads of the
// members of an archive, to index it.
package skim

import (
	"context"
	"errors"
	"io"

	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// Window is how much of a local file is read at once: a head, and often what is small behind it.
const Window = 4096

// A Reader reads pieces. In a local file each is a small read. Elsewhere, where a request takes
// longer than the bytes between two pieces, these are read as well, in large requests ahead; long
// stretches are jumped over.
type Reader struct {
	ctx    context.Context
	store  objects.Store
	object objects.Info

	// stream is nil if the file is local.
	stream *objects.Reader

	window []byte

	// start is that of the window.
	start int64
}

// New makes a reader, which reads until ctx ends.
func New(ctx context.Context, store objects.Store, object objects.Info) *Reader {
	r := &Reader{ctx: ctx, store: store, object: object}
	if !sidecar.Local(store) {
		r.stream = objects.NewReader(ctx, store, object)
	}
	return r
}

// Read fills p, which lies within the object.
func (r *Reader) Read(p []byte, off int64) error {
	if r.stream != nil {
		if _, err := r.stream.Seek(off, io.SeekStart); err != nil {
			return err
		}
		_, err := io.ReadFull(r.stream, p)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if len(p) > Window {
		return r.store.ReadRange(r.ctx, r.object, p, off)
	}
	if off < r.start || off+int64(len(p)) > r.start+int64(len(r.window)) {
		n := max(0, min(Window, r.object.Size-off))
		if cap(r.window) == 0 {
			r.window = make([]byte, Window)
		}
		r.start, r.window = off, r.window[:n]
		if err := r.store.ReadRange(r.ctx, r.object, r.window, off); err != nil {
			r.window = r.window[:0]
			return err
		}
		if n < int64(len(p)) {
			return io.ErrUnexpectedEOF
		}
	}
	copy(p, r.window[off-r.start:])
	return nil
}

// Close waits for what is read ahead. The store stays open.
func (r *Reader) Close() error {
	if r.stream != nil {
		return r.stream.Close()
	}
	return nil
}

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Sizes of the reads of a Reader: the first after a jump, and the largest.
const (
	firstRead   = 64 << 10
	largestRead = 4 << 20
)

// A Reader reads one object. Reads in sequence, also with short jumps ahead, are buffered, and the
// next bytes are read meanwhile. ReadAt is not buffered. Read and Seek belong to one goroutine;
// ReadAt may be called from several at once.
type Reader struct {
	ctx    context.Context
	store  Store
	object Info

	// at is where the next Read begins.
	at int64

	// buf has the object's bytes from start on.
	buf []byte

	start int64

	// size is how much is read ahead the next time.
	size int

	// ahead gets what is being read ahead; nil: nothing is.
	ahead chan readDone

	// next is where the read under way begins.
	next int64

	spare []byte
}

// A readDone is the outcome of a read ahead.
type readDone struct {
	p   []byte
	err error
}

// NewReader makes a Reader. It reads until ctx ends. A reader that is left before its end is closed
// before its store.
func NewReader(ctx context.Context, store Store, object Info) *Reader {
	return &Reader{ctx: ctx, store: store, object: object, size: firstRead}
}

// Size is the object's length in bytes.
func (r *Reader) Size() int64 { return r.object.Size }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.at >= r.object.Size {
		return 0, io.EOF
	}
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(p, r.buf[r.at-r.start:])
	r.at += int64(n)
	return n, nil
}

// fill brings the byte at r.at into the buffer.
func (r *Reader) fill() error {
	if r.at >= r.start && r.at < r.start+int64(len(r.buf)) {
		return nil
	}
	for {
		if r.ahead == nil {
			// A jump: what comes next is not known.
			r.size = firstRead
			r.readAhead(r.at)
		}
		done, from := <-r.ahead, r.next
		r.ahead = nil
		if r.at < from || r.at >= from+int64(len(done.p)) {
			r.spare = done.p
			continue
		}
		if done.err != nil {
			return done.err
		}
		r.spare, r.buf, r.start = r.buf, done.p, from
		if end := from + int64(len(done.p)); end < r.object.Size {
			r.size = min(2*r.size, largestRead)
			r.readAhead(end)
		}
		return nil
	}
}

// readAhead begins to read at an offset.
func (r *Reader) readAhead(off int64) {
	n := int(min(int64(r.size), r.object.Size-off))
	p := r.spare[:0]
	r.spare = nil
	if cap(p) < n {
		p = make([]byte, n)
	}
	p = p[:n]
	done := make(chan readDone, 1)
	r.ahead, r.next = done, off
	go func() { done <- readDone{p, r.store.ReadRange(r.ctx, r.object, p, off)} }()
}

// ReadAt implements io.ReaderAt.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("objects: read %s: got offset %d, want at least 0", r.object.Name, off)
	}
	n := int(max(0, min(int64(len(p)), r.object.Size-off)))
	if n > 0 {
		if err := r.store.ReadRange(r.ctx, r.object, p[:n], off); err != nil {
			return 0, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.object.Size
	default:
		return 0, errors.New("objects: seek: unknown whence")
	}
	if offset < 0 {
		return 0, fmt.Errorf("objects: seek in %s: got offset %d, want at least 0", r.object.Name, offset)
	}
	r.at = offset
	return offset, nil
}

// Close waits for the read that is under way, if there is one. The store stays open.
func (r *Reader) Close() error {
	if r.ahead != nil {
		<-r.ahead
		r.ahead = nil
	}
	r.buf, r.spare = nil, nil
	return nil
}

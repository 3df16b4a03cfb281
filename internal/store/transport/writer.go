package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/freelist"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A frameWriter writes the frames of many goroutines to one connection.
//
// Small frames are copied into a batch, which the writer's own goroutine writes: the sender does
// not wait for the connection, and frames of many senders share a system call. Large frames are
// written from the sender's memory. They wait in a queue, lower order first; the sender that holds
// the token writes the queue for all, up to vectorBytes at a time.
type frameWriter struct {
	nc net.Conn
	// dead is closed when the connection is closed.
	dead <-chan struct{}
	// limit says that frames that have begun must pass within frameTime.
	limit bool
	count traffic

	// token holds one value while no goroutine writes.
	token chan struct{}
	// wake says that the batch is no longer empty.
	wake chan struct{}

	// mu guards the two.
	mu sync.Mutex
	// batch has small frames to be written.
	batch []byte
	// queue has large frames to be written, by order, then by arrival.
	queue []*frame

	// Of the token's holder:
	// spare is the second buffer of the batch.
	spare []byte
	// vector has the large frames that are being written, iov their pieces, and rest the part
	// of iov that is not written yet.
	vector []*frame
	iov    [][]byte
	rest   net.Buffers
	// timed says that the connection has a deadline for writes.
	timed bool

	frames freelist.List[frame]
}

// A frame is a large frame, from when its sender queues it until it has been written. The goroutine
// that takes it out of the queue sends on done, once: the token's holder, or the sender itself,
// which then does not wait.
type frame struct {
	// head has the header and the head.
	head    []byte
	payload [][]byte
	size    int
	order   uint64
	done    chan error
}

func newFrameWriter(nc net.Conn, dead <-chan struct{}, limit bool, count traffic) *frameWriter {
	w := &frameWriter{nc: nc, dead: dead, limit: limit, count: count, token: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	w.token <- struct{}{}
	return w
}

// payloadSize is the number of bytes of a payload.
func payloadSize(payload [][]byte) int {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	return size
}

// appendFrame appends header and head of a frame to b. It fails, and appends nothing, if the frame
// is beyond the limits.
func appendFrame(b []byte, id uint32, m wire.Message, payload int) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, wire.HeaderSize)...)
	l, lent := m.(*lentMessage)
	if lent {
		m = l.Message
	}
	b = wire.AppendHead(b, m)
	h := wire.Header{Kind: m.Kind(), Head: len(b) - at - wire.HeaderSize, Payload: payload, ID: id, Lent: lent}
	if err := h.Check(); err != nil {
		return b[:at], err
	}
	h.Put(b[at:])
	return b, nil
}

// writeSmall copies the frame into the batch, unless the frame is large or the batch is full.
func (w *frameWriter) writeSmall(id uint32, m wire.Message, size int, payload [][]byte) (taken bool, err error) {
	taken, err = w.collectSmall(id, m, size, payload)
	if taken {
		w.wakeWriter()
	}
	return taken, err
}

// wakeWriter wakes the goroutine that writes the batch.
func (w *frameWriter) wakeWriter() {
	select {
	case w.wake <- struct{}{}:
	default:
		// A token is there, and the woken goroutine writes this frame, too.
	}
}

// collectSmall is writeSmall without a wake-up: the frame is written with the next wakeWriter or
// flushBatch.
func (w *frameWriter) collectSmall(id uint32, m wire.Message, size int, payload [][]byte) (taken bool, err error) {
	if size > smallFrame {
		return false, nil
	}
	w.mu.Lock()
	if len(w.batch) > batchLimit {
		w.mu.Unlock()
		return false, nil
	}
	w.batch, err = appendFrame(w.batch, id, m, size)
	if err == nil {
		for _, p := range payload {
			w.batch = append(w.batch, p...)
		}
	}
	w.mu.Unlock()
	return err == nil, err
}

// flushBatch writes the batch on the caller's goroutine, if no other writes or waits to; else it
// wakes the writer.
func (w *frameWriter) flushBatch() error {
	select {
	case <-w.token:
	default:
		w.wakeWriter()
		return nil
	}
	w.mu.Lock()
	alone := len(w.queue) == 0
	w.mu.Unlock()
	var err error
	if alone {
		_, err = w.next(noCancel)
	} else {
		w.wakeWriter()
	}
	w.token <- struct{}{}
	return err
}

// run writes batches until the connection is closed. It calls fail with an error of the connection.
func (w *frameWriter) run(fail func(error)) {
	for {
		select {
		case <-w.wake:
		case <-w.dead:
			return
		}
		select {
		case <-w.token:
		case <-w.dead:
			return
		}
		// Senders that are ready to run add their frames first.
		runtime.Gosched()
		err := w.flush()
		w.token <- struct{}{}
		if err != nil {
			fail(err)
			return
		}
	}
}

// flush writes the batch and the queued large frames.
func (w *frameWriter) flush() error {
	for {
		if more, err := w.next(noCancel); err != nil || !more {
			return err
		}
	}
}

// writeLarge writes a frame from the sender's memory. It returns when that memory is no longer
// used. begun is false if nothing was written, because the frame is beyond the limits, ctx ended or
// the connection was closed before its turn: then the connection is as good as before. After an
// error with begun true the connection must be closed.
func (w *frameWriter) writeLarge(ctx context.Context, id uint32, m wire.Message, order uint64, size int, payload [][]byte) (begun bool, err error) {
	f := w.frames.Take()
	if f == nil {
		f = &frame{done: make(chan error, 1)}
	}
	defer w.recycle(f)
	if f.head, err = appendFrame(f.head[:0], id, m, size); err != nil {
		return false, err
	}
	f.payload, f.size, f.order = payload, size, order
	w.enqueue(f)
	ended, dead := ctx.Done(), w.dead
	for {
		select {
		case err := <-f.done:
			return true, err
		default:
		}
		select {
		case err := <-f.done:
			return true, err
		case <-w.token:
			if len(f.done) > 0 {
				// Another goroutine writes: its frames must not end with this ctx.
				w.token <- struct{}{}
				continue
			}
			if _, err := w.next(ctx); err != nil {
				// It does not matter which frame it was.
				w.nc.Close()
			}
			w.token <- struct{}{}
		case <-ended:
			if w.remove(f) {
				return false, ctx.Err()
			}
			ended = nil
			if !w.awaitWritten(f) {
				// Another goroutine's write ends now.
				w.nc.Close()
			}
		case <-dead:
			if w.remove(f) {
				return false, net.ErrClosed
			}
			dead = nil
		}
	}
}

// awaitWritten reports whether the frame has been written within grace; its result is still to be
// received.
func (w *frameWriter) awaitWritten(f *frame) bool {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-f.done:
		f.done <- err
		return true
	case <-late.C:
		return false
	}
}

// recycle keeps a frame for reuse, without what it was made of.
func (w *frameWriter) recycle(f *frame) {
	head := f.head[:0]
	if cap(head) > keepScratch {
		head = nil
	}
	*f = frame{head: head, done: f.done}
	w.frames.Keep(f)
}

func (w *frameWriter) enqueue(f *frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := len(w.queue)
	for at > 0 && w.queue[at-1].order > f.order {
		at--
	}
	w.queue = slices.Insert(w.queue, at, f)
}

// remove takes a frame out of the queue; false if another goroutine has taken it.
func (w *frameWriter) remove(f *frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.queue, f)
	if at < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, at, at+1)
	return true
}

// next writes the batch and the first large frames of the queue, for the holder of the token. more
// is false if there were none.
func (w *frameWriter) next(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	small := w.batch
	w.batch = w.spare[:0]
	n, size := 0, len(small)
	for n < len(w.queue) && (n == 0 || size+w.queue[n].size <= vectorBytes) {
		size += w.queue[n].size
		n++
	}
	w.vector = append(w.vector[:0], w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	w.mu.Unlock()
	w.spare = small[:0]
	if len(small) == 0 && n == 0 {
		return false, nil
	}
	iov := w.iov[:0]
	if len(small) > 0 {
		iov = append(iov, small)
	}
	heads := 0
	for _, f := range w.vector {
		iov = append(iov, f.head)
		heads += len(f.head)
		for _, p := range f.payload {
			if len(p) > 0 {
				iov = append(iov, p)
			}
		}
	}
	// Writing consumes rest.
	w.iov, w.rest = iov, iov
	if err = w.writeRest(ctx, size); err == nil {
		w.count.sent(size + heads)
	}
	clear(iov)
	for i, f := range w.vector {
		w.vector[i] = nil
		f.done <- err
	}
	return true, err
}

// writeRest writes rest. It returns within grace of ctx's end: the write has a deadline of that
// length, after which ctx is checked, so that no goroutine has to watch ctx.
func (w *frameWriter) writeRest(ctx context.Context, size int) (err error) {
	vectors, _ := w.nc.(vectorWriter)
	defer func() {
		if vectors != nil && err != nil {
			vectors.withdraw()
		}
	}()
	var end time.Time
	if w.limit || ctx.Done() != nil {
		end = time.Now().Add(frameTime(size))
	}
	for {
		switch {
		case ctx.Done() != nil:
			w.deadline(time.Now().Add(grace))
		case w.limit:
			w.deadline(end)
		default:
			w.deadline(time.Time{})
		}
		if vectors != nil {
			err = vectors.writeVector(&w.rest)
		} else {
			_, err = w.rest.WriteTo(w.nc)
		}
		if err == nil || ctx.Done() == nil || ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if w.limit && time.Now().After(end) {
			return err
		}
	}
}

// A vectorWriter is a connection that writes many pieces at once. After an error rest holds what is
// left, for the next call, and the peer may read from the memory that was in it until withdraw
// returns.
type vectorWriter interface {
	writeVector(rest *net.Buffers) error
	withdraw()
}

// deadline sets the connection's, for the holder of the token.
func (w *frameWriter) deadline(t time.Time) {
	if w.timed || !t.IsZero() {
		w.timed = !t.IsZero()
		w.nc.SetWriteDeadline(t)
	}
}

var noCancel = context.Background()

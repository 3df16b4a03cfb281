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

	"github.com/paragon-train/paragon/internal/wire"
)

// A frameWriter writes the frames of many goroutines to one connection.
//
// Small frames are copied into a batch, which a goroutine of the writer's own puts on the connection: the sender does not
// wait for the connection, and frames of many senders share a system call. Large frames are written from the memory they
// lie in. They wait in a queue, lower order first, and whoever of their senders holds the token writes what is in it, up
// to vectorBytes at a time, for all.
type frameWriter struct {
	nc    net.Conn
	dead  <-chan struct{} // closed when the connection is
	limit bool            // frames that have begun must pass within frameTime

	token chan struct{} // holds one value while nobody writes
	wake  chan struct{} // the batch is no longer empty

	mu    sync.Mutex // guards the two
	batch []byte     // small frames to be written
	queue []*frame   // large frames to be written, by order, then by arrival

	// Of the token's holder:
	spare  []byte      // the batch's other half
	vector []*frame    // large frames that are being written
	iov    [][]byte    // what they consist of
	rest   net.Buffers // what of iov is to be written
	timed  bool        // the connection has a deadline for writes

	frames spares[frame]
}

// A frame is a large one from when its sender puts it in the queue until it has been written. Whoever takes it out of the
// queue sends on done, once: the token's holder, or the sender itself, who then does not wait.
type frame struct {
	head    []byte // header and head
	payload [][]byte
	size    int
	order   uint64
	done    chan error
}

func newFrameWriter(nc net.Conn, dead <-chan struct{}, limit bool) *frameWriter {
	w := &frameWriter{nc: nc, dead: dead, limit: limit, token: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	w.token <- struct{}{}
	return w
}

func payloadSize(payload [][]byte) int {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	return size
}

// appendFrame appends header and head of a frame to b. It fails, and appends nothing, if the frame is beyond the limits.
func appendFrame(b []byte, id uint32, m wire.Message, payload int) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, wire.HeaderSize)...)
	b = m.AppendHead(b)
	h := wire.Header{Kind: m.Kind(), Head: len(b) - at - wire.HeaderSize, Payload: payload, ID: id}
	if err := h.Check(); err != nil {
		return b[:at], err
	}
	h.Put(b[at:])
	return b, nil
}

// small takes a copy of the frame to be written soon, unless the frame is large or too much waits already.
func (w *frameWriter) small(id uint32, m wire.Message, size int, payload [][]byte) (taken bool, err error) {
	taken, err = w.collect(id, m, size, payload)
	if taken {
		w.rouse()
	}
	return taken, err
}

// rouse has the batch written soon.
func (w *frameWriter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is due already and will find what is in the batch
	}
}

// collect is small, but the frame need not be written before the next rouse or flushBatch.
func (w *frameWriter) collect(id uint32, m wire.Message, size int, payload [][]byte) (taken bool, err error) {
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

// flushBatch writes the batch at once, on the goroutine that asks, if nobody else writes or waits to; else it is written soon.
func (w *frameWriter) flushBatch() error {
	select {
	case <-w.token:
	default:
		w.rouse()
		return nil
	}
	w.mu.Lock()
	alone := len(w.queue) == 0
	w.mu.Unlock()
	var err error
	if alone {
		_, err = w.next(noCancel)
	} else {
		w.rouse()
	}
	w.token <- struct{}{}
	return err
}

// run writes batches until the connection is closed. An error of the connection is given to fail.
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
		runtime.Gosched() // senders that are ready to run add their frames first
		err := w.flush()
		w.token <- struct{}{}
		if err != nil {
			fail(err)
			return
		}
	}
}

// flush writes the batch and what large frames wait.
func (w *frameWriter) flush() error {
	for {
		if more, err := w.next(noCancel); err != nil || !more {
			return err
		}
	}
}

// large writes a frame from the memory it lies in. It returns when that memory is no longer used. begun is false if nothing
// was written, because the frame is beyond the limits, ctx ended or the connection was closed before its turn: then the
// connection is as good as before. After an error with begun true the connection must be closed.
func (w *frameWriter) large(ctx context.Context, id uint32, m wire.Message, order uint64, size int, payload [][]byte) (begun bool, err error) {
	f := w.frames.take()
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
			if len(f.done) > 0 { // written by somebody else: others' frames are not to end with this ctx
				w.token <- struct{}{}
				continue
			}
			if _, err := w.next(ctx); err != nil {
				w.nc.Close() // whoever's frame it was
			}
			w.token <- struct{}{}
		case <-ended:
			if w.remove(f) {
				return false, ctx.Err()
			}
			ended = nil
			if !w.settle(f) {
				w.nc.Close() // somebody else's write, which ends now
			}
		case <-dead:
			if w.remove(f) {
				return false, net.ErrClosed
			}
			dead = nil
		}
	}
}

// settle tells whether the frame has been written within grace; what was said of it is still to be received.
func (w *frameWriter) settle(f *frame) bool {
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

func (w *frameWriter) recycle(f *frame) {
	head := f.head[:0]
	if cap(head) > keepScratch {
		head = nil
	}
	*f = frame{head: head, done: f.done}
	w.frames.give(f)
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

// remove takes a frame out of the queue; false if somebody has it.
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

// next writes the batch and the first large frames of the queue, for the holder of the token. more is false if there were none.
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
	for _, f := range w.vector {
		iov = append(iov, f.head)
		for _, p := range f.payload {
			if len(p) > 0 {
				iov = append(iov, p)
			}
		}
	}
	w.iov, w.rest = iov, iov // writing eats rest
	err = w.put(ctx, size)
	clear(iov)
	for i, f := range w.vector {
		w.vector[i] = nil
		f.done <- err
	}
	return true, err
}

// put writes rest. Within grace of ctx's end it is over; so that nobody has to watch over ctx, the write is looked after in
// turns of that length.
func (w *frameWriter) put(ctx context.Context, size int) (err error) {
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

// A vectorWriter is a connection that writes many pieces at once. After an error rest is what is left to be written, by
// another call alone, and the peer may read from what was in it until withdraw returns.
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

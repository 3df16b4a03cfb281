package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/paragon-train/paragon/wire"
)

// A frameWriter writes the frames of many goroutines to one connection.
//
// Small frames are copied into a batch, which a goroutine of the writer's own puts on the connection: the sender does not
// wait for the connection, and frames of many senders share a system call. A large frame is written by its sender from the
// memory it lies in. The token says whose turn it is.
type frameWriter struct {
	nc    net.Conn
	dead  <-chan struct{} // closed when the connection is
	limit bool            // frames that have begun must pass within frameTime

	token chan struct{} // holds one value while nobody writes
	wake  chan struct{} // the batch is no longer empty

	mu    sync.Mutex
	batch []byte // small frames to be written; guarded by mu

	spare []byte      // the batch's other half; of the token's holder
	head  []byte      // header and head of a large frame; of the token's holder
	iov   [][]byte    // of the token's holder
	rest  net.Buffers // what of iov is to be written
	timed bool        // the connection has a deadline for writes
}

func newFrameWriter(nc net.Conn, dead <-chan struct{}, limit bool) *frameWriter {
	w := &frameWriter{nc: nc, dead: dead, limit: limit, token: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	w.token <- struct{}{}
	return w
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
	if err != nil {
		return false, err
	}
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is due already and will find this frame
	}
	return true, nil
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

func (w *frameWriter) flush() error {
	for {
		w.mu.Lock()
		b := w.batch
		w.batch = w.spare[:0]
		w.mu.Unlock()
		w.spare = b[:0]
		if len(b) == 0 {
			return nil
		}
		if w.limit {
			w.deadline(time.Now().Add(frameTime(len(b))))
		} else {
			w.deadline(time.Time{})
		}
		if _, err := w.nc.Write(b); err != nil {
			return err
		}
	}
}

// large writes a frame from the memory it lies in. It returns when that memory is no longer used. begun is false if nothing
// was written, because the frame is beyond the limits, ctx ended or the connection was closed before its turn: then the
// connection is as good as before. After an error with begun true the connection must be closed.
func (w *frameWriter) large(ctx context.Context, id uint32, m wire.Message, size int, payload [][]byte) (begun bool, err error) {
	select {
	case <-w.token:
	default:
		select {
		case <-w.token:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-w.dead:
			return false, net.ErrClosed
		}
	}
	defer func() { w.token <- struct{}{} }()
	if w.head, err = appendFrame(w.head[:0], id, m, size); err != nil {
		return false, err
	}
	iov := append(w.iov[:0], w.head)
	for _, p := range payload {
		if len(p) > 0 {
			iov = append(iov, p)
		}
	}
	w.iov, w.rest = iov, iov // WriteTo eats its receiver
	defer clear(iov)
	if cap(w.head) > keepScratch {
		w.head = nil
	}
	return true, w.put(ctx, size)
}

// put writes rest. Within grace of ctx's end it is over; so that nobody has to watch over ctx, the write is looked after in
// turns of that length.
func (w *frameWriter) put(ctx context.Context, size int) error {
	now := time.Now()
	end := now.Add(frameTime(size))
	for {
		switch {
		case ctx.Done() != nil:
			w.deadline(now.Add(grace))
		case w.limit:
			w.deadline(end)
		default:
			w.deadline(time.Time{})
		}
		_, err := w.rest.WriteTo(w.nc)
		if err == nil || ctx.Done() == nil || ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if now = time.Now(); w.limit && now.After(end) {
			return err
		}
	}
}

// deadline sets the connection's, for the holder of the token.
func (w *frameWriter) deadline(t time.Time) {
	if w.timed || !t.IsZero() {
		w.timed = !t.IsZero()
		w.nc.SetWriteDeadline(t)
	}
}

package resume

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A link is a stream's connection.
type link struct {
	conn   net.Conn
	closed chan struct{}
	once   sync.Once

	// wake gets something when there may be something to send.
	wake chan struct{}

	// Guarded by Stream.mu:

	// ready says that the other end's first frame has come.
	ready bool

	// sent is the position up to which out was sent over this connection. The end counts as one.
	sent uint64

	// told is the value of read in the last frame that was sent.
	told uint64

	// lingering says that the stream is complete: the last acknowledgement goes out, and nothing is
	// expected but the end of the connection.
	lingering bool
}

// close closes the connection now. Package tls would first send an alert, and wait for that.
func (l *link) close() {
	l.once.Do(func() {
		if t, ok := l.conn.(interface{ NetConn() net.Conn }); ok {
			t.NetConn().Close()
		} else {
			l.conn.Close()
		}
		close(l.closed)
	})
}

// linger lets the last frame go out. The other end closes the connection when it has it, or the
// limit does.
func (l *link) linger(limit time.Duration) {
	l.lingering = true
	l.conn.SetReadDeadline(time.Now().Add(limit))
	l.notify()
}

// notify wakes the goroutine that writes.
func (l *link) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Attach gives the stream a connection in place of the one it has. What it returns is closed when
// that is closed, so that the stream needs another one, or is over.
func (s *Stream) Attach(conn net.Conn) (broken <-chan struct{}) {
	l := &link{conn: conn, closed: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		l.close()
		return l.closed
	}
	if s.link != nil {
		s.link.close()
	}
	s.link = l
	if s.in = (ring{}); !s.readEnd {
		s.inEnd = false
	}

	// Whoever made the connection has just heard the other end.
	s.came = time.Now()
	s.renewed = s.came
	s.links.Go(func() {
		if !s.send(l) {
			s.detach(l)
		}
	})
	s.links.Go(func() {
		s.receive(l)
		s.detach(l)
	})
	return l.closed
}

// detach takes the connection from the stream if it still has it. What was not acknowledged is sent
// again over the next one.
func (s *Stream) detach(l *link) {
	l.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		s.link = nil
	}
}

// wake lets the sender look for something to send; the caller holds the lock.
func (s *Stream) wake() {
	if s.link != nil {
		s.link.notify()
	}
}

// wakeToAcknowledge wakes the sender when the other end may wait for what was read; else the next
// frame is early enough. The caller holds the lock.
func (s *Stream) wakeToAcknowledge() {
	if s.link != nil && s.mustAcknowledge(s.link) {
		s.link.notify()
	}
}

func (s *Stream) mustAcknowledge(l *link) bool {
	return s.read-l.told >= Window/4 || s.readEnd && s.read != l.told
}

// send sends frames until the connection breaks. It reports whether it has sent the last one of a
// complete stream.
func (s *Stream) send(l *link) (last bool) {
	// The first frame goes out at once.
	ping := time.NewTimer(0)
	defer ping.Stop()
	var buf []byte
	due := false
	for {
		s.mu.Lock()

		// A ping that is due means that nothing has been sent for a while.
		if due {
			s.in.release()
			s.out.release()
		}
		f, ok := s.next(l, due)
		last = l.lingering && s.read == l.told
		if ok {
			buf = f.appendHead(buf[:0])
			if f.n > 0 {
				buf = append(buf, make([]byte, f.n)...)
				s.out.copyAt(buf[headSize:], int(l.sent-s.acked))
				l.sent += uint64(f.n)
			}
		}
		s.mu.Unlock()
		switch {
		case ok:
			l.conn.SetWriteDeadline(time.Now().Add(s.silence()))
			if _, err := l.conn.Write(buf); err != nil {
				return false
			}
			ping.Reset(s.ping())
			due = false
			continue
		case last:
			if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
				c.CloseWrite()
				return true
			}
			return false
		}
		select {
		case <-l.wake:
		case <-ping.C:
			due = true
		case <-l.closed:
			return false
		}
	}
}

// next is the next frame to send, if there is one; due says that it is time to send something. The
// caller holds the lock, and sends the data.
func (s *Stream) next(l *link, due bool) (f frame, ok bool) {
	f = frame{kind: kindIdle, read: s.read, age: time.Since(s.came)}
	switch {
	case s.over && !l.lingering:
		return f, false
	case !l.ready || s.over:
		ok = due || s.mustAcknowledge(l)
	case l.sent < s.written:
		f.kind, f.n, ok = kindData, int(min(s.written-l.sent, maxData)), true
	case s.outEnd && l.sent == s.written:
		f.kind, ok = kindEnd, true
		l.sent++
	default:
		ok = due || s.mustAcknowledge(l)
	}
	if ok {
		l.told = f.read
	}
	return f, ok
}

// errDetached ends the goroutines of a connection that another one has replaced.
var errDetached = errors.New("the connection no longer belongs to the stream")

// receive takes what comes until the connection breaks.
func (s *Stream) receive(l *link) error {
	r := bufio.NewReaderSize(&timedReader{s, l}, 16<<10)
	for {
		head, err := r.Peek(headSize)
		if err != nil {
			return err
		}
		f, err := parseHead(head)
		if err := s.accept(l, f, err); err != nil {
			return err
		}
		r.Discard(headSize)
		for f.n > 0 {
			if _, err := r.Peek(1); err != nil {
				return err
			}
			b, _ := r.Peek(min(f.n, r.Buffered()))
			if err := s.store(l, b); err != nil {
				return err
			}
			r.Discard(len(b))
			f.n -= len(b)
		}
	}
}

// accept takes the head of a frame; invalid says why it cannot.
func (s *Stream) accept(l *link, f frame, invalid error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l || s.over && !l.lingering {
		return errDetached
	}
	if l.lingering {
		return nil
	}
	most := l.sent
	if !l.ready {
		if most = s.written; s.outEnd {
			most++
		}
	}
	switch {
	case invalid != nil:
	case f.read < s.acked || f.read > most:
		invalid = fmt.Errorf("it has read up to %d, want %d to %d", f.read, s.acked, most)
	case f.kind != kindIdle && s.inEnd:
		invalid = fmt.Errorf("frame of kind %q after the end", byte(f.kind))
	case f.n > Window-s.in.n:
		invalid = fmt.Errorf("%d bytes besides %d that were not read, want at most %d", f.n, s.in.n, Window)
	}
	if invalid != nil {
		s.end(fmt.Errorf("%w: %w", ErrProtocol, invalid))
		return invalid
	}
	s.came = time.Now()
	if at := s.came.Add(-f.age); !s.holder {
		s.renewed = s.came
	} else if at.After(s.renewed) {
		s.renewed = at
	}
	if !l.ready {
		l.ready, l.sent = true, f.read
		l.notify()
	}
	if f.read > s.acked {
		s.out.discard(int(min(f.read, s.written) - s.acked))
		s.acked = f.read
		s.writable.Broadcast()
	}
	if f.kind == kindEnd {
		s.inEnd = true
		s.readable.Broadcast()
	}
	s.endIfComplete()
	return nil
}

// store takes bytes of a frame.
func (s *Stream) store(l *link, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l || s.over {
		return errDetached
	}
	s.in.append(b)
	s.readable.Broadcast()
	return nil
}

// A timedReader reads from a link, and fails after silence.
type timedReader struct {
	s *Stream
	l *link
}

func (r *timedReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	if !r.l.lingering {
		r.l.conn.SetReadDeadline(time.Now().Add(r.s.silence()))
	}
	r.s.mu.Unlock()
	return r.l.conn.Read(p)
}

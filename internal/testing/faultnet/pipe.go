package faultnet

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A half is one direction of a connection: a bounded buffer of bytes, each piece with the time at
// which it arrives.
type half struct {
	mu     sync.Mutex
	cond   sync.Cond
	pieces []piece
	size   int
	// readErr is what a reader gets once the buffer is empty, or at once if the half is aborted.
	readErr error
	// writeErr is what a writer gets.
	writeErr error
	// aborted says that the reader gets readErr at once.
	aborted bool
	// left says that the writing end was closed.
	left bool
	// dropping says that written bytes vanish.
	dropping bool
	last     time.Time
	read     deadline
	write    deadline
}

type piece struct {
	b []byte
	// at is when the piece may be read; zero: at once.
	at time.Time
}

// window is how many bytes a direction holds before writers wait.
const window = 256 << 10

func newHalf() *half {
	h := new(half)
	h.cond.L = &h.mu
	return h
}

// A deadline wakes the waiters of a half when it passes.
type deadline struct {
	t     time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.t.IsZero() && !time.Now().Before(d.t) }

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.t = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), h.wake)
	}
	h.cond.Broadcast()
}

// wake lets all waiters look again. It takes the lock so that it cannot fall between a waiter's
// look and its wait.
func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cond.Broadcast()
}

// Write takes the delay of its bytes from the caller: locks are taken from the Network's to a
// half's, never back.
func (h *half) Write(b []byte, delay time.Duration) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.left:
			return n, net.ErrClosed
		case h.write.passed():
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		case h.dropping:
			return n + len(b), nil
		case h.writeErr != nil:
			return n, h.writeErr
		case h.size >= window:
			h.cond.Wait()
			continue
		}
		k := min(len(b), window-h.size)
		p := piece{b: append([]byte(nil), b[:k]...)}
		if delay > 0 || !h.last.IsZero() {
			p.at = time.Now().Add(delay)
			if p.at.Before(h.last) {
				// Bytes stay in order.
				p.at = h.last
			}
			h.last = p.at
			time.AfterFunc(time.Until(p.at), h.wake)
		}
		h.pieces = append(h.pieces, p)
		h.size += k
		n += k
		b = b[k:]
		h.cond.Broadcast()
	}
}

func (h *half) Read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.aborted:
			return 0, h.readErr
		case h.read.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(h.pieces) > 0 && !time.Now().Before(h.pieces[0].at):
			p := &h.pieces[0]
			n := copy(b, p.b)
			if p.b = p.b[n:]; len(p.b) == 0 {
				h.pieces = h.pieces[1:]
			}
			h.size -= n
			h.cond.Broadcast()
			return n, nil
		case len(h.pieces) == 0 && h.readErr != nil:
			return 0, h.readErr
		}
		h.cond.Wait()
	}
}

// closeRead is the reading end's Close: bytes in transit are lost, and the writer gets an error,
// unless the link drops everything.
func (h *half) closeRead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readErr, h.aborted = net.ErrClosed, true
	if h.writeErr == nil {
		h.writeErr = syscall.EPIPE
	}
	h.pieces = nil
	h.stop(&h.read)
}

// closeWrite is the writing end's Close: the reader gets what was written and then io.EOF, unless
// nothing reaches it.
func (h *half) closeWrite() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = true
	if !h.dropping && h.readErr == nil {
		h.readErr = io.EOF
	}
	h.stop(&h.write)
}

// reset ends the direction for both ends at once.
func (h *half) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.aborted {
		h.readErr, h.aborted = syscall.ECONNRESET, true
	}
	h.writeErr, h.dropping, h.pieces = syscall.ECONNRESET, false, nil
	h.cond.Broadcast()
}

// sever ends the direction for its writer at once; the reader gets the bytes in transit, up to late
// later, and then a reset.
func (h *half) sever(late time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil {
		h.readErr = syscall.ECONNRESET
	}
	h.writeErr, h.dropping = syscall.ECONNRESET, false
	if late > 0 && len(h.pieces) > 0 {
		now := time.Now()
		for i := range h.pieces {
			if h.pieces[i].at.Before(now) {
				h.pieces[i].at = now
			}
			h.pieces[i].at = h.pieces[i].at.Add(late)
			time.AfterFunc(time.Until(h.pieces[i].at), h.wake)
		}
	}
	h.cond.Broadcast()
}

// die ends the direction for its writer, which was killed. The reader gets the bytes in transit and
// then a reset, or nothing.
func (h *half) die(silent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = true
	switch {
	case silent:
		h.dropping = true
	case !h.dropping && h.readErr == nil:
		h.readErr = syscall.ECONNRESET
	}
	h.stop(&h.write)
}

// orphan ends the direction for its reader, which was killed. The writer gets an error, or writes
// to nowhere.
func (h *half) orphan(silent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readErr, h.aborted, h.pieces, h.size = syscall.ECONNRESET, true, nil, 0
	if silent {
		h.dropping = true
	} else if h.writeErr == nil && !h.dropping {
		h.writeErr = syscall.ECONNRESET
	}
	h.stop(&h.read)
}

// drop makes all bytes vanish from now on. There is no way back but reset: the stream has a hole.
func (h *half) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropping = true
	h.cond.Broadcast()
}

func (h *half) lossy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropping
}

// stop stops a deadline's timer and wakes all waiters; the caller holds the lock.
func (h *half) stop(d *deadline) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	h.cond.Broadcast()
}

// A conn is one end of a connection.
type conn struct {
	net *Network
	// host is the host whose end it is.
	host          *Host
	rng           *rand.Rand
	pair          *pair
	in, out       *half
	local, remote addr
}

func (c *conn) Read(b []byte) (int, error) {
	c.host.awake()
	n, err := c.in.Read(b)
	// The host may have been frozen meanwhile.
	c.host.awake()
	if err != nil && !errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: "fault", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.host.awake()
	n, err := c.out.Write(b, c.net.delay(c))
	if err != nil {
		err = &net.OpError{Op: "write", Net: "fault", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

// Close ends this end's calls; the other end reads what was written and then io.EOF, or nothing
// ever if the link drops.
func (c *conn) Close() error {
	c.in.closeRead()
	c.out.closeWrite()
	c.net.forget(c.pair)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.read, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.write, t)
	return nil
}

package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socketConn reads and writes a socket without telling the Go scheduler of each system call.
// Sockets do not block: a call is a copy within memory, some hundred microseconds at most. The
// scheduler takes a call of more than 20 µs for one that waits: it hands the processor to another
// thread, and the goroutine has to get one again. On few cores that took a tenth of the CPU time of
// large frames. What cannot be read or written at once waits in the runtime's poller, as with every
// connection, and ends with the connection's deadlines.
type socketConn struct {
	net.Conn
	// kind is as telemetry.SentBytes has it.
	kind int

	raw   syscall.RawConn
	read  socketRead
	write socketWrite
}

// callBytes is the most that one system call moves. During the call, some hundred microseconds, a
// garbage collection cannot stop the goroutine.
const callBytes = 1 << 20

// maxPieces is the most that Linux takes in one call.
const maxPieces = 1024

// A socketRead is a read under way.
type socketRead struct {
	// mu is held by Read.
	mu  sync.Mutex
	p   []byte
	n   int
	err error
	try func(fd uintptr) (done bool)
}

// A socketWrite is a write under way.
type socketWrite struct {
	// mu is held by writeVector.
	mu   sync.Mutex
	rest *net.Buffers
	iov  []unix.Iovec
	err  error
	try  func(fd uintptr) (done bool)
}

// newSocketConn returns nc with system calls of its own, or nc where it has no file descriptor.
func newSocketConn(nc net.Conn, kind int) net.Conn {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nc
	}
	c := &socketConn{Conn: nc, kind: kind, raw: raw}
	c.read.try, c.write.try = c.read.once, c.write.all
	return c
}

// transport is for trafficOf.
func (c *socketConn) transport() int { return c.kind }

// Read implements net.Conn.
func (c *socketConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r := &c.read
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p, r.n, r.err = p, 0, nil
	err := c.raw.Read(r.try)
	r.p = nil
	switch {
	// It was closed, or its deadline has passed.
	case err != nil:
		return 0, err
	case errors.Is(r.err, io.EOF):
		return 0, io.EOF
	case r.err != nil:
		return 0, c.opError("read", r.err)
	}
	acquired()
	return r.n, nil
}

// once reads what is there.
func (r *socketRead) once(fd uintptr) (done bool) {
	p := r.p[:min(len(r.p), callBytes)]
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			if r.n = int(n); n == 0 {
				r.err = io.EOF
			}
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			r.err = errno
			return true
		}
	}
}

// Write implements net.Conn.
func (c *socketConn) Write(p []byte) (int, error) {
	rest := net.Buffers{p}
	err := c.writeVector(&rest)
	return len(p) - payloadSize(rest), err
}

// writeVector implements vectorWriter.
func (c *socketConn) writeVector(rest *net.Buffers) error {
	w := &c.write
	w.mu.Lock()
	defer w.mu.Unlock()
	released()
	w.rest, w.err = rest, nil
	err := c.raw.Write(w.try)
	w.rest = nil
	if err == nil && w.err != nil {
		err = c.opError("write", w.err)
	}
	return err
}

// all writes until nothing is left or the socket is full.
func (w *socketWrite) all(fd uintptr) (done bool) {
	for {
		w.vector()
		if len(w.iov) == 0 {
			return true
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(w.iov))), uintptr(len(w.iov)))
		clear(w.iov)
		switch errno {
		case 0:
			consume((*[][]byte)(w.rest), int(n))
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			w.err = errno
			return true
		}
	}
}

// vector puts the first callBytes of rest into iov.
func (w *socketWrite) vector() {
	w.iov = w.iov[:0]
	size := 0
	for _, p := range *w.rest {
		if p = p[:min(len(p), callBytes-size)]; len(p) == 0 {
			continue
		}
		v := unix.Iovec{Base: unsafe.SliceData(p)}
		v.SetLen(len(p))
		w.iov = append(w.iov, v)
		if size += len(p); size == callBytes || len(w.iov) == maxPieces {
			return
		}
	}
}

// withdraw does nothing: the peer does not read the caller's memory.
func (c *socketConn) withdraw() {}

func (c *socketConn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}

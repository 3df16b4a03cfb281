package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/identity"
)

const (
	// sealedBytes is how much plaintext is sealed before it is written: one call of the system
	// writes 16 records of TLS, which are still in a core's cache.
	sealedBytes = 256 << 10
	// heldBytes is the most that waits sealed. What is beyond sealedBytes are answers to a peer
	// that asks for new keys again and again.
	heldBytes = 1 << 20
	// recordBytes is the plaintext of a full record of TLS.
	recordBytes = 16 << 10
	// recordsOfKeys is how many records one direction of a connection may carry before new
	// calls take a new connection. With one key AES-GCM may seal 2^24.5 of them (RFC 8446,
	// 5.5), and package tls never changes keys by itself.
	recordsOfKeys = 1 << 24
)

// An Identity says who a process of a job is: a key with a certificate of the job's own authority.
// Package launch makes them, cluster.FromEnv reads them.
type Identity = identity.Identity

// A secureConn is a connection under TLS 1.3.
//
// After a write that ran into its deadline package tls takes the connection for broken. Here a
// deadline only lets a writer see whether it is still to go on, where a peer reads slowly. So tls
// writes into memory, which never waits (heldConn), and what it has sealed goes from there to the
// connection, each time from where the last write stopped.
type secureConn struct {
	*tls.Conn
	under *heldConn

	// writing is held by writes.
	writing sync.Mutex
	// small has pieces that share a record.
	small []byte

	// out is how many records were sealed, and in how many were opened at least.
	out atomic.Int64
	in  atomic.Int64
}

// A heldConn is what package tls reads from and writes to. After hold it keeps what is written,
// until flush.
type heldConn struct {
	net.Conn

	// mu guards the rest.
	mu   sync.Mutex
	held bool
	// buf is sealed, and not written yet.
	buf []byte
}

func (c *heldConn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// Write implements net.Conn for package tls. It never waits once the handshake is over.
func (c *heldConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return c.Conn.Write(b)
	}
	if len(c.buf)+len(b) > heldBytes {
		return 0, errors.New("TLS: the peer asks for new keys faster than it reads")
	}
	c.buf = append(c.buf, b...)
	return len(b), nil
}

// flush writes what is held, from where the last flush stopped. One goroutine at a time flushes.
func (c *heldConn) flush() error {
	for {
		c.mu.Lock()
		out := c.buf
		c.mu.Unlock()
		if len(out) == 0 {
			return nil
		}
		// While the connection takes its time, Write may append: behind out, or to a larger
		// copy.
		n, err := c.Conn.Write(out)
		c.mu.Lock()
		c.buf = c.buf[:copy(c.buf, c.buf[n:])]
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// secureToServer runs the TLS handshake of the dialling end. The server ends it, because it checks
// the client's certificate last.
func secureToServer(nc net.Conn, cfg *tls.Config) (net.Conn, error) {
	under := &heldConn{Conn: nc}
	c := tls.Client(under, cfg)
	err := c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		return nil, secureError(err)
	}
	under.hold()
	return &secureConn{Conn: c, under: under}, nil
}

// secureToClient runs the TLS handshake of the accepting end.
func secureToClient(nc net.Conn, cfg *tls.Config) (conn net.Conn, role string, err error) {
	under := &heldConn{Conn: nc}
	c := tls.Server(under, cfg)
	if err := c.Handshake(); err != nil {
		return nil, "", secureError(err)
	}
	if role, err = identity.RoleOf(c.ConnectionState()); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrAuth, err)
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return nil, "", secureError(err)
	}
	under.hold()
	return &secureConn{Conn: c, under: under}, role, nil
}

// secureError separates a handshake that one of the ends refused from a connection that broke.
func secureError(err error) error {
	if broken(err) {
		return fmt.Errorf("TLS: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrAuth, identity.Explain(err))
}

// broken reports whether an error is of the connection underneath, and not of what package tls was
// told over it.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(syscall.Errno))
}

// errRecord says what a changed record looks like from here.
var errRecord = errors.New("a record is not valid: something on the way changed, dropped or repeated bytes")

// transport is for trafficOf.
func (c *secureConn) transport() int { return telemetry.TLS }

// spent reports whether the connection's keys have sealed as many records as they may: new calls
// take another connection.
func (c *secureConn) spent() bool { return max(c.out.Load(), c.in.Load()) >= recordsOfKeys }

// Close closes the connection at once. Package tls would first send an alert, for which it would
// wait where the peer does not read. Frames have lengths, so none can be cut off unnoticed without
// it.
func (c *secureConn) Close() error { return c.under.Conn.Close() }

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.in.Add(1)
	}
	if err != nil && !broken(err) {
		err = fmt.Errorf("%w: %w", errRecord, err)
	}
	return n, err
}

// Write returns when all of b has been written.
func (c *secureConn) Write(b []byte) (int, error) {
	rest := net.Buffers{b}
	err := c.writeVector(&rest)
	return len(b) - payloadSize(rest), err
}

// writeVector is Write for many pieces; see vectorWriter. After an error, what is no longer in rest
// may be sealed and not yet written; the next write begins with it.
func (c *secureConn) writeVector(rest *net.Buffers) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	for {
		if err := c.under.flush(); err != nil || len(*rest) == 0 {
			return err
		}
		for sealed := 0; sealed < sealedBytes && len(*rest) > 0; {
			n, err := c.seal(rest, sealedBytes-sealed)
			if err != nil {
				return err
			}
			sealed += n
		}
	}
}

// seal seals the first piece, of a large one at most so many bytes, or the first small pieces,
// which share a record.
func (c *secureConn) seal(rest *net.Buffers, most int) (n int, err error) {
	p := (*rest)[0]
	if len(p) < recordBytes {
		c.small = c.small[:0]
		for _, p := range *rest {
			if len(c.small)+len(p) > recordBytes {
				break
			}
			c.small = append(c.small, p...)
		}
		p = c.small
	}
	p = p[:min(len(p), most)]
	c.out.Add(int64(1 + len(p)/recordBytes))
	if len(p) > 0 {
		_, err = c.Conn.Write(p)
	}
	consume((*[][]byte)(rest), len(p))
	return len(p), err
}

// consume takes the first n bytes out of v, and with them the empty pieces before the next byte.
func consume(v *[][]byte, n int) {
	for len(*v) > 0 {
		first := &(*v)[0]
		if n < len(*first) {
			*first = (*first)[n:]
			return
		}
		n -= len(*first)
		*first = nil
		*v = (*v)[1:]
	}
}

// withdraw does nothing: the peer does not read the caller's memory.
func (c *secureConn) withdraw() {}

package transport

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/paragon-train/paragon/internal/identity"
)

// An Identity says who a process of a job is: a key with a certificate of the job's own authority. Package launch makes them,
// cluster.FromEnv reads them.
type Identity = identity.Identity

const (
	sealBytes = 256 << 10 // bytes encrypted before they are written
	sealedIn  = 128 << 10 // bytes read at once
	maxSealed = 4 << 20   // most encrypted bytes that wait; only an invalid peer could cause more
)

// A secureConn is a connection with TLS. Package tls writes and reads each record of 16 KB by itself, and a write that times out breaks the connection.
// Here many records share a system call, and the next write continues after a timeout: data is encrypted into memory, which never blocks, and
// written to the connection from there.
type secureConn struct {
	*tls.Conn
	under *sealed

	writing sync.Mutex // held by writes
}

// sealed is the connection that package tls uses.
type sealed struct {
	net.Conn
	in *bufio.Reader

	mu   sync.Mutex // guards the two
	hold bool       // the handshake is over: writes wait for flush
	wait []byte

	// Guarded by secureConn.writing, which flush holds:
	out   []byte // is being written
	spare []byte
}

func newSecureConn(nc net.Conn, over func(net.Conn, *tls.Config) *tls.Conn, cfg *tls.Config) *secureConn {
	under := &sealed{Conn: nc, in: bufio.NewReaderSize(nc, sealedIn)}
	return &secureConn{Conn: over(under, cfg), under: under}
}

// secureToServer runs the TLS handshake of the dialling end. The server ends it, because it checks the client's certificate last.
func secureToServer(nc net.Conn, cfg *tls.Config) (net.Conn, error) {
	c := newSecureConn(nc, tls.Client, cfg)
	err := c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c.Conn, make([]byte, 1))
	}
	if err != nil {
		return nil, secureError(err)
	}
	c.under.hold = true
	return c, nil
}

// secureToClient runs the TLS handshake of the accepting end.
func secureToClient(nc net.Conn, cfg *tls.Config) (conn net.Conn, role string, err error) {
	c := newSecureConn(nc, tls.Server, cfg)
	if err := c.Handshake(); err != nil {
		return nil, "", secureError(err)
	}
	if role, err = identity.RoleOf(c.ConnectionState()); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrAuth, err)
	}
	if _, err := c.Conn.Write([]byte{1}); err != nil {
		return nil, "", secureError(err)
	}
	c.under.hold = true
	return c, role, nil
}

// secureError separates a handshake that one of the ends refused from a connection that broke.
func secureError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(syscall.Errno)) {
		return fmt.Errorf("TLS: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrAuth, identity.Explain(err))
}

// Close closes the connection. It sends no close_notify of TLS, which may take seconds; frames have lengths, so none can be cut off unnoticed.
func (c *secureConn) Close() error { return c.under.Close() }

// Write returns when all of b has been written.
func (c *secureConn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	rest := net.Buffers{b}
	if err := c.write(&rest); err != nil {
		n := len(b)
		if len(rest) > 0 {
			n -= len(rest[0])
		}
		return n, err
	}
	return len(b), nil
}

// writeVector is Write for many pieces; see vectorWriter. After an error, what is no longer in rest may be encrypted and not yet written; the next write
// begins with it.
func (c *secureConn) writeVector(rest *net.Buffers) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.write(rest)
}

func (c *secureConn) write(rest *net.Buffers) error {
	for {
		if err := c.under.flush(); err != nil || len(*rest) == 0 {
			return err
		}
		for n := 0; len(*rest) > 0 && n < sealBytes; {
			p := (*rest)[0]
			k := min(len(p), sealBytes-n)
			if _, err := c.Conn.Write(p[:k]); err != nil {
				return err
			}
			if n += k; k < len(p) {
				(*rest)[0] = p[k:]
			} else {
				(*rest)[0] = nil
				*rest = (*rest)[1:]
			}
		}
	}
}

// withdraw does nothing: the peer does not read the caller's memory.
func (c *secureConn) withdraw() {}

func (s *sealed) Read(p []byte) (int, error) { return s.in.Read(p) }

func (s *sealed) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hold {
		return s.Conn.Write(p)
	}
	if len(s.wait)+len(p) > maxSealed {
		return 0, fmt.Errorf("%d bytes wait to be written, want at most %d", len(s.wait)+len(p), maxSealed)
	}
	s.wait = append(s.wait, p...)
	return len(p), nil
}

// flush writes the encrypted bytes. After an error the next flush continues.
func (s *sealed) flush() error {
	for {
		if len(s.out) == 0 {
			s.mu.Lock()
			s.out, s.wait = s.wait, s.spare[:0]
			s.mu.Unlock()
			s.spare = s.out[:0]
			if len(s.out) == 0 {
				return nil
			}
		}
		n, err := s.Conn.Write(s.out)
		s.out = s.out[n:]
		if err != nil {
			return err
		}
	}
}

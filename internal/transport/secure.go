package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/paragon-train/paragon/internal/identity"
	"github.com/paragon-train/paragon/internal/telemetry"
)

// An Identity says who a process of a job is: a key with a certificate of the job's own authority. Package launch makes them,
// cluster.FromEnv reads them.
type Identity = identity.Identity

// A secureConn is a connection whose ends have met by TLS 1.3 and whose bytes travel in records (records.go).
type secureConn struct {
	net.Conn // the one underneath

	reading sync.Mutex // held by Read
	in      recordReader

	writing sync.Mutex // held by writes
	out     recordWriter
}

func newSecureConn(nc net.Conn, in, out *recordKey) *secureConn {
	return &secureConn{Conn: nc, in: recordReader{r: nc, key: in}, out: recordWriter{write: nc.Write, key: out}}
}

// secureToServer runs the TLS handshake of the dialling end. The server ends it, because it checks the client's certificate last.
func secureToServer(nc net.Conn, cfg *tls.Config) (net.Conn, error) {
	c := tls.Client(nc, cfg)
	err := c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		return nil, secureError(err)
	}
	fromClient, fromServer, err := recordKeys(c.ConnectionState())
	if err != nil {
		return nil, secureError(err)
	}
	return newSecureConn(nc, fromServer, fromClient), nil
}

// secureToClient runs the TLS handshake of the accepting end. The client says nothing after it before it has the byte that ends it, so package tls has
// read no byte of a record.
func secureToClient(nc net.Conn, cfg *tls.Config) (conn net.Conn, role string, err error) {
	c := tls.Server(nc, cfg)
	if err := c.Handshake(); err != nil {
		return nil, "", secureError(err)
	}
	if role, err = identity.RoleOf(c.ConnectionState()); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrAuth, err)
	}
	fromClient, fromServer, err := recordKeys(c.ConnectionState())
	if err != nil {
		return nil, "", secureError(err)
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return nil, "", secureError(err)
	}
	return newSecureConn(nc, fromClient, fromServer), role, nil
}

// secureError separates a handshake that one of the ends refused from a connection that broke.
func secureError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(syscall.Errno)) {
		return fmt.Errorf("TLS: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrAuth, identity.Explain(err))
}

func (c *secureConn) transport() int { return telemetry.TLS } // for trafficOf

// Close closes the connection. It sends nothing before that; frames have lengths, so none can be cut off unnoticed.
func (c *secureConn) Close() error { return c.Conn.Close() }

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.in.Read(p)
}

// Write returns when all of b has been written.
func (c *secureConn) Write(b []byte) (int, error) {
	rest := net.Buffers{b}
	err := c.writeVector(&rest)
	return len(b) - payloadSize(rest), err
}

// writeVector is Write for many pieces; see vectorWriter. After an error, what is no longer in rest may be sealed and not yet written; the next write
// begins with it.
func (c *secureConn) writeVector(rest *net.Buffers) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.out.writeVector((*[][]byte)(rest))
}

// withdraw does nothing: the peer does not read the caller's memory.
func (c *secureConn) withdraw() {}

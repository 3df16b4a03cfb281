package resume

import (
	"context"
	"net"
	"time"
)

// Window is how many bytes an end keeps that the other has not read yet.
const Window = 4 << 20

// ErrLease says that nothing came from the other end for the Lease. It is an os.ErrDeadlineExceeded.
var ErrLease error = leaseError{}

type leaseError struct{}

func (leaseError) Error() string { return "nothing heard from the other end" }

// Config configures a Stream.
type Config struct {
	Lease time.Duration // silence of the other end after which the stream is over; 0: 4 s; the same on both ends
}

// A Stream is one end of a stream. Its methods may be called together.
type Stream struct{}

// New makes a Stream without a connection. Its lease begins now.
func New(cfg Config) *Stream { return &Stream{} }

// Attach gives the stream a connection in place of the one it has. What it returns is closed when the stream needs another one, or is over.
func (s *Stream) Attach(conn net.Conn) (broken <-chan struct{}) { return nil }

// Read reads what the other end wrote. The error is io.EOF behind its last byte.
func (s *Stream) Read(p []byte) (int, error) { return 0, nil }

// Write returns when all of p is kept for the other end.
func (s *Stream) Write(p []byte) (int, error) { return 0, nil }

// CloseWrite says that nothing more will be written.
func (s *Stream) CloseWrite() error { return nil }

// Done is closed when the stream is over: both ends have read all that the other wrote, the lease expired, or Abort was called.
func (s *Stream) Done() <-chan struct{} { return nil }

// Err is nil until Done, and after both ends have read all; else why the stream is over.
func (s *Stream) Err() error { return nil }

// Finish closes the stream for writing, drops what still comes, and returns once the other end has read all and ended, too, the stream is over, or ctx ended.
func (s *Stream) Finish(ctx context.Context) error { return nil }

// Abort ends the stream at once; its calls fail with err.
func (s *Stream) Abort(err error) {}

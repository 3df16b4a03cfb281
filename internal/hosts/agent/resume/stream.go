package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Window is how many bytes an end keeps that the other has not read yet.
const Window = 4 << 20

// ErrLease says that nothing came from the other end for the Lease. It is an
// os.ErrDeadlineExceeded.
var ErrLease error = leaseError{}

type leaseError struct{}

func (leaseError) Error() string        { return "lease expired: nothing heard from the other end" }
func (leaseError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// ErrProtocol is in the chain of the error when the other end sent what it must not send.
var ErrProtocol = errors.New("invalid frame from the other end")

// Config configures a Stream.
type Config struct {
	// Lease is the silence of the other end after which the stream is over, the same on both ends;
	// 0: 4 s.
	Lease time.Duration

	// Holder is set on one of the two ends. Its stream is over when the other end may have
	// heard nothing of it for Lease, which is up to two pings earlier: what the holder does has
	// ended by the time at which the other end declares it lost, even if only one direction
	// works.
	Holder bool
}

// A Stream is one end of a stream. Its methods may be called together.
type Stream struct {
	lease  time.Duration
	holder bool

	// done is closed when over is set.
	done chan struct{}

	links sync.WaitGroup

	// mu guards the fields below.
	mu sync.Mutex

	// readable says that in, inEnd or over has changed.
	readable sync.Cond

	// writable is signalled when out or over has changed.
	writable sync.Cond

	// in has what has come and was not read yet.
	in ring

	// inEnd says that nothing comes behind what the ring in has.
	inEnd bool

	// read is the position up to which in was read.
	read uint64

	// readEnd says that the end was read. It counts in read.
	readEnd bool

	// out was written, and not read by the other end yet.
	out ring

	// outEnd says that nothing will be written behind what the ring out has.
	outEnd bool

	// written is the position behind the last byte of out.
	written uint64

	// acked is the position up to which the other end has read. The end counts as one.
	acked uint64

	// link is nil if there is no connection.
	link *link

	// came is when a frame last came.
	came time.Time

	// renewed is when the lease was last renewed.
	renewed time.Time

	timer *time.Timer
	over  bool

	// err is why the stream is over; nil: both ends have read all.
	err error
}

// New makes a Stream without a connection. Its lease begins now.
func New(cfg Config) *Stream {
	s := &Stream{lease: cfg.Lease, holder: cfg.Holder, done: make(chan struct{}), came: time.Now()}
	s.renewed = s.came
	if s.lease <= 0 {
		s.lease = 4 * time.Second
	}
	s.readable.L, s.writable.L = &s.mu, &s.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.lease, s.checkLease)
	return s
}

// ping is the longest time in which an end sends nothing; silence is how long a connection may
// bring nothing.
func (s *Stream) ping() time.Duration    { return s.lease / 8 }
func (s *Stream) silence() time.Duration { return s.lease * 3 / 8 }

// checkLease ends the stream if the other end has not been heard of for the time of the lease. It
// is called again when that may be.
func (s *Stream) checkLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if left := s.lease - time.Since(s.renewed); left > 0 {
		s.timer.Reset(left)
		return
	}
	s.end(fmt.Errorf("%w for %s", ErrLease, s.lease))
}

// end makes the stream over; the caller holds the lock.
func (s *Stream) end(err error) {
	if s.over {
		return
	}
	s.over, s.err = true, err
	s.timer.Stop()
	s.out = ring{}
	if s.link != nil && err != nil {
		s.link.close()
	} else if s.link != nil {
		s.link.linger(s.silence())
	}
	s.readable.Broadcast()
	s.writable.Broadcast()
	close(s.done)
}

// endIfComplete makes the stream over when both ends have read all; the caller holds the lock.
func (s *Stream) endIfComplete() {
	if s.readEnd && s.outEnd && s.acked == s.written+1 {
		s.end(nil)
	}
}

// Read reads what the other end wrote. The error is io.EOF behind its last byte.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for s.in.n == 0 && !s.inEnd && !s.over {
		s.readable.Wait()
	}
	switch {
	case s.in.n > 0:
		n := min(len(p), s.in.n)
		s.in.copyAt(p[:n], 0)
		s.in.discard(n)
		s.read += uint64(n)
		s.wakeToAcknowledge()
		return n, nil
	case s.inEnd:
		if !s.readEnd {
			s.readEnd = true
			s.read++
			s.endIfComplete()
			s.wakeToAcknowledge()
		}
		return 0, io.EOF
	}
	return 0, s.failure("read")
}

// failure is the error of a call after the stream is over; the caller holds the lock.
func (s *Stream) failure(call string) error {
	if s.err == nil {
		return fmt.Errorf("%s: %w", call, net.ErrClosed)
	}
	return s.err
}

// Write returns when all of p is kept for the other end.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		for s.out.n == Window && !s.outEnd && !s.over {
			s.writable.Wait()
		}
		if s.outEnd || s.over {
			return n, s.failure("write")
		}
		k := min(len(p), Window-s.out.n)
		s.out.append(p[:k])
		s.written += uint64(k)
		p = p[k:]
		n += k
		s.wake()
	}
	return n, nil
}

// CloseWrite says that nothing more will be written.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.outEnd {
		s.outEnd = true
		s.writable.Broadcast()
		s.wake()
	}
	return nil
}

// Done is closed when the stream is over: both ends have read all that the other wrote, the lease
// expired, or Abort was called.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err is nil until Done, and if both ends have read all; else why the stream is over.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Connected reports whether the stream has a connection.
func (s *Stream) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil
}

// Finish ends the stream from this side: it closes it for writing, drops what still comes, and
// returns once both ends have read all, the stream is over for another reason, or ctx ended. The
// connection is closed then.
func (s *Stream) Finish(ctx context.Context) error {
	s.CloseWrite()
	stop := context.AfterFunc(ctx, func() { s.Abort(context.Cause(ctx)) })
	defer stop()
	io.Copy(io.Discard, s)
	<-s.done
	s.links.Wait()
	return s.Err()
}

// Abort ends the stream at once; its calls fail with err. Bytes that came can still be read.
func (s *Stream) Abort(err error) {
	if err == nil {
		err = net.ErrClosed
	}
	s.mu.Lock()
	s.end(err)
	s.mu.Unlock()
	s.links.Wait()
}

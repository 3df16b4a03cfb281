package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/unauthenticated"
)

// maxUnauthenticated is how many connections a Server holds whose handshake is not over.
const maxUnauthenticated = 512

// A Server answers the requests of many Clients through one Handler.
type Server struct {
	ln net.Listener
	h  Handler
	// p is h, if it is a PromptHandler.
	p   PromptHandler
	cfg Config

	// ctx ends with Close.
	ctx             context.Context
	cancel          context.CancelFunc
	unauthenticated unauthenticated.Conns

	// mu guards all below.
	mu    sync.Mutex
	ended bool
	// conns has the accepted connections, and what the handshake made of each.
	conns map[net.Conn]net.Conn
	// connClosed is closed and replaced when a connection has ended.
	connClosed chan struct{}
	warned     time.Time
	// suppressed is the number of refusals since then without a line.
	suppressed int
	// wg waits for all goroutines.
	wg sync.WaitGroup
}

// NewServer returns a Server that owns ln. It answers no request before Serve.
func NewServer(ln net.Listener, h Handler, cfg Config) *Server {
	s := &Server{
		ln: ln, h: h, cfg: cfg.withDefaults(),
		unauthenticated: unauthenticated.Conns{Most: maxUnauthenticated},
		conns:           make(map[net.Conn]net.Conn),
		connClosed:      make(chan struct{}),
	}
	s.p, _ = h.(PromptHandler)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve accepts connections until Close, then returns nil, or until the listener fails.
func (s *Server) Serve() error {
	pause := 5 * time.Millisecond
	for {
		nc, err := s.ln.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			s.accept(nc)
			continue
		}
		if s.ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("transport: accept at %v: %w", s.Addr(), err)
		}
		// Most likely the process is out of file descriptors: connections that end free
		// some.
		s.cfg.Logger.Warn("transport: accept", "addr", s.Addr().String(), "err", err, "again in", pause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.ctx.Done():
			t.Stop()
			return nil
		}
		pause = min(2*pause, time.Second)
	}
}

// Close closes the listener and all connections, ends the contexts of all requests and returns when
// the Handler and all goroutines have returned.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ended = true
	for _, nc := range s.conns {
		nc.Close()
	}
	// The connections are closed before: a Handler's error about the cancellation must not be
	// sent as an answer.
	s.cancel()
	err := s.ln.Close()
	s.mu.Unlock()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// AwaitDisconnects returns when no peer is connected, or with ctx's error when ctx ends before. So
// a Server that is about to be closed lets its peers read their last answers.
func (s *Server) AwaitDisconnects(ctx context.Context) error {
	for {
		s.mu.Lock()
		n, fewer := len(s.conns), s.connClosed
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		nc.Close()
		return
	}
	if out := s.unauthenticated.Enter(nc); out != nil {
		// The goroutine of that connection cleans up.
		out.Close()
	}
	s.conns[nc] = nc
	s.wg.Go(func() {
		defer s.closeConn(nc)
		conn, role, err := s.cfg.handshakeClient(nc, time.Now().Add(handshakeTimeout))
		s.unauthenticated.Leave(nc)
		if err != nil {
			s.warn(nc, err)
			return
		}
		if s.replaceConn(nc, conn) {
			newServerConn(s, conn, role).serve()
		}
	})
}

// replaceConn records the connection that the handshake made of an accepted one; false if the
// Server was closed.
func (s *Server) replaceConn(nc, conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[nc] = conn
	return !s.ended
}

// closeConn closes a connection and forgets it.
func (s *Server) closeConn(nc net.Conn) {
	s.mu.Lock()
	conn := s.conns[nc]
	s.mu.Unlock()
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, nc)
	close(s.connClosed)
	s.connClosed = make(chan struct{})
}

// warn logs that a connection was refused. It limits the rate of lines: unauthenticated peers must
// not be able to fill the log.
func (s *Server) warn(nc net.Conn, err error) {
	s.mu.Lock()
	s.suppressed++
	quiet, others := s.ended || time.Since(s.warned) < 10*time.Second, s.suppressed-1
	if !quiet {
		s.warned, s.suppressed = time.Now(), 0
	}
	s.mu.Unlock()
	if !quiet {
		s.cfg.Logger.Warn("transport: connection refused", "from", nc.RemoteAddr().String(), "err", err, "others since the last line", others,
			joblog.ConnectionRefused.With())
	}
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Server answers the requests of many Clients through one Handler.
type Server struct {
	ln  net.Listener
	h   Handler
	p   PromptHandler // h, if it is one
	cfg Config

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	strangers strangers

	mu     sync.Mutex // guards all below
	ended  bool
	conns  map[net.Conn]net.Conn // what was accepted, and what became of it
	fewer  chan struct{}         // closed, and made anew, when a connection is gone
	warned time.Time
	silent int            // refusals since then
	wg     sync.WaitGroup // of all goroutines
}

// NewServer returns a Server that owns ln. It answers nobody before Serve.
func NewServer(ln net.Listener, h Handler, cfg Config) *Server {
	s := &Server{
		ln: ln, h: h, cfg: cfg.withDefaults(),
		conns: make(map[net.Conn]net.Conn),
		fewer: make(chan struct{}),
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
		// Out of file descriptors, most likely: connections that end give some back.
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

// Close closes the listener and all connections, ends the contexts of all requests and returns when the Handler and all
// goroutines have returned.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ended = true
	for _, nc := range s.conns {
		nc.Close()
	}
	s.cancel() // behind the connections: what handlers say of it must reach nobody, who would take it for an answer
	err := s.ln.Close()
	s.mu.Unlock()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Alone returns once nobody is connected, or with the error of ctx when it ends before. A Server that is about to be
// closed so lets its peers take their last answers and leave.
func (s *Server) Alone(ctx context.Context) error {
	for {
		s.mu.Lock()
		n, fewer := len(s.conns), s.fewer
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
	if out := s.strangers.enter(nc); out != nil {
		out.Close() // its goroutine does the rest
	}
	s.conns[nc] = nc
	s.wg.Go(func() {
		defer s.gone(nc)
		conn, role, err := s.cfg.handshakeClient(nc, time.Now().Add(handshakeTimeout))
		s.strangers.leave(nc)
		if err != nil {
			s.warn(nc, err)
			return
		}
		if s.become(nc, conn) {
			newServerConn(s, conn, role).serve()
		}
	})
}

// become notes what an accepted connection has become, unless the Server was closed.
func (s *Server) become(nc, conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[nc] = conn
	return !s.ended
}

// gone closes a connection for good.
func (s *Server) gone(nc net.Conn) {
	s.mu.Lock()
	conn := s.conns[nc]
	s.mu.Unlock()
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, nc)
	close(s.fewer)
	s.fewer = make(chan struct{})
}

// warn logs that a connection was refused, at most once in a while: strangers must not fill the log.
func (s *Server) warn(nc net.Conn, err error) {
	s.mu.Lock()
	s.silent++
	quiet, others := s.ended || time.Since(s.warned) < 10*time.Second, s.silent-1
	if !quiet {
		s.warned, s.silent = time.Now(), 0
	}
	s.mu.Unlock()
	if !quiet {
		s.cfg.Logger.Warn("transport: connection refused", "from", nc.RemoteAddr().String(), "err", err, "others since the last line", others)
	}
}

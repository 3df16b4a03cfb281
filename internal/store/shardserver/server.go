package shardserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Server holds one server's shards and its state of the job. It is a transport.Handler; all of
// its methods may be called concurrently.
//
// Requests of workers never take mu for long, and never while they hold a shard's mutex: mu comes
// first. What a request needs of the job lies in the membership, which is replaced as a whole.
type Server struct {
	cfg Config
	limits
	clock clock
	pool  *shard.Pool
	// membership is replaced under mu.
	membership atomic.Pointer[membership]

	// rounds is the number of rounds that the busiest shard has been pushed to.
	rounds atomic.Uint64
	budget budget
	// meter is nil if nothing is measured.
	meter *meter
	// host is what the Configs of all shards have in common.
	host     shard.Host
	panics   atomic.Int64
	guardLog guardLog
	profiles profiles
	waitLog  waitLog
	spare    spareCalls

	// backups is nil if no shard has a backup.
	backups *backups

	// done is closed by Fail.
	done chan struct{}

	// mu guards all below. It is never taken while a shard's mutex is held.
	mu      sync.RWMutex
	entries entries
	// serves is the number of entries that workers use: all but backups.
	serves int
	// incoming are the shards that are being copied to this server, their new backup.
	incoming incomingShards
	// placement is nil if no shard has a backup.
	placement *placement
	awaited   awaitTable
	settings  settings
	err       error
}

// New returns a Server without shards and members. It starts no goroutine.
func New(cfg Config) *Server { return newServer(cfg, remote, &shard.Pool{Shared: true}) }

func newServer(cfg Config, l limits, pool *shard.Pool) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:      cfg,
		limits:   l,
		clock:    newClock(cfg.Trace),
		pool:     pool,
		budget:   newBudget(),
		done:     make(chan struct{}),
		entries:  entries{},
		incoming: incomingShards{},
		awaited:  awaitTable{},
	}
	s.measure()
	s.host = shard.Host{Pool: pool, Grow: func(bytes int64) error { return s.budget.reserve(bytes, cfg.MaxBytes) }, Caught: func(cfg *shard.Config, x shard.Caught) { s.guardLog.record(cfg, s.membership.Load(), x) }}
	if s.meter != nil {
		s.host.Meter = s.meter
	}
	s.membership.Store(s.newMembership(wire.Membership{}, nil))
	return s
}

// Fail ends all waits and refuses all further requests with CodeUnavailable and the reason.
func (s *Server) Fail(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = transport.Refuse(wire.CodeUnavailable, s.membership.Load().generation, "server: %s", reason)
	for _, e := range s.entries {
		e.shard.Fail(s.err)
	}
	s.profiles.endAll()
	close(s.done)
}

// Sweep frees memory that was not used since the last call, such as that of shards that have moved
// to other servers.
func (s *Server) Sweep() { s.pool.Sweep() }

// Rounds returns how many rounds the busiest shard has been pushed to.
func (s *Server) Rounds() uint64 { return s.rounds.Load() }

// Buffer returns the memory for a request's payload. See transport.Handler.
func (s *Server) Buffer(r *transport.Request, n int) ([]byte, error) { return s.receive(r, n, nil) }

// Borrow keeps the loan of a gradient that can be added where it lies, and returns memory for other
// payloads. See transport.LoanHandler.
func (s *Server) Borrow(r *transport.Request, l *transport.Loan) ([]byte, error) {
	return s.receive(r, len(l.Payload()), l)
}

// receive prepares a call for a payload of n bytes, which has perhaps been lent.
func (s *Server) receive(r *transport.Request, n int, l *transport.Loan) (b []byte, err error) {
	c := s.newCall()
	defer s.recovered(r.Kind, &err)
	defer func() {
		if r.Value == nil {
			c.finish()
		}
	}()
	if err := c.prepare(r, n); err != nil {
		return nil, s.nack(err)
	}
	c.spans.beginReceive(s.cfg.Trace, c.kind, n)
	if !c.keepLoan(l) {
		c.data = s.pool.Get(n)
		b = c.data.Bytes(n)
	}
	r.Value = c
	return b, nil
}

// Drop releases the memory of a payload that did not arrive whole. See transport.Handler.
func (s *Server) Drop(r *transport.Request) {
	if c, ok := r.Value.(*call); ok {
		c.finish()
	}
}

// Serve answers a request. See transport.Handler.
func (s *Server) Serve(ctx context.Context, r *transport.Request) (resp transport.Response, err error) {
	defer s.recovered(r.Kind, &err)
	c, ok := r.Value.(*call)
	if !ok {
		c = s.newCall()
	}
	if c.arrived == 0 {
		c.arrived = c.s.clock.now()
	}
	c.received()
	defer func() {
		// The call is finished after its answer is written.
		if resp.Release == nil {
			c.finish()
		}
	}()
	if !ok {
		if err := c.prepare(r, 0); err != nil {
			return transport.Response{}, s.nack(err)
		}
	}
	err = c.serve(ctx)
	c.settle()
	if err != nil {
		return transport.Response{}, s.nack(err)
	}
	return c.response(), nil
}

// recovered turns a panic into an answer: no request may end the process.
func (s *Server) recovered(kind wire.Kind, err *error) {
	if p := recover(); p != nil {
		s.panics.Add(1)
		s.cfg.Logger.Error("server: panic while serving", "kind", kind.String(), "panic", p, "stack", string(debug.Stack()),
			joblog.HandlerPanicked.With())
		*err = transport.Refuse(wire.CodeInternal, 0, "server: %v: panic: %v", kind, p)
	}
}

// nack turns an error into a Refusal with the server's generation.
func (s *Server) nack(err error) error {
	generation := s.membership.Load().generation
	var refusal *transport.Refusal
	var refused *shard.Error
	switch {
	case errors.As(err, &refusal):
		return &transport.Refusal{Code: refusal.Code, Generation: generation, Text: refusal.Text}
	case errors.As(err, &refused):
		return transport.Refuse(refused.Code, generation, "server: %s", refused.Text)
	case errors.Is(err, wire.ErrMalformed):
		return transport.Refuse(wire.CodeMalformed, generation, "server: %v", err)
	}
	return transport.Refuse(wire.CodeInternal, generation, "server: %v", err)
}

func refuse(code wire.Code, format string, args ...any) error {
	return &transport.Refusal{Code: code, Text: "server: " + fmt.Sprintf(format, args...)}
}

// find returns a shard, or CodeUnknownKey.
func (s *Server) find(o *wire.Origin) (*entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := shardID{o.Key, o.Shard}
	if e := s.entries[at]; e != nil {
		if err := e.checkUsable(); err != nil {
			return nil, err
		}
		return e, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.placement != nil {
		if x, ok := s.placement.assignmentOf(at, s.backups.peers.Rank()); ok && x.role != primary {
			return nil, refuse(wire.CodeMoved, "key %d shard %d is at server %d", o.Key, o.Shard, s.placement.serverOf(at))
		}
	}
	return nil, refuse(wire.CodeUnknownKey, "key %d shard %d has no value here yet", o.Key, o.Shard)
}

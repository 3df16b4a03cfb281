package shardserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
	"github.com/paragon-train/paragon/optim"
)

// A Server is one server's shards and what it knows of the job. It is a transport.Handler; all of its methods may be called together.
type Server struct {
	cfg Config
	limits
	pool  *shard.Pool
	view  atomic.Pointer[view] // replaced under mu
	reads chan struct{}        // a value for each ReadState under way

	rounds  atomic.Uint64 // the most rounds that any shard was pushed to
	bytes   atomic.Int64  // of values and indices here
	loading atomic.Int64  // bytes of first values and states on their way
	panics  atomic.Int64
	caught  caught
	told    atomic.Int64 // when a wait was last explained in the log, by now

	began time.Time     // of the clock of now
	done  chan struct{} // closed by Fail

	peers   Peers // nil: no shard has a backup
	copiers *copiers

	mu        sync.RWMutex // guards all below; never taken while a shard's own is held
	entries   map[place]*entry
	staged    map[place]*staging // that primaries are giving to this server
	places    *places            // nil: no shard has a backup
	awaited   map[place]*awaited
	mode      uint8 // 0: nobody said
	modeBy    string
	base      optim.Config // as SetOptimizer gave it
	opt       *optim.Optimizer
	optBy     string
	guard     *shard.Guard // nil: none
	err       error
	spareCall []*call
	spareMu   sync.Mutex // guards spareCall
}

// A place names a shard.
type place struct {
	key   uint64
	index uint32
}

// An entry is one shard and the shares of the workers that use it.
type entry struct {
	shard *shard.Shard
	cfg   shard.Config
	shares
	standing standing
}

// awaited is a shard that does not exist yet and has waiters.
type awaited struct {
	created chan struct{}
	waiters int
}

// New returns a Server without shards and members. It starts nothing.
func New(cfg Config) *Server { return newServer(cfg, remote, &shard.Pool{Shared: true}) }

func newServer(cfg Config, l limits, pool *shard.Pool) *Server {
	s := &Server{
		cfg:     cfg.withDefaults(),
		limits:  l,
		began:   time.Now(),
		pool:    pool,
		reads:   make(chan struct{}, maxStateReads),
		done:    make(chan struct{}),
		entries: map[place]*entry{},
		staged:  map[place]*staging{},
		awaited: map[place]*awaited{},
	}
	s.view.Store(newView(wire.Membership{}, nil))
	return s
}

// Fail ends all waits and refuses all further requests with CodeUnavailable and the reason.
func (s *Server) Fail(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = transport.Refuse(wire.CodeUnavailable, s.view.Load().generation, "server: %s", reason)
	for _, e := range s.entries {
		e.shard.Fail(s.err)
	}
	close(s.done)
}

// Rounds returns how many rounds the busiest shard has been pushed to.
func (s *Server) Rounds() uint64 { return s.rounds.Load() }

// Buffer is called for requests with a payload. See transport.Handler.
func (s *Server) Buffer(r *transport.Request, n int) (b []byte, err error) {
	c := s.newCall()
	defer s.recovered(r.Kind, &err)
	defer func() {
		if b == nil {
			c.finish()
		}
	}()
	if err := c.prepare(r, n); err != nil {
		return nil, s.nack(err)
	}
	c.data = s.pool.Get(n)
	r.Value = c
	return c.data.Bytes(n), nil
}

// Drop is called when the payload for which Buffer gave memory did not come.
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
	defer func() { // the call lives on until its answer is written
		if resp.Release == nil {
			c.finish()
		}
	}()
	if !ok {
		if err := c.prepare(r, 0); err != nil {
			return transport.Response{}, s.nack(err)
		}
	}
	if err := c.serve(ctx); err != nil {
		return transport.Response{}, s.nack(err)
	}
	return c.response(), nil
}

// recovered makes a panic an answer: no request may end the process.
func (s *Server) recovered(kind wire.Kind, err *error) {
	if p := recover(); p != nil {
		s.panics.Add(1)
		s.cfg.Logger.Error("server: panic while serving", "kind", kind.String(), "panic", p, "stack", string(debug.Stack()))
		*err = transport.Refuse(wire.CodeInternal, 0, "server: %v: panic: %v", kind, p)
	}
}

// nack makes an error a Refusal with the server's generation.
func (s *Server) nack(err error) error {
	generation := s.view.Load().generation
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
	at := place{o.Key, o.Shard}
	if e := s.entries[at]; e != nil {
		if err := e.ours(); err != nil {
			return nil, err
		}
		return e, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.places != nil {
		if x, ok := s.places.post(at, uint32(s.peers.Rank())); ok && x.role != primary {
			return nil, refuse(wire.CodeMoved, "key %d shard %d is at server %d", o.Key, o.Shard, s.places.at[at].Server)
		}
	}
	return nil, refuse(wire.CodeUnknownKey, "key %d shard %d has no value here yet", o.Key, o.Shard)
}

// shards returns all shards in the order of their places. The caller holds mu.
func (s *Server) shards() []*shard.Shard {
	places := make([]place, 0, len(s.entries))
	for p := range s.entries {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		switch {
		case a.key != b.key && a.key < b.key, a.key == b.key && a.index < b.index:
			return -1
		}
		return 1
	})
	list := make([]*shard.Shard, len(places))
	for i, p := range places {
		list[i] = s.entries[p].shard
	}
	return list
}

// primaries returns the shards of shards that workers use here. The caller holds mu.
func (s *Server) primaries() []*shard.Shard {
	backups := map[*shard.Shard]bool{}
	for _, e := range s.entries {
		if e.at().role == follower {
			backups[e.shard] = true
		}
	}
	return slices.DeleteFunc(s.shards(), func(sh *shard.Shard) bool { return backups[sh] })
}

// wait returns how long a request that asks for millis may wait.
func (s *Server) wait(millis uint32) time.Duration {
	return min(time.Duration(millis)*time.Millisecond, s.cfg.MaxWait)
}

package hostsum

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Server adds up the gradients of its host's workers for the shards that its worker leads. It is
// a transport.Handler. All of its methods may be called concurrently.
//
// It refuses rather than waits whenever it cannot sum: a worker that is refused with
// wire.CodePushAlone pushes to the shard's server itself, which always gives the same result. So no
// fault of a leader holds up more than a round.
type Server struct {
	env env

	// mu guards all below. No sums' mutex is held while it is taken.
	mu     sync.Mutex
	view   view
	shards map[shardID]*sums
	// active is the number of calls that wait or are being answered.
	active int
	// idle is closed when active is 0. Nil: no one waits for that.
	idle  chan struct{}
	ended bool
}

// New returns a Server without members. Close ends it.
func New(cfg Config) *Server {
	if cfg.Wait <= 0 {
		cfg.Wait = 5 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{env: env{cfg: cfg, pool: cfg.Pool}, shards: map[shardID]*sums{}}
	if s.env.pool == nil {
		s.env.pool = &shard.Pool{Shared: true}
	}
	s.env.ctx, s.env.cancel = context.WithCancel(context.Background())
	return s
}

// SetMembership sets the workers of the host, this one, node, among them. If they are others, or if
// the generation is another one, rounds that are not complete are dissolved: their workers try
// again in the new generation. Sums that were sent go on.
func (s *Server) SetMembership(generation, node uint64, group []*wire.Member) {
	v := view{generation: generation}
	for _, m := range group {
		if m.Node == node {
			v.own = len(v.members)
		}
		v.members = append(v.members, member{m.Node, uint32(m.Rank), m.Host, m.PID})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.generation == s.view.generation && slices.Equal(v.members, s.view.members) {
		return
	}
	s.view = v
	s.dissolveAll(transport.Refuse(wire.CodeStaleGeneration, generation, "host sums: the membership has changed: generation %d", generation))
}

// dissolveAll dissolves the rounds that are not complete and forgets all shards.
func (s *Server) dissolveAll(why error) {
	for _, t := range s.shards {
		t.end(why)
	}
	clear(s.shards)
}

// Close ends all rounds that are not complete and waits until the sums that were sent are answered,
// which Forward's context ends, and for up to a second until the workers have got their answers.
func (s *Server) Close() {
	s.mu.Lock()
	s.ended = true
	s.dissolveAll(alone("the worker that sums is leaving"))
	s.mu.Unlock()
	s.env.cancel()
	s.env.forwarding.Wait()
	s.mu.Lock()
	idle := make(chan struct{})
	if s.idle = idle; s.active == 0 {
		close(idle)
		s.idle = nil
	}
	s.mu.Unlock()
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}

// Counts returns how many sums servers have taken, and for how many rounds the workers were told to
// push for themselves.
func (s *Server) Counts() (sent, dissolved uint64) { return s.env.sent.Load(), s.env.dissolved.Load() }

// sumsOf returns the state of a push's shard, of so many values, if its sender is of this host and
// this worker adds up the shard. The caller holds the mutex.
func (s *Server) sumsOf(p *wire.Push, length uint64) (*sums, error) {
	v := &s.view
	switch i := slices.IndexFunc(v.members, func(m member) bool { return m.node == p.Node }); {
	case s.ended:
		return nil, alone("the worker that sums is leaving")
	case p.Generation != v.generation:
		return nil, transport.Refuse(wire.CodeStaleGeneration, v.generation, "host sums: stale generation: sender's %d, ours %d", p.Generation, v.generation)
	case i < 0 || len(v.members) < 2 || v.members[i].rank != p.Rank:
		return nil, alone("node %d (rank %d) is not of this host's %d workers", p.Node, p.Rank, len(v.members))
	case Leader(p.Key, p.Shard, len(v.members)) != v.own:
		return nil, alone("another worker of the host sums key %d shard %d", p.Key, p.Shard)
	}
	id := shardID{p.Key, p.Shard}
	t := s.shards[id]
	if t == nil {
		t = &sums{env: &s.env, key: p.Key, shard: p.Shard, n: int(length), members: v.members, own: v.own,
			settled: map[uint64]uint64{}, absent: map[uint64]int{}, taken: map[uint64]int{}, apart: map[uint64]uint64{}}
		s.shards[id] = t
	}
	return t, nil
}

// PushAlone takes note that a worker pushes a shard for itself, with a push of which request has all
// but the values, and until it pushes to this Server again: rounds do not wait for it.
func (s *Server) PushAlone(request *wire.Push) error {
	length, ok := s.env.cfg.Length(request.Key, request.Shard)
	if !ok {
		return transport.Refuse(wire.CodeBusy, 0, "host sums: key %d shard %d is not initialised here yet", request.Key, request.Shard)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.sumsOf(request, length)
	if err != nil {
		return err
	}
	return t.pushAlone(request)
}

// Buffer implements transport.Handler.
func (s *Server) Buffer(r *transport.Request, n int) ([]byte, error) {
	c := &call{s: s}
	if err := c.decode(r); err != nil {
		return nil, err
	}
	if err := c.prepare(n); err != nil {
		return nil, err
	}
	r.Value = c
	return c.data.Bytes(n), nil
}

// Borrow implements transport.LoanHandler: gradients are added where they lie.
func (s *Server) Borrow(r *transport.Request, l *transport.Loan) ([]byte, error) {
	c := &call{s: s}
	if err := c.decode(r); err != nil {
		return nil, err
	}
	if c.push.Codec == wire.CodecFloat32 {
		c.lent = remoteLoan{l}
	}
	if err := c.prepare(len(l.Payload())); err != nil {
		return nil, err
	}
	r.Value = c
	if c.lent != nil {
		return nil, nil
	}
	return c.data.Bytes(len(l.Payload())), nil
}

// Drop implements transport.Handler.
func (s *Server) Drop(r *transport.Request) {
	if c, ok := r.Value.(*call); ok {
		c.finish()
	}
}

// Serve implements transport.Handler.
func (s *Server) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	c, ok := r.Value.(*call)
	if !ok {
		// A request without a payload has no memory yet.
		c = &call{s: s}
		if err := c.decode(r); err != nil {
			return transport.Response{}, err
		}
		if p := &c.push; !p.Answer && p.N == 0 && p.Seq > 0 {
			return transport.Response{Message: &wire.Ack{}}, s.PushAlone(p)
		}
		if err := c.prepare(0); err != nil {
			return transport.Response{}, err
		}
	}
	b, err := c.serve(ctx)
	if err != nil {
		c.finish()
		return transport.Response{}, err
	}
	return transport.Response{Message: &c.value, Payload: [][]byte{b}, Order: c.push.Order(), Release: c.finish}, nil
}

// Call hands over this worker's own push: as transport.Caller's Call, for a wire.Push and a
// wire.Value.
func (s *Server) Call(ctx context.Context, request *wire.Push, answer *wire.Value, dst []byte, payload ...[]byte) ([]byte, error) {
	c := &call{s: s, push: *request}
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	if len(payload) == 1 && c.push.Codec == wire.CodecFloat32 && n > 0 {
		own := ownLoan(payload[0])
		c.lent = &own
	}
	if err := c.prepare(n); err != nil {
		return nil, err
	}
	defer c.finish()
	if c.lent == nil {
		b := c.data.Bytes(n)
		for _, p := range payload {
			b = b[copy(b, p):]
		}
	}
	got, err := c.serve(ctx)
	if err != nil {
		return nil, err
	}
	if len(got) > len(dst) {
		return nil, transport.Refuse(wire.CodeSize, 0, "host sums: got room for %d bytes, want %d", len(dst), len(got))
	}
	*answer = c.value
	return dst[:copy(dst, got)], nil
}

package hostsum

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Server adds up the gradients of its host's workers for the shards that its worker leads. It is
// a transport.Handler. All of its methods may be called concurrently.
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

// An env is what the sums of a Server need of it: how to forward, where to allocate, and what to
// count. It takes no lock, so that rounds never wait for the Server.
type env struct {
	cfg  Config
	pool *shard.Pool
	// ctx ends with Close, which then waits for what is being forwarded.
	ctx        context.Context
	cancel     context.CancelFunc
	forwarding sync.WaitGroup
	// sent counts the sums that servers have taken.
	sent atomic.Uint64
	// dissolved counts the rounds whose workers have pushed for themselves.
	dissolved atomic.Uint64
}

type shardID struct {
	key   uint64
	index uint32
}

// A view is the host's part of one membership.
type view struct {
	generation uint64
	// members are in rank order. With fewer than two there is nothing to add up.
	members []member
	// own is this worker's place among the members.
	own int
}

type member struct {
	node uint64
	rank uint32
	host string
	pid  uint32
}

func (m member) String() string {
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", m.rank, m.host, m.node, m.pid)
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

// A call is one worker's push.
type call struct {
	s    *Server
	push wire.Push
	sums *sums
	data *shard.Buffer
	// lent is where the payload lies, in place of data.
	lent loan
	// taken says that the payload is counted in sums.taken.
	taken bool
	round *round
	value wire.Value
}

// prepare checks a push with a payload of n bytes, and counts it as being received.
func (c *call) prepare(n int) error {
	p, s := &c.push, c.s
	least, most, err := 0, 0, error(nil)
	switch p.Codec {
	case wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16:
	default:
		return alone("codec %d cannot be summed", p.Codec)
	}
	switch p.AnswerCodec {
	case wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16:
	default:
		return transport.Refuse(wire.CodeUnsupported, 0, "host sums: got codec %d for the answer, want float32 (0), float16 (1) or bfloat16 (2)", p.AnswerCodec)
	}
	if !p.Answer || p.Judged || len(p.Contributors) > 0 || p.Seq == 0 {
		return alone("got a push that cannot be summed: without an answer, judged, of several workers or without a sequence number")
	}
	length, ok := s.env.cfg.Length(p.Key, p.Shard)
	if !ok {
		return transport.Refuse(wire.CodeBusy, 0, "host sums: key %d shard %d is not initialised here yet", p.Key, p.Shard)
	}
	if p.N != length {
		return transport.Refuse(wire.CodeSize, 0, "host sums: key %d shard %d: got %d values, want %d", p.Key, p.Shard, p.N, length)
	}
	if least, most, err = shard.PayloadSize(p.Codec, int(length)); err != nil || n < least || n > most {
		return transport.Refuse(wire.CodeSize, 0, "host sums: key %d shard %d: got %d bytes of payload, want %d", p.Key, p.Shard, n, least)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.sumsOf(p, length)
	if err != nil {
		return err
	}
	if !t.take(p.Node) {
		return transport.Refuse(wire.CodeBusy, p.Generation, "host sums: %d pushes of node %d to key %d shard %d are under way", maxPayloads, p.Node, p.Key, p.Shard)
	}
	c.sums, c.taken = t, true
	s.active++
	if c.lent == nil {
		c.data = s.env.pool.Get(max(n, 8))
	}
	return nil
}

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

// A remoteLoan is a gradient in the memory of another process; an ownLoan is one in this one, of a
// call that waits.
type remoteLoan struct{ *transport.Loan }

type ownLoan []byte

func (l remoteLoan) values() []float32 { return float32s(l.Payload()) }
func (l *ownLoan) Claim() bool         { return true }
func (l *ownLoan) Release()            {}
func (l *ownLoan) values() []float32   { return float32s(*l) }

func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// finish releases what the call holds.
func (c *call) finish() {
	c.data.Release()
	c.data = nil
	if !c.taken {
		return
	}
	c.taken = false
	c.sums.give(c.push.Node, c.round)
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// serve waits for the round and returns its value's bytes, which are valid until finish.
func (c *call) serve(ctx context.Context) (value []byte, err error) {
	r, err := c.sums.join(&c.push, c.data, c.lent, time.Now())
	if err != nil {
		return nil, err
	}
	c.data, c.round = nil, r
	if c.lent != nil {
		defer func() {
			if err != nil {
				c.sums.settle(r, c.push.Node, c.lent)
			}
		}()
	}
	timer := time.NewTimer(max(time.Duration(c.push.WaitMillis)*time.Millisecond, time.Millisecond))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, alone("the connection has ended")
	case <-timer.C:
		t := c.sums
		t.mu.Lock()
		defer t.mu.Unlock()
		return nil, transport.Refuse(wire.CodeTimeout, c.push.Generation, "host sums: push of key %d shard %d: %s", t.key, t.shard, r.waiting())
	}
	if r.err != nil {
		return nil, r.err
	}
	c.value = r.out.Value
	return r.out.Got, nil
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

func (c *call) decode(r *transport.Request) error {
	if r.Kind != wire.KindPush {
		return transport.Refuse(wire.CodeUnsupported, 0, "host sums: got a %v, want a push", r.Kind)
	}
	return wire.DecodeHead(&c.push, r.Head)
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

func sortContributors(list []wire.Contributor) {
	slices.SortFunc(list, func(a, b wire.Contributor) int { return cmp.Compare(a.Node, b.Node) })
}

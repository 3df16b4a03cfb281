package shardserver

import (
	"context"
	"errors"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Local is a server for workers of this process: requests reach its shards by direct calls,
// without frames and connections. It is a transport.Caller. A panic reaches the caller, and there
// are no quotas, because all share one memory.
type Local struct {
	s *Server
	// addr is the Addr of refusals.
	addr string
}

var _ transport.Notifier = (*Local)(nil)

// NewLocal returns a Local without shards, for the workers in m, that measures into a recorder and
// records spans, each unless nil. It starts no goroutine.
func NewLocal(addr string, m wire.Membership, recorder *telemetry.Recorder, spans *trace.Recorder) *Local {
	cfg := Config{MaxShards: int(^uint(0) >> 1), MaxBytes: local.loading, Recorder: recorder, Trace: spans}
	l := &Local{newServer(cfg, local, &shard.Pool{}), addr}
	// It cannot fail: there is no shard yet.
	_ = l.s.SetMembership(m)
	return l
}

// Close does nothing; the garbage collector frees the memory.
func (l *Local) Close() error { return nil }

// Call carries out one request. See transport.Caller.
func (l *Local) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	return l.CallNotify(ctx, nil, request, answer, dst, payload...)
}

// CallNotify is Call, and calls sent, unless nil, once the server has the payload. See
// transport.Notifier.
func (l *Local) CallNotify(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	c := l.s.newCall()
	defer c.finish()
	err := c.serveLocal(ctx, sent, request, payload)
	if err == nil {
		var got []byte
		if got, err = c.reply.copyTo(c.kind, answer, dst); err == nil {
			return got, nil
		}
	}
	err = l.s.nack(err)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		refusal.Addr = l.addr
	}
	return nil, err
}

// serveLocal makes the answer to a request of this process. The request and its payload are
// copied, since their owner may change them while a push still waits for its round.
func (c *call) serveLocal(ctx context.Context, sent func(), request wire.Message, payload [][]byte) error {
	x := serviceOf(request.Kind())
	if x == nil || x.take == nil || !x.take(c, request) {
		return refuse(wire.CodeUnsupported, "got a %v, which an in-process store does not answer", request.Kind())
	}
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	c.kind = request.Kind()
	if err := x.prepare(c, n); err != nil {
		return err
	}
	c.arrived = c.s.clock.now()
	c.spans.beginReceive(c.s.cfg.Trace, c.kind, n)
	if n > 0 {
		c.data = c.s.pool.Get(n)
		b := c.data.Bytes(n)
		for _, p := range payload {
			b = b[copy(b, p):]
		}
	}
	if sent != nil {
		sent()
	}
	c.received()
	return c.serve(ctx)
}

package shardserver

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Buffer returns the memory for a request's payload. See transport.Handler.
func (s *Server) Buffer(r *transport.Request, n int) ([]byte, error) { return s.receive(r, n, nil) }

// Borrow keeps the loan of a gradient that can be added where it lies, and returns memory for other
// payloads. See transport.LoanHandler.
func (s *Server) Borrow(r *transport.Request, l *transport.Loan) ([]byte, error) {
	return s.receive(r, len(l.Payload()), l)
}

// receive prepares a call for a payload of n bytes, which has perhaps been lent.
//
// A request without a call after this was refused: its payload is then skipped and not read into
// memory.
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

// Prompt answers pushes to small dense shards, and pulls from them, that need not wait. Without it
// many small keys would cost a goroutine each. See transport.PromptHandler.
func (s *Server) Prompt(r *transport.Request) (resp transport.Response, done bool, err error) {
	if r.Kind != wire.KindPush && r.Kind != wire.KindPull && r.Kind != wire.KindPushMany {
		return transport.Response{}, false, nil
	}
	defer s.recovered(r.Kind, &err)
	c, ok := r.Value.(*call)
	if !ok {
		c = s.newCall()
		r.Value = c
	}
	if c.arrived == 0 {
		c.arrived = c.s.clock.now()
	}
	c.received()
	keep := false
	defer func() {
		// The call is finished after its answer is written, or by Serve.
		if !keep {
			r.Value = nil
			c.finish()
		}
	}()
	if !ok {
		if err := c.prepare(r, 0); err != nil {
			return transport.Response{}, false, s.nack(err)
		}
	}
	if !c.prompt() || !s.knows(c) {
		keep = true
		return transport.Response{}, false, nil
	}
	switch r.Kind {
	case wire.KindPush:
		done, err = c.tryPush()
	case wire.KindPushMany:
		done = c.tryPushMany()
	default:
		done, err = c.tryAnswer(wantOf(&c.pull), c.pull.Codec)
	}
	if err != nil {
		return transport.Response{}, false, s.nack(err)
	}
	keep = true
	if !done {
		return transport.Response{}, false, nil
	}
	return c.response(), true, nil
}

// knows reports whether the sender is a member of the server's generation. If not, Serve's admit
// waits or refuses it.
func (s *Server) knows(c *call) bool {
	o, v := c.origin, s.membership.Load()
	w := v.workers[o.Node]
	if o.Generation != v.generation || w == nil || w.joins || w.rank != o.Rank {
		return false
	}
	w.heard.Store(c.arrived)
	return true
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

// nack turns an error into a Refusal with the server's generation, by which the worker sees
// whether it or the server is behind.
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

// prompt reports whether the call's shards are small enough.
func (c *call) prompt() bool {
	if c.kind == wire.KindPushMany {
		return c.many.prompt()
	}
	return c.entry.cfg.Length <= promptValues
}

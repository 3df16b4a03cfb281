package shardserver

import (
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// traceRound records a round that has closed, and its update.
func (m *meter) traceRound(cfg *shard.Config, t *shard.Timing) {
	r := m.s.cfg.Trace
	if !r.On() {
		return
	}
	end := m.s.traceTime(t.At)
	x := trace.Span{Kind: trace.Round, Begin: end - int64(max(t.Duration, t.Update)), End: end, Key: r.Name(cfg.Name), Shard: cfg.Index, Round: t.Round, Peer: t.Node}
	r.Add(x)
	x.Kind, x.Begin = trace.Apply, end-int64(t.Update)
	r.Add(x)
}

// traceTime turns a time of Server.now into one of the Recorder's clock.
func (s *Server) traceTime(at int64) int64 { return at + s.traceAhead }

// callSpans are a call's spans that have begun.
type callSpans struct {
	receive, answer int64 // when they began, by the clock of the trace; 0: they have not
	bytes           int   // of the payload received, and then of that sent
}

// receive begins the span of a contribution whose payload of n bytes comes next.
func (c *call) receive(n int) {
	if r := c.s.cfg.Trace; r.On() && (c.kind == wire.KindPush || c.kind == wire.KindPushMany || c.kind == wire.KindPushRows) {
		c.spans.receive, c.spans.bytes = r.Now(), n
	}
}

// received ends it.
func (c *call) received() {
	if c.spans.receive == 0 {
		return
	}
	if c.kind == wire.KindPushMany {
		c.receivedMany()
		return
	}
	r := c.s.cfg.Trace
	x := c.span(trace.Receive, c.spans.receive, r.Now())
	if c.kind == wire.KindPush {
		x.Round = c.push.Round
	} else {
		x.Round = c.pushRows.Round
	}
	r.Add(x)
	c.spans.receive = 0
}

// receivedMany ends the spans of the contributions of a PushMany, which have come together.
func (c *call) receivedMany() {
	for i, x := range c.many.calls {
		if x.err == nil {
			x.spans.receive, x.spans.bytes = c.spans.receive, int(c.many.head.Pushes[i].Size)
			x.received()
		}
	}
	c.spans.receive = 0
}

// answering begins the span of a value, of n bytes, that is sent next.
func (c *call) answering(n int) {
	if r := c.s.cfg.Trace; r.On() && c.message == &c.value {
		c.spans.answer, c.spans.bytes = r.Now(), n
	}
}

// answered ends it.
func (c *call) answered() {
	if c.spans.answer == 0 {
		return
	}
	r := c.s.cfg.Trace
	x := c.span(trace.Answer, c.spans.answer, r.Now())
	switch c.kind {
	case wire.KindPush:
		x.Round = c.push.Round + 1
	case wire.KindPull:
		x.Round = trace.Wanted(c.pull.Round, c.pull.Seq)
	case wire.KindPullRows:
		x.Round = trace.Wanted(c.pullRows.Round, c.pullRows.Seq)
	}
	r.Add(x)
	c.spans.answer = 0
}

func (c *call) span(kind trace.Kind, begin, end int64) trace.Span {
	return trace.Span{Kind: kind, Begin: begin, End: end, Peer: c.origin.Node, Bytes: uint64(c.spans.bytes),
		Key: c.s.cfg.Trace.Name(c.entry.cfg.Name), Shard: c.entry.cfg.Index}
}

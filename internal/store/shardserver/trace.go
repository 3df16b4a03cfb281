package shardserver

import (
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// traceRound records a round that has closed, and its update.
func (m *meter) traceRound(cfg *shard.Config, t *shard.Timing) {
	r := m.trace
	if !r.On() {
		return
	}
	end := m.clock.traced(t.At)
	x := trace.Span{Kind: trace.Round, Begin: end - int64(max(t.Duration, t.Update)), End: end, Key: r.Name(cfg.Name), Shard: cfg.Index, Round: t.Round, Peer: t.Node}
	r.Add(x)
	x.Kind, x.Begin = trace.Apply, end-int64(t.Update)
	r.Add(x)
}

// callSpans are a call's spans that have begun.
type callSpans struct {
	// receive and answer are when they began, by the clock of the trace; 0: they have not.
	receive, answer int64
	// bytes is of the payload received, and then of that sent.
	bytes int
}

// beginReceive begins the span of a contribution whose payload of n bytes comes next.
func (x *callSpans) beginReceive(r *trace.Recorder, kind wire.Kind, n int) {
	if r.On() && (kind == wire.KindPush || kind == wire.KindPushMany || kind == wire.KindPushRows) {
		x.receive, x.bytes = r.Now(), n
	}
}

// beginAnswer begins the span of a value, of n bytes, that is sent next.
func (x *callSpans) beginAnswer(r *trace.Recorder, n int) {
	if r.On() {
		x.answer, x.bytes = r.Now(), n
	}
}

// received ends the span of a contribution. Those of a PushMany have come together.
func (c *call) received() {
	if c.spans.receive == 0 {
		return
	}
	if c.kind == wire.KindPushMany {
		c.many.received(c.spans.receive)
	} else {
		round := c.push.Round
		if c.kind == wire.KindPushRows {
			round = c.pushRows.Round
		}
		c.spans.end(c.s.cfg.Trace, trace.Receive, &c.request, round)
	}
	c.spans.receive = 0
}

// answered ends the span of a value.
func (c *call) answered() {
	if c.spans.answer == 0 {
		return
	}
	round := uint64(0)
	switch c.kind {
	case wire.KindPush:
		round = c.push.Round + 1
	case wire.KindPull:
		round = trace.Wanted(c.pull.Round, c.pull.Seq)
	case wire.KindPullRows:
		round = trace.Wanted(c.pullRows.Round, c.pullRows.Seq)
	}
	c.spans.end(c.s.cfg.Trace, trace.Answer, &c.request, round)
	c.spans.answer = 0
}

// end records the span of a kind, Receive or Answer, which has begun.
func (x *callSpans) end(r *trace.Recorder, kind trace.Kind, of *request, round uint64) {
	begin := x.receive
	if kind == trace.Answer {
		begin = x.answer
	}
	r.Add(trace.Span{Kind: kind, Begin: begin, End: r.Now(), Peer: of.origin.Node, Bytes: uint64(x.bytes),
		Key: r.Name(of.entry.cfg.Name), Shard: of.entry.cfg.Index, Round: round})
}

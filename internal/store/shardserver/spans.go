package shardserver

import (
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

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

// end records the span of a kind, Receive or Answer, which has begun.
func (x *callSpans) end(r *trace.Recorder, kind trace.Kind, of *request, round uint64) {
	begin := x.receive
	if kind == trace.Answer {
		begin = x.answer
	}
	r.Add(trace.Span{Kind: kind, Begin: begin, End: r.Now(), Peer: of.origin.Node, Bytes: uint64(x.bytes),
		Key: r.Name(of.entry.cfg.Name), Shard: of.entry.cfg.Index, Round: round})
}

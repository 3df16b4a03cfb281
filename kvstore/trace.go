package kvstore

import (
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// callSpans are the spans of a call's current run.
type callSpans struct {
	// begun is when the first attempt began, by the Recorder's clock; 0: it is not recorded.
	// step is the step at that time.
	begun int64
	step  uint64
	// sent is when the request had been sent; 0: not known.
	sent atomic.Int64
	// note is the method value left. It is made once, because making it takes memory.
	note func()
}

// beginSpan begins the spans of a push or pull, unless an attempt before has.
func (c *call) beginSpan() {
	if r := c.op.r.trace; r.On() && c.spans.begun == 0 && c.shard >= 0 {
		c.spans.begun, c.spans.step = r.Now(), r.Step()
		c.spans.sent.Store(0)
	}
}

// left notes that the request has been sent. It may run while the answer is read.
func (c *call) left() {
	if c.op.r.trace.On() {
		if c.to.message != nil {
			c.to.message.left(c.op.r.trace.Now())
			return
		}
		c.spans.sent.Store(c.op.r.trace.Now())
	}
}

// ask sends the request to a peer and returns the answer. Where spans are recorded it learns when
// the request has been sent; a peer that cannot say so has spans without that moment.
func (c *call) ask(peer transport.Caller) ([]byte, error) {
	n, ok := peer.(transport.Notifier)
	if !ok || c.spans.begun == 0 && (c.to.message == nil || !c.op.r.trace.On()) {
		return peer.Call(c.op, c.request, c.answer, c.dst, c.payload...)
	}
	if c.spans.note == nil {
		c.spans.note = c.left
	}
	return n.CallNotify(c.op, c.spans.note, c.request, c.answer, c.dst, c.payload...)
}

// endSpan records the spans: of a push-pull a push and a pull, of another call one. A call that
// failed has none.
func (c *call) endSpan() {
	begun := c.spans.begun
	if begun == 0 {
		return
	}
	c.spans.begun = 0
	if c.op.Err() != nil {
		return
	}
	r := c.op.r.trace
	x := trace.Span{Begin: begun, End: r.Now(), Step: c.spans.step, Peer: uint64(c.to.rank()), Key: r.Name(c.op.key), Shard: uint32(c.shard)}
	push := x
	push.Kind = trace.Push
	x.Kind, x.Bytes = trace.Pull, uint64(len(c.got))
	for _, p := range c.payload {
		push.Bytes += uint64(len(p))
	}
	switch m := c.request.(type) {
	case *wire.Push:
		push.Round = m.Round
		if !m.Answer {
			r.Add(push)
			return
		}
		if sent := c.spans.sent.Load(); sent != 0 {
			push.End, x.Begin = min(sent, x.End), min(sent, x.End)
		}
		x.Round = m.Round + 1
		r.Add(push)
	case *wire.PushRows:
		push.Round = m.Round
		r.Add(push)
		return
	case *wire.Pull:
		x.Round = trace.Wanted(m.Round, m.Seq)
	case *wire.PullRows:
		x.Round = trace.Wanted(m.Round, m.Seq)
	default:
		return
	}
	r.Add(x)
}

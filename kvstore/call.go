package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A call is one request of an op. The op's next run reuses it. It ends exactly once in each run, by
// end, on whichever goroutine notices: then the op counts one call less.
//
// Its first attempt may be made by start, on the caller's goroutine; all others, and the first one
// where start cannot, are made by run on a goroutine of the pool.
type call struct {
	op *op
	to route
	// shard is the index of the shard that the request is about; -1: none.
	shard int

	request, answer wire.Message
	// origin is that of the request.
	origin  *wire.Origin
	payload [][]byte
	// dst is the memory for the answer's payload, and got the part of it that was filled.
	dst, got []byte

	// leader names the worker that sums up for this host, while it is asked.
	leader atomic.Pointer[string]

	spans   callSpans
	started transport.Started
	// sent says that start has made the first attempt, ended that it is over, and first is its
	// error.
	sent  bool
	ended atomic.Bool
	first error
}

// aim makes the request one about shard i of a key.
func (c *call) aim(k *key, i int) {
	c.shard, c.to = i, route{place: &k.servers[i]}
}

// run makes the attempts that settle the request, and ends it.
func (c *call) run() {
	o := c.op
	c.beginSpan()
	loop := attempt.New(&o.r.attempts, c.to.way, c.to.whole())
	first, took := c.first, time.Duration(0)
	if c.first = nil; first != nil {
		took = o.waited()
	}
	err := loop.Run(c, first, took)
	c.leader.Store(nil)
	switch {
	case c.to.message != nil:
		c.to.message.answered(c.got, err)
	case err != nil:
		o.fail(&ShardError{Verb: o.verb, Key: o.key, Shard: c.shard, Round: o.round, Peer: c.peer(), Err: err})
	}
	c.end()
}

func (c *call) end() {
	c.endSpan()
	if o := c.op; o.left.Add(-1) == 0 {
		o.wakeWaiter()
	}
}

// Attempt makes one attempt: see attempt.Request.
func (c *call) Attempt(w attempt.Way) (err error) {
	if w == attempt.ViaLeader {
		c.got, err = c.op.r.host.ask(c.op, c.request.(*wire.Push), c.answer.(*wire.Value), &c.leader, c.dst, c.payload)
		return err
	}
	c.leader.Store(nil)
	c.stamp()
	peer, _, err := c.op.r.node.Server(cluster.Rank(c.to.rank()))
	if err != nil {
		return err
	}
	c.got, err = c.ask(peer)
	return err
}

func (c *call) Over() <-chan struct{} { return c.op.Done() }

func (c *call) Note(err error) { c.op.noteAttempt(c, err) }

func (c *call) LeaderLost(err error) { c.op.r.host.lose(c.request.(*wire.Push), err) }

// start makes the first attempt without a goroutine of its own, if the request is small and can be
// sent at once. A leader is not asked so: it may be this worker.
func (c *call) start() bool {
	if c.to.way == attempt.ViaLeader {
		return false
	}
	peer, _, err := c.op.r.node.Server(cluster.Rank(c.to.rank()))
	if err != nil {
		return false
	}
	starter, ok := peer.(transport.Starter)
	if !ok {
		return false
	}
	c.stamp()
	c.ended.Store(false)
	c.beginSpan()
	c.sent = starter.Start(&c.started, c.request, c.answer, c.dst, c.payload...)
	if c.sent {
		c.left()
	}
	return c.sent
}

// answered ends the attempt of start, on the goroutine that read the answer. It must not wait,
// since other answers of that connection come after it: what is left to do is done on the pool.
func (c *call) answered() {
	got, err := c.started.Result()
	c.ended.Store(true)
	switch {
	case c.to.message != nil:
		c.to.message.answered(got, err)
		c.end()
	case err == nil:
		c.got = got
		c.end()
	default:
		c.begunElsewhere(err)
		c.op.r.pool.do(c)
	}
}

// begunElsewhere makes err the error of the first attempt of the next run. ErrClosed is left out: a
// further attempt gets an error that says more.
func (c *call) begunElsewhere(err error) {
	if !errors.Is(err, transport.ErrClosed) {
		c.first = err
	}
}

// giveUp cancels the attempt of start once the op has ended; cut closes its connection if that was
// not enough.
func (c *call) giveUp() {
	if c.sent {
		c.started.GiveUp(context.Canceled)
	}
}

func (c *call) cut() {
	if c.sent && !c.ended.Load() {
		c.started.Cut()
	}
}

// stamp writes the membership of this moment into the request.
func (c *call) stamp() {
	stamp(c.op.r.node, c.origin)
	if c.to.message != nil {
		c.to.message.stamp()
	}
}

// asked is whom the call waits for at the moment: a server, or the worker of this host that sums up
// for it.
func (c *call) asked() string {
	if leader := c.leader.Load(); leader != nil {
		return *leader + ", which adds up for this host"
	}
	return c.peer()
}

// peer names the server that the request goes to.
func (c *call) peer() string {
	rank := c.to.rank()
	_, addr, err := c.op.r.node.Server(cluster.Rank(rank))
	if err != nil || addr == "" {
		return fmt.Sprintf("server %d", rank)
	}
	return fmt.Sprintf("server %d at %s", rank, addr)
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

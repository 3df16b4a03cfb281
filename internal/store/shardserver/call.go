package shardserver

import (
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A call is one request, from its head to the end of its answer, with all that it holds. Calls are
// reused, so end gives back everything and leaves nothing of the request behind.
//
// A call belongs to one goroutine at a time: the one that reads the connection, then the one that
// serves it, then the one that writes the answer.
type call struct {
	s *Server
	// release is the method value finish, allocated once.
	release func()

	// The heads, by kind. Those of requests that come seldom, and of a PushMany, are made when
	// first needed.
	push wire.Push
	pull wire.Pull
	*otherMessages
	many *manyCall
	request

	// data is the payload, unless it was lent; size is that of a push.
	data *shard.Buffer
	lent lentPush
	size int
	// held says that the shard has the push.
	held   bool
	claims claims
	reply  reply

	// done and err are of a call that is one push of a PushMany: its answer is there, or why it
	// is refused.
	done bool
	err  error

	spans callSpans
	// arrived is when the whole request was here, on the clock of Server.now.
	arrived  int64
	patience patience
}

// otherMessages are the heads of requests that come seldom, and their answers. They are apart,
// because many pushes of small keys may be under way.
type otherMessages struct {
	init         wire.InitShard
	awaitShard   wire.AwaitShard
	pushRows     wire.PushRows
	pullRows     wire.PullRows
	clip         wire.Clip
	setOptimizer wire.SetOptimizer
	setRate      wire.SetRate
	readState    wire.ReadState
	writeState   wire.WriteState
	readRows     wire.ReadRows
	writeRows    wire.WriteRows
	readUsage    wire.ReadUsage
	profile      wire.Profile
	readProfile  wire.ReadProfile
	replicate    wire.Replicate
	fill         wire.Fill
	fillPart     wire.FillPart

	state wire.State
	rows  wire.Rows
	usage wire.Usage
	// clipped has digits of its own.
	clipped wire.Clipped
	part    wire.ProfilePart
}

// finish releases all that the call holds. It is called once: when the answer is written, or when
// there is none.
func (c *call) finish() {
	if c.many != nil && !c.many.finish(&c.s.spare) {
		c.many = nil
	}
	c.end()
	c.s.spare.Keep(c)
}

// end is finish, and leaves the call to its owner. Each thing is given back once: what has gone to
// the shard or to the answer is nil here.
func (c *call) end() {
	c.settle()
	c.answered()
	c.data.Release()
	c.reply.release()
	c.claims.end()
	if c.otherMessages != nil {
		c.part.Data, c.clipped.Squares = nil, nil
	}
	c.origin, c.entry, c.data, c.held = nil, nil, nil, false
	c.lent, c.push.Contributors = lentPush{}, nil
	c.patience.started, c.arrived, c.spans = time.Time{}, 0, callSpans{}
	c.done, c.err = false, nil
}

// response is the answer that serve has made. Its Release finishes the call: the answer may lie in
// memory that the call holds, so it must be written first.
func (c *call) response() transport.Response {
	resp := c.reply.response()
	resp.Release = c.release
	switch {
	case c.kind == wire.KindPushMany:
		resp.Payload, resp.Order = c.many.payload, c.many.head.Order()
	case c.origin != nil:
		resp.Order = c.origin.Order()
	}
	return resp
}

// answerAck answers that the request was done, by this or by an earlier attempt.
func (c *call) answerAck() error {
	c.reply.acknowledge(c.s.membership.Load().generation, 0)
	return nil
}

// answerRounds answers with an Ack that says how many rounds of a shard have closed.
func (c *call) answerRounds(e *entry) error {
	c.reply.acknowledge(c.s.membership.Load().generation, e.shard.Rounds())
	return nil
}

// answer answers with a message and a payload, which the call holds until it is written.
func (c *call) answer(m wire.Message, payload []byte) error {
	c.reply.give(m, payload)
	if m == &c.reply.value {
		c.spans.beginAnswer(c.s.cfg.Trace, len(payload))
	}
	return nil
}

// others returns the heads of requests that come seldom.
func (c *call) others() *otherMessages {
	if c.otherMessages == nil {
		c.otherMessages = &otherMessages{}
	}
	return c.otherMessages
}

// checkSize returns an error unless a payload of n bytes is of the size that the head says, and
// counts it in the server's budget: no shard's quota does.
func (c *call) checkSize(n int, size uint64) error {
	switch {
	case uint64(n) != size && c.origin == nil:
		return refuse(wire.CodeSize, "%v: got %d bytes of payload, want %d", c.kind, n, size)
	case uint64(n) != size:
		return refuse(wire.CodeSize, "%v of key %d shard %d: got %d bytes of payload, want %d", c.kind, c.origin.Key, c.origin.Shard, n, size)
	case n == 0:
		return nil
	}
	return c.claims.load(c.kind, &c.s.budget, n, c.s.limits.loading)
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

// newCall returns an empty call.
func (s *Server) newCall() *call {
	if c := s.spare.Take(); c != nil {
		return c
	}
	return makeCall(s)
}

// newCalls appends n empty calls to list.
func (s *Server) newCalls(list []*call, n int) []*call {
	had := len(list)
	list = s.spare.TakeMany(list, n)
	for len(list) < had+n {
		list = append(list, makeCall(s))
	}
	return list
}

// makeCall returns an empty call. Its release is made here, once: a method value allocates.
func makeCall(s *Server) *call {
	c := &call{s: s}
	c.release = c.finish
	return c
}

package shardserver

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A call is one request, from its head to the end of its answer, with all that it holds. Calls are
// reused.
type call struct {
	s       *Server
	release func() // the method value finish, allocated once

	// The head, by kind.
	push           wire.Push
	pull           wire.Pull
	*otherMessages              // made when first needed
	many           *manyCall    // of a PushMany; made when first needed
	origin         *wire.Origin // in the head
	kind           wire.Kind

	entry   *entry         // the shard, if requests of this kind name one
	data    *shard.Buffer  // the payload
	lent    lentPush       // or where it lies
	size    int            // bytes of a push's payload
	held    bool           // the shard has the push
	out     *shard.Buffer  // an answer's payload
	version *shard.Version // or the version that the answer is sent from
	loading int64          // bytes counted in Server.loading
	reading bool           // holds a token of Server.reads
	pushing claim          // in the shard's quota
	pulling claim

	ack     wire.Ack
	value   wire.Value
	message wire.Message
	payload [1][]byte
	filled  bool // payload is used
	placed  bool // the payload lies where the worker wants it

	// Of a call that is one push of a PushMany:
	done bool  // its answer is there
	err  error // why it is refused

	spans   callSpans
	arrived int64 // when the whole request was here, on the clock of Server.now
	timer   *time.Timer
	started time.Time // when the call's first wait began
}

// otherMessages are the heads of requests that come seldom, and their answers. They are apart,
// because many pushes of small keys may be under way.
type otherMessages struct {
	init         wire.InitShard
	awaitShard   wire.AwaitShard
	pushRows     wire.PushRows
	pullRows     wire.PullRows
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
	part  wire.ProfilePart
}

func (s *Server) newCall() *call {
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	if n := len(s.spareCall); n > 0 {
		c := s.spareCall[n-1]
		s.spareCall = s.spareCall[:n-1]
		return c
	}
	c := &call{s: s}
	c.release = c.finish
	return c
}

// newCalls appends n calls to list.
func (s *Server) newCalls(list []*call, n int) []*call {
	s.spareMu.Lock()
	k := min(n, len(s.spareCall))
	list = append(list, s.spareCall[len(s.spareCall)-k:]...)
	s.spareCall = s.spareCall[:len(s.spareCall)-k]
	s.spareMu.Unlock()
	for range n - k {
		c := &call{s: s}
		c.release = c.finish
		list = append(list, c)
	}
	return list
}

// maxSpareCalls is how many calls are kept for reuse.
const maxSpareCalls = 4096

// finish releases all that the call holds. It is called once: when the answer is written, or when
// there is none.
func (c *call) finish() {
	if c.many != nil {
		c.finishMany()
	}
	c.end()
	s := c.s
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	if len(s.spareCall) < maxSpareCalls {
		s.spareCall = append(s.spareCall, c)
	}
}

// end is finish, and leaves the call to its owner.
func (c *call) end() {
	s := c.s
	c.settle()
	c.answered()
	c.data.Release()
	c.out.Release()
	if c.version != nil {
		c.version.Release()
	}
	c.endPush()
	c.endPull()
	c.endLoading()
	if c.reading {
		<-s.reads
	}
	c.entry, c.data, c.out, c.version, c.reading = nil, nil, nil, nil, false
	if c.otherMessages != nil {
		c.part.Data = nil
	}
	c.origin, c.message, c.payload[0], c.filled, c.held = nil, nil, nil, false, false
	c.lent, c.placed, c.push.Contributors = lentPush{}, false, nil
	c.started, c.arrived, c.spans = time.Time{}, 0, callSpans{}
	c.done, c.err = false, nil
}

// arrive records that the whole request is here.
func (c *call) arrive() {
	if c.arrived == 0 {
		c.arrived = c.s.now()
	}
}

// response is the answer that serve has made. Its Release finishes the call.
func (c *call) response() transport.Response {
	resp := transport.Response{Message: c.message, Release: c.release, Placed: c.placed}
	switch {
	case c.kind == wire.KindPushMany:
		resp.Payload, resp.Order = c.many.payload, c.many.head.Order()
		return resp
	case c.filled && !c.placed:
		resp.Payload = c.payload[:]
	}
	if c.origin != nil {
		resp.Order = c.origin.Order()
	}
	return resp
}

func (c *call) answerAck() error {
	c.ack = wire.Ack{Generation: c.s.membership.Load().generation}
	c.message = &c.ack
	return nil
}

// answerRounds answers with an Ack that says how many rounds of a shard have closed.
func (c *call) answerRounds(e *entry) error {
	c.ack = wire.Ack{Generation: c.s.membership.Load().generation, Revision: e.shard.Rounds()}
	c.message = &c.ack
	return nil
}

func (c *call) answer(m wire.Message, payload []byte) error {
	c.message, c.payload[0], c.filled = m, payload, len(payload) > 0
	c.answering(len(payload))
	return nil
}

// prepare decodes the head and checks all that can be checked before memory is allocated for a
// payload of n bytes.
func (c *call) prepare(r *transport.Request, n int) error {
	head := c.head(r.Kind)
	if head == nil {
		return refuse(wire.CodeUnsupported, "got a %v, which servers do not answer", r.Kind)
	}
	if r.Peer != "" && r.Peer != identity.Server {
		switch r.Kind {
		case wire.KindReplicate, wire.KindFill, wire.KindFillPart:
			return refuse(wire.CodeUnauthorised, "a %s may not ask for a %v", r.Peer, r.Kind)
		}
	}
	if err := wire.DecodeHead(head, r.Head); err != nil {
		return err
	}
	return c.check(r.Kind, n)
}

func (c *call) makeOthers() {
	if c.otherMessages == nil {
		c.otherMessages = &otherMessages{}
	}
}

// head returns the message that a request of a kind is decoded into; nil: servers do not answer
// this kind.
func (c *call) head(kind wire.Kind) wire.Message {
	switch kind {
	case wire.KindPush:
		return &c.push
	case wire.KindPushMany:
		return c.manyHead()
	case wire.KindPull:
		return &c.pull
	}
	c.makeOthers()
	switch kind {
	case wire.KindInitShard:
		return &c.init
	case wire.KindAwaitShard:
		return &c.awaitShard
	case wire.KindPushRows:
		return &c.pushRows
	case wire.KindPullRows:
		return &c.pullRows
	case wire.KindSetOptimizer:
		return &c.setOptimizer
	case wire.KindSetRate:
		return &c.setRate
	case wire.KindReadState:
		return &c.readState
	case wire.KindWriteState:
		return &c.writeState
	case wire.KindReadRows:
		return &c.readRows
	case wire.KindWriteRows:
		return &c.writeRows
	case wire.KindReadUsage:
		return &c.readUsage
	case wire.KindProfile:
		return &c.profile
	case wire.KindReadProfile:
		return &c.readProfile
	case wire.KindReplicate:
		return &c.replicate
	case wire.KindFill:
		return &c.fill
	case wire.KindFillPart:
		return &c.fillPart
	}
	return nil
}

// check is prepare after the head is decoded.
func (c *call) check(kind wire.Kind, n int) (err error) {
	c.kind = kind
	size := uint64(0) // of the payload
	switch kind {
	case wire.KindPush:
		return c.preparePush(n)
	case wire.KindPushMany:
		return c.preparePushMany(n)
	case wire.KindPushRows:
		return c.preparePushRows(n)
	case wire.KindPull:
		return c.preparePull(n)
	case wire.KindPullRows:
		return c.preparePullRows(n)
	case wire.KindInitShard:
		c.origin = &c.init.Origin
		if !c.init.Zeros {
			size = 4 * min(c.init.Length, shard.MaxLength)
		}
	case wire.KindAwaitShard:
		c.origin = &c.awaitShard.Origin
	case wire.KindSetOptimizer:
		c.origin = &c.setOptimizer.Origin
	case wire.KindSetRate:
		c.origin = &c.setRate.Origin
	case wire.KindReadState:
		c.origin = &c.readState.Origin
		c.entry, err = c.s.find(c.origin)
	case wire.KindWriteState:
		c.origin = &c.writeState.Init.Origin
		if len(c.writeState.Slots) > maxSlots {
			return refuse(wire.CodeSize, "write state: got %d slots, want at most %d", len(c.writeState.Slots), maxSlots)
		}
		size = 4 * min(c.writeState.Init.Length, shard.MaxLength) * uint64(1+len(c.writeState.Slots))
	case wire.KindReadRows:
		c.origin = &c.readRows.Origin
		c.entry, err = c.s.find(c.origin)
	case wire.KindWriteRows:
		size, err = c.prepareWriteRows()
	case wire.KindReadUsage:
		c.origin = &c.readUsage.Origin
	case wire.KindProfile:
		c.origin = &c.profile.Origin
	case wire.KindReadProfile:
		c.origin = &c.readProfile.Origin
	case wire.KindReplicate:
		size, err = c.prepareReplicate()
	case wire.KindFill:
		if c.fill.Whole > smallFill {
			return refuse(wire.CodeSize, "fill: key %d shard %d: got %d values in one message, want at most %d", c.fill.Key, c.fill.Shard, c.fill.Whole, smallFill)
		}
		size = 4 * uint64(c.fill.Whole)
	case wire.KindFillPart:
		size, err = c.prepareFillPart()
	}
	switch {
	case err != nil:
		return err
	case uint64(n) != size && c.origin == nil:
		return refuse(wire.CodeSize, "%v: got %d bytes of payload, want %d", kind, n, size)
	case uint64(n) != size:
		return refuse(wire.CodeSize, "%v of key %d shard %d: got %d bytes of payload, want %d", kind, c.origin.Key, c.origin.Shard, n, size)
	case n == 0:
		return nil
	}
	return c.beginLoading(n)
}

// beginLoading counts a payload that no shard's quota counts.
func (c *call) beginLoading(n int) error {
	if loading := c.s.loading.Add(int64(n)); loading > c.s.limits.loading {
		c.s.loading.Add(-int64(n))
		return refuse(wire.CodeBusy, "%v: %d bytes of values are being received, want at most %d", c.kind, loading, c.s.limits.loading)
	}
	c.loading = int64(n)
	return nil
}

func (c *call) endLoading() {
	if c.loading > 0 {
		c.s.loading.Add(-c.loading)
		c.loading = 0
	}
}

// serve makes the answer.
func (c *call) serve(ctx context.Context) error {
	switch c.kind {
	case wire.KindReplicate:
		return c.serveReplicate(ctx)
	case wire.KindFill:
		return c.serveFill(ctx)
	case wire.KindFillPart:
		return c.serveFillPart(ctx)
	}
	if err := c.s.admit(ctx, c); err != nil {
		return err
	}
	switch c.kind {
	case wire.KindInitShard:
		return c.serveInit(ctx)
	case wire.KindAwaitShard:
		return c.serveAwaitShard(ctx)
	case wire.KindPush:
		return c.servePush(ctx)
	case wire.KindPushMany:
		return c.servePushMany(ctx)
	case wire.KindPushRows:
		return c.servePushRows(ctx)
	case wire.KindPull:
		return c.servePull(ctx)
	case wire.KindPullRows:
		return c.servePullRows(ctx)
	case wire.KindSetOptimizer:
		return c.serveSetOptimizer()
	case wire.KindSetRate:
		return c.serveSetRate()
	case wire.KindReadState:
		return c.serveReadState(ctx)
	case wire.KindWriteState:
		return c.serveWriteState(ctx)
	case wire.KindReadRows:
		return c.serveReadRows(ctx)
	case wire.KindWriteRows:
		return c.serveWriteRows(ctx)
	case wire.KindReadUsage:
		return c.serveReadUsage()
	case wire.KindProfile:
		return c.serveProfile()
	case wire.KindReadProfile:
		return c.serveReadProfile()
	}
	return refuse(wire.CodeUnsupported, "got a %v", c.kind)
}

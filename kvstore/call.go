package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// A call is one request to one server, repeated until it is answered. It belongs to an op and is used again by the op's
// next run.
type call struct {
	op     *op
	key    *key // whose shard it is about; nil: the server as such
	shard  int  // -1: none
	server int  // without a key: the server's rank

	request, answer wire.Message
	origin          *wire.Origin // of the request: stamped with the membership of the moment
	payload         [][]byte
	dst             []byte

	got []byte // the answer's payload, in dst

	started transport.Started
	sent    bool        // the first attempt was started
	over    atomic.Bool // and has ended
	first   error       // with this
}

// Pauses between two attempts: the first, and the longest.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

func (c *call) run() {
	o := c.op
	if err := c.try(); err != nil {
		o.fail(&ShardError{Verb: o.verb, Key: o.key, Shard: c.shard, Round: o.round, Peer: c.peer(), Err: err})
	}
	c.end()
}

func (c *call) end() {
	if o := c.op; o.left.Add(-1) == 0 {
		o.tell()
	}
}

// start makes the first attempt without a goroutine for it, if the request is small and can leave at once. run makes the others.
func (c *call) start() bool {
	c.sent = false
	peer, _, err := c.op.s.node.Server(cluster.Rank(c.rank()))
	if err != nil {
		return false
	}
	starter, ok := peer.(transport.Starter)
	if !ok {
		return false
	}
	c.stamp()
	c.over.Store(false)
	c.sent = starter.Start(&c.started, c.request, c.answer, c.dst, c.payload...)
	return c.sent
}

// answered ends the first attempt, on the goroutine that read the answer.
func (c *call) answered() {
	got, err := c.started.Result()
	c.over.Store(true)
	if err == nil {
		c.got = got
		c.end()
		return
	}
	if !errors.Is(err, transport.ErrClosed) { // of that the peer says more when it is asked again
		c.first = err
	}
	c.op.s.crew.do(c)
}

// giveUp ends the first attempt when the op has, and cut ends its connection if that was not enough.
func (c *call) giveUp() {
	if c.sent {
		c.started.GiveUp(context.Canceled)
	}
}

func (c *call) cut() {
	if c.sent && !c.over.Load() {
		c.started.Cut()
	}
}

// try repeats the request until it was answered or refused for good, or the op ends.
func (c *call) try() error {
	o, node := c.op, c.op.s.node
	pause := firstPause
	var doubt time.Time // since when attempts have failed in a way that may pass or may not
	for {
		began := time.Now()
		var got []byte
		err := c.first
		if c.first = nil; err != nil {
			began = began.Add(o.mark.began - o.s.lookout.now())
		} else {
			c.stamp()
			var peer transport.Caller
			if peer, _, err = node.Server(cluster.Rank(c.rank())); err == nil {
				got, err = peer.Call(o, c.request, c.answer, c.dst, c.payload...)
			}
		}
		if err == nil {
			c.got = got
			return nil
		}
		if c.gone(err) {
			return nil
		}
		if o.Err() != nil {
			return err // the op ended for another reason, which it knows
		}
		code, again, err := c.judge(err)
		switch {
		case !again && code == wire.CodeUnavailable:
			return c.ended(err)
		case !again:
			return err
		}
		o.note(c, err)
		switch {
		case code == wire.CodeStaleGeneration, code == wire.CodeUnknownNode, code == wire.CodeMoved, code == wire.CodeUnavailable, errors.Is(err, transport.ErrAuth):
			// The peer, or this node, has yet to hear of a change: of a node that is no member any more Done is closed. And a
			// connection that breaks while it is made may look like one that was refused.
			if doubt.IsZero() {
				doubt = began
			} else if time.Since(doubt) > grace {
				return c.unheard(err)
			}
		case code == wire.CodeTimeout && time.Since(began) > time.Second:
			pause, doubt = firstPause, time.Time{} // it did wait
		default:
			doubt = time.Time{}
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-o.Done():
			t.Stop()
			return err
		case <-node.Done():
			t.Stop()
			return fmt.Errorf("%w; %w", o.s.over(), err)
		}
		pause = min(2*pause, longestPause)
	}
}

// ended gives the scheduler a moment to say how a job has ended of which a server says so: then all calls end alike.
func (c *call) ended(err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.op.Done():
	case <-c.op.s.node.Done():
		return fmt.Errorf("%w; %w", c.op.s.over(), err)
	}
	return err
}

// unheard says what it may mean that a server goes on refusing this worker, where the scheduler has not said why for so long.
func (c *call) unheard(err error) error {
	var r *refused
	if errors.As(err, &r) && (r.refusal.Code == wire.CodeUnknownNode || r.refusal.Code == wire.CodeStaleGeneration && r.refusal.Generation > r.ours) {
		return fmt.Errorf("%w; the scheduler has not confirmed this for %v: this worker may be cut off from the scheduler and declared lost; %s", err, grace, cluster.HowToComeBack)
	}
	return err
}

// grace is how long two nodes may differ about the generation, or not prove the job's secret, before a call gives up.
const grace = 15 * time.Second

// judge says whether a failed attempt is worth repeating, and puts it into this package's words.
func (c *call) judge(err error) (code wire.Code, again bool, _ error) {
	moves := c.moves(err)
	err = c.op.s.explain(err)
	var r *refused
	if errors.As(err, &r) {
		switch code = r.refusal.Code; code {
		case wire.CodeStaleGeneration, wire.CodeUnknownNode:
			if c.op.s.removed.Load() {
				return code, false, fmt.Errorf("%w: %w", ErrRemoved, err)
			}
			return code, true, err
		case wire.CodeTimeout, wire.CodeBusy:
			return code, true, err
		}
		return code, moves, err
	}
	return 0, moves || errors.Is(err, transport.ErrConnection) || errors.Is(err, transport.ErrAuth), err
}

// explain puts an error of a node or a transport into this package's words.
func (s *store) explain(err error) error {
	var r *transport.Refusal
	switch {
	case errors.As(err, &r):
		return &refused{is: meaning(r.Code), ours: uint64(s.node.Generation()), refusal: r}
	case errors.Is(err, transport.ErrConnection), errors.Is(err, transport.ErrAuth), errors.Is(err, transport.ErrClosed):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	over := false // whatever the error is
	select {
	case <-s.node.Done():
		over = true
	default:
		for _, end := range []error{cluster.ErrLost, cluster.ErrFailed, cluster.ErrFinished, cluster.ErrScheduler} {
			over = over || errors.Is(err, end)
		}
	}
	if over && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// stamp writes the membership of the moment into the request.
func (c *call) stamp() {
	node := c.op.s.node
	for {
		g := node.Generation()
		c.origin.Node, c.origin.Rank = uint64(node.ID()), uint32(node.Rank())
		if c.origin.Generation = uint64(g); node.Generation() == g { // the rank is that generation's
			return
		}
	}
}

func (c *call) peer() string {
	rank := c.rank()
	_, addr, err := c.op.s.node.Server(cluster.Rank(rank))
	if err != nil || addr == "" {
		return fmt.Sprintf("server %d", rank)
	}
	return fmt.Sprintf("server %d at %s", rank, addr)
}

var _ context.Context = (*op)(nil)

package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A call is one request to one server, repeated until it is answered. It belongs to an op, and the
// op's next run reuses it.
type call struct {
	op     *op
	key    *key         // whose shard the request is about; nil: it is about the whole server
	shard  int          // -1: none
	server int          // the server's rank, if key is nil
	many   *manyMessage // what the request carries, if that is a PushMany

	request, answer wire.Message
	origin          *wire.Origin // the request's; stamp fills in the current membership
	payload         [][]byte
	dst             []byte

	summed bool                   // a push that a worker of this host adds up with those of others
	leader atomic.Pointer[string] // that worker, while it is asked
	got    []byte                 // the answer's payload, in dst

	spans   callSpans
	started transport.Started
	sent    bool        // the first attempt was started
	over    atomic.Bool // the first attempt has ended
	first   error       // the error of the first attempt
}

// Pauses between two attempts double from the first to the longest. Most repeats wait for news of
// the membership, which takes milliseconds; a server that is restarted takes seconds, and one
// request a second does not burden it.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

func (c *call) run() {
	if c.many != nil {
		c.tryOnce()
		return
	}
	o := c.op
	c.beginSpan()
	if c.summed && c.askLeader() {
		c.end()
		return
	}
	if err := c.try(); err != nil {
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

// start makes the first attempt without a goroutine of its own, if the request is small and can be
// sent at once. run makes the others.
func (c *call) start() bool {
	if c.summed {
		return false
	}
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
	c.beginSpan()
	c.sent = starter.Start(&c.started, c.request, c.answer, c.dst, c.payload...)
	if c.sent {
		c.left()
	}
	return c.sent
}

// answered ends the first attempt, on the goroutine that read the answer.
func (c *call) answered() {
	got, err := c.started.Result()
	c.over.Store(true)
	if c.many != nil {
		c.many.answered(got, err)
		c.end()
		return
	}
	if err == nil {
		c.got = got
		c.end()
		return
	}
	if !errors.Is(err, transport.ErrClosed) { // a repeated request gets an error that says more than ErrClosed
		c.first = err
	}
	c.op.s.pool.do(c)
}

// giveUp cancels the first attempt once the op has ended; cut closes its connection if that was not
// enough.
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
	var doubt time.Time // since when every attempt has failed with an error that may or may not be temporary
	for {
		began := time.Now()
		var got []byte
		err := c.first
		if c.first = nil; err != nil {
			began = began.Add(o.watch.began - o.s.watcher.now())
		} else {
			c.stamp()
			var peer transport.Caller
			if peer, _, err = node.Server(cluster.Rank(c.rank())); err == nil {
				got, err = c.ask(peer)
			}
		}
		if err == nil {
			c.got = got
			return nil
		}
		if c.serverRemoved(err) {
			return nil
		}
		if o.Err() != nil {
			return err // the op has recorded why it ended
		}
		code, again, err := c.classify(err)
		switch {
		case !again && code == wire.CodeUnavailable:
			return c.awaitJobEnd(err)
		case !again:
			return err
		}
		o.noteAttempt(c, err)
		switch {
		case code == wire.CodeStaleGeneration, code == wire.CodeUnknownNode, code == wire.CodeMoved, code == wire.CodeUnavailable, errors.Is(err, transport.ErrAuth):
			// The peer or this node has not yet heard of a membership change. (A node
			// that is no longer a member stops here too: its Done is closed.) A
			// connection that breaks during the handshake may look like a failed
			// authentication.
			if doubt.IsZero() {
				doubt = began
			} else if time.Since(doubt) > staleGrace {
				return c.explainUnconfirmed(err)
			}
		case code == wire.CodeTimeout && time.Since(began) > time.Second:
			pause, doubt = firstPause, time.Time{} // the server held the request for as long as it was asked to: it works
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
			return fmt.Errorf("%w; %w", o.s.jobEndError(), err)
		}
		pause = min(2*pause, longestPause)
	}
}

// awaitJobEnd waits a second for the scheduler to say why the job has ended, when a server reports
// the end first: so all calls return the same cause.
func (c *call) awaitJobEnd(err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.op.Done():
	case <-c.op.s.node.Done():
		return fmt.Errorf("%w; %w", c.op.s.jobEndError(), err)
	}
	return err
}

// explainUnconfirmed adds what to do when a server has refused this worker's membership for
// staleGrace and the scheduler has not said why.
func (c *call) explainUnconfirmed(err error) error {
	var r *refused
	if errors.As(err, &r) && (r.refusal.Code == wire.CodeUnknownNode || r.refusal.Code == wire.CodeStaleGeneration && r.refusal.Generation > r.ours) {
		return fmt.Errorf("%w; the scheduler has not confirmed this for %v: this worker may be cut off from the scheduler and declared lost; %s", err, staleGrace, cluster.HowToComeBack)
	}
	return err
}

// staleGrace is how long two nodes may disagree about the generation, or fail to prove the job's
// secret, before a call gives up. It is longer than the default lease (10 s): within a lease the
// scheduler tells either node about the change.
const staleGrace = 15 * time.Second

// classify says whether to repeat a failed attempt, and wraps its error in this package's errors.
func (c *call) classify(err error) (code wire.Code, again bool, _ error) {
	moves := c.shardMayMove(err)
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

// explain wraps an error of cluster or transport in this package's errors.
func (s *store) explain(err error) error {
	var r *transport.Refusal
	switch {
	case errors.As(err, &r):
		return &refused{is: meaning(r.Code), ours: uint64(s.node.Generation()), refusal: r}
	case errors.Is(err, transport.ErrConnection), errors.Is(err, transport.ErrAuth), errors.Is(err, transport.ErrClosed):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	over := false // the job has ended for this node
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

// stamp writes the current membership into the request.
func (c *call) stamp() {
	stamp(c.op.s.node, c.origin)
	if c.many != nil {
		c.many.stamp()
	}
}

func stamp(node member, o *wire.Origin) {
	for {
		g := node.Generation()
		o.Node, o.Rank = uint64(node.ID()), uint32(node.Rank())
		if o.Generation = uint64(g); node.Generation() == g { // so the rank read above belongs to generation g
			return
		}
	}
}

// asked is whom the call waits for at the moment: a server, or the worker of this host that adds up
// for it.
func (c *call) asked() string {
	if leader := c.leader.Load(); leader != nil {
		return *leader + ", which adds up for this host"
	}
	return c.peer()
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

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// Errors that callers ask for.
var (
	// ErrNoJob: the environment describes no job at all, so that a program may run alone.
	ErrNoJob = errors.New("no job in the environment")
	// ErrClosed: the node ended by itself, by Leave or Close.
	ErrClosed = errors.New("closed")
	// ErrFailed: the job failed; the text says why.
	ErrFailed = errors.New("the job failed")
	// ErrFinished: all workers that counted are done.
	ErrFinished = errors.New("the job has finished")
	// ErrLost: the scheduler no longer counts the node as a member. It is in the chain as a *LostError.
	ErrLost = errors.New("no longer a member of the job")
	// ErrRemoved: the node was asked to leave the job, and all it did counts. It leaves in order.
	ErrRemoved = errors.New("removed from the job")
	// ErrNeeded: the job does not go on without the node, so it can not leave alone; the text says why.
	ErrNeeded = errors.New("the job does not go on without this worker")
	// ErrNoServer: there is no server of a rank, or none any more.
	ErrNoServer = errors.New("no such server")
	// ErrScheduler: the scheduler was out of reach for too long.
	ErrScheduler = errors.New("scheduler out of reach")
)

// HowToComeBack is what a person can do about a process that the job goes on without.
const HowToComeBack = "end this process, and start it anew as one that joins (PARAGON_JOIN=1) if it should come back"

// A LostError ends a node that the scheduler no longer counts: it was silent for longer than its lease, say. It is ErrLost.
type LostError struct {
	Reason string // in the scheduler's words
}

// Error says what to do, too.
func (e *LostError) Error() string {
	return fmt.Sprintf("cluster: %v: %s; %s", ErrLost, e.Reason, HowToComeBack)
}

// Is says that it is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Node is a process's place in a job. Its methods may be called together from any goroutine.
type Node struct {
	cfg   Config
	sched *transport.Client
	id    NodeID

	ctx    context.Context // ends with the node
	cancel context.CancelFunc
	done   chan struct{}
	wg     sync.WaitGroup // heartbeats and watch
	nonce  uint64         // drawn once

	pending  atomic.Uint64            // membership.Change
	standing atomic.Pointer[standing] // of membership; stored under mu, read for every request

	mu         sync.Mutex // guards all below
	err        error      // why done is closed
	ended      bool       // done is closed
	membership wire.Membership
	counts     bool // the node counts in the membership
	changed    chan struct{}
	heard      time.Time // of the scheduler
	said       time.Time // when it was last told that the scheduler is not heard of
	step       uint64
	epoch      uint64
	callers    map[string]*caller // by address
}

// A standing is what a node is in one membership.
type standing struct {
	generation Generation
	rank       Rank
}

// ID is the node's ID.
func (n *Node) ID() NodeID { return n.id }

// Role is the node's role.
func (n *Node) Role() Role { return n.cfg.Role }

// InitialWorkers is the number of workers that the job was started with.
func (n *Node) InitialWorkers() int { return n.cfg.NumWorkers }

// Rank is the node's rank in the newest generation known. That of a worker which does not count yet is the number of workers
// that do.
func (n *Node) Rank() Rank { return n.standing.Load().rank }

// Generation is the newest generation known.
func (n *Node) Generation() Generation { return n.standing.Load().generation }

// Membership is the newest membership known. The slices are shared and must not be changed.
func (n *Node) Membership() wire.Membership {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.membership
}

// Changed returns a channel that is closed when the membership is another than it is now. Take the channel first, then
// read Membership, then wait.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Progress tells what the next heartbeats say: the last step finished and its epoch (of servers, the rounds closed).
func (n *Node) Progress(step, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step, n.epoch = step, epoch
}

// Done is closed when the job ended for this node: it finished (Err is nil), it failed (ErrFailed), the scheduler holds the
// node for lost (ErrLost) or is out of reach (ErrScheduler), or the node was closed (ErrClosed).
func (n *Node) Done() <-chan struct{} { return n.done }

// Err says why Done is closed; nil while it is not, and when the job finished in order.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// why is Err of a node that has ended, for whoever cannot go on.
func (n *Node) why() error {
	if err := n.Err(); err != nil {
		return err
	}
	return fmt.Errorf("cluster: %w", ErrFinished)
}

// end ends the node for a reason; the first one counts. All its waits end with it.
func (n *Node) end(err error) {
	n.mu.Lock()
	if n.ended {
		n.mu.Unlock()
		return
	}
	n.ended, n.err = true, err
	close(n.done)
	callers := n.callers
	n.mu.Unlock()
	n.cancel()
	for _, c := range callers {
		c.Client.Close()
	}
}

// Close ends the node without a word: the scheduler finds out when its lease is over. It returns when all of the node's
// goroutines and connections are gone.
func (n *Node) Close() error {
	n.end(ErrClosed)
	err := n.sched.Close()
	n.wg.Wait()
	return err
}

// Leave tells the scheduler that the node ends, in order or (ok false) for a reason that fails the job, and closes the node.
// The scheduler is told even where the job has ended already, so that it need not wait for this node. A node that leaves in order waits for
// a scheduler that is out of reach, for up to Config.SchedulerTimeout: else it would be held for lost. After that it ends nevertheless, with
// a warning and no error: what it had to do is done.
func (n *Node) Leave(ctx context.Context, ok bool, reason string) error {
	n.end(ErrClosed) // no heartbeat may come after the leave
	over := !errors.Is(n.Err(), ErrClosed)
	limit := 5 * time.Second
	switch {
	case over:
		limit = time.Second
	case ok:
		limit = max(limit, n.cfg.SchedulerTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := n.ask(ctx, 0, &wire.Leave{Node: uint64(n.id), OK: ok, Reason: reason}, &wire.Ack{}, false)
	n.Close()
	if ok && !over && (errors.Is(err, transport.ErrConnection) || errors.Is(err, context.DeadlineExceeded)) {
		n.cfg.Logger.Warn("the scheduler could not be told that this node is done, and will take it for lost; all that it did counts", "err", err)
		return nil
	}
	if err != nil && !over && !errors.Is(err, transport.ErrClosed) {
		return fmt.Errorf("cluster: leave: %w", err)
	}
	return nil
}

// update takes a membership in.
func (n *Node) update(m *wire.Membership) {
	n.mu.Lock()
	n.heard = time.Now()
	if m.Revision > n.membership.Revision || m.Phase == wire.PhaseForming {
		grown := m.Revision > n.membership.Revision
		n.membership = *m
		n.pending.Store(m.Change)
		now := &standing{Generation(m.Generation), n.standing.Load().rank}
		for _, member := range m.Nodes {
			if member.Node == uint64(n.id) && m.Phase != wire.PhaseForming {
				now.rank, n.counts = Rank(member.Rank), member.Counts()
				if !n.counts {
					now.rank = Rank(m.Workers)
				}
			}
		}
		n.standing.Store(now)
		if grown {
			close(n.changed)
			n.changed = make(chan struct{})
		}
		n.dismiss()
	}
	n.mu.Unlock()
	switch m.Phase {
	case wire.PhaseFinished:
		n.end(nil)
	case wire.PhaseFailed:
		n.end(fmt.Errorf("cluster: %w: %s", ErrFailed, m.Reason))
	}
}

// dismiss closes the Clients to servers that are no members any more: calls to one that is silent would wait for ever. The caller
// holds mu.
func (n *Node) dismiss() {
	if n.ended || n.membership.Phase != wire.PhaseRunning {
		return
	}
	here := make(map[string]bool, len(n.callers))
	for i := range n.membership.Nodes {
		if m := &n.membership.Nodes[i]; m.Role == wire.RoleServer {
			here[m.Addr] = true
		}
	}
	for addr, c := range n.callers {
		if !here[addr] {
			delete(n.callers, addr)
			n.wg.Go(func() { c.Client.Close() })
		}
	}
}

// A caller is the Client to a server; its errors tell why the job ended, where that is the cause.
type caller struct {
	*transport.Client
	n *Node
}

// Call implements transport.Caller.
func (c *caller) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	b, err := c.Client.Call(ctx, request, answer, dst, payload...)
	if err != nil && errors.Is(err, transport.ErrClosed) {
		select {
		case <-c.n.done:
			return nil, fmt.Errorf("%w: %w", c.n.why(), err)
		default:
		}
	}
	return b, err
}

// Close does nothing: the node owns its callers.
func (c *caller) Close() error { return nil }

// Server returns the Caller to the server of a rank and the server's address. The Caller belongs to the node: it is shared,
// and closed by Close and by the end of the job.
func (n *Node) Server(rank Rank) (transport.Caller, string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		if n.err != nil {
			return nil, "", n.err
		}
		return nil, "", fmt.Errorf("cluster: %w", ErrFinished)
	}
	for _, m := range n.membership.Nodes {
		if m.Role != wire.RoleServer || m.Rank != int32(rank) {
			continue
		}
		c := n.callers[m.Addr]
		if c == nil {
			c = &caller{transport.NewClient(m.Addr, n.cfg.Transport(Server)), n}
			n.callers[m.Addr] = c
		}
		return c, m.Addr, nil
	}
	return nil, "", fmt.Errorf("cluster: %w: rank %d in generation %d", ErrNoServer, rank, n.membership.Generation)
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Errors that callers ask for.
var (
	// ErrNoJob: the environment describes no job, so a program may run as a job of its own.
	ErrNoJob = errors.New("no job in the environment")
	// ErrClosed: Leave or Close ended the node.
	ErrClosed = errors.New("closed")
	// ErrFailed: the job failed; the text says why.
	ErrFailed = errors.New("the job failed")
	// ErrFinished: all workers are done.
	ErrFinished = errors.New("the job has finished")
	// ErrLost: the scheduler has declared the node lost. It is in the error's chain as a
	// *LostError.
	ErrLost = errors.New("no longer a member of the job")
	// ErrRemoved: the node was asked to leave the job. All its steps count, and its process
	// should end with code 0.
	ErrRemoved = errors.New("removed from the job")
	// ErrNeeded: the node may not leave, because the job would not go on without it; the text
	// says why.
	ErrNeeded = errors.New("the job cannot go on without this worker")
	// ErrNoServer: there is no server of this rank (any more).
	ErrNoServer = errors.New("no such server")
	// ErrScheduler: the scheduler was unreachable for too long.
	ErrScheduler = errors.New("scheduler unreachable")
)

// HowToComeBack tells a person what to do with a process that the job has lost.
const HowToComeBack = "end this process; to take part again, start a new one with PARAGON_JOIN=1"

// A LostError ends a node that the scheduler has declared lost, for example because its lease
// expired. It is ErrLost.
type LostError struct {
	Reason string // in the scheduler's words
}

// Error also says what to do.
func (e *LostError) Error() string {
	return fmt.Sprintf("cluster: %v: %s; %s", ErrLost, e.Reason, HowToComeBack)
}

// Is makes it ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// A Node is a process's membership in a job. Its methods may be called concurrently.
type Node struct {
	cfg   Config
	sched *transport.Client
	id    NodeID

	ctx    context.Context // ends with the node
	cancel context.CancelFunc
	done   chan struct{}
	traced chan struct{}  // closed when the node sends no more spans
	wg     sync.WaitGroup // heartbeats and watch
	nonce  uint64         // random, of this process
	clock  *telemetry.Clock

	endpoint      *exposition.Endpoint // nil: there is none
	closeEndpoint sync.Once
	windows       *windows

	pending  atomic.Uint64            // membership.Change
	position atomic.Pointer[position] // in membership; stored under mu, read for every request

	mu         sync.Mutex // guards all below
	err        error      // why done is closed
	ended      bool       // done is closed
	membership wire.Membership
	member     bool // the node is a member of the generation, not only joining
	changed    chan struct{}
	stopping   chan struct{} // closed when the job stops with a checkpoint
	lastHeard  time.Time     // when the scheduler last answered
	lastLogged time.Time     // when the log last said that the scheduler does not answer
	step       uint64
	epoch      uint64
	adaptation string                                           // what the next heartbeats report of it
	waits      func() (call, whom string, waited time.Duration) // what they report of the process's calls; nil: nothing
	callers    map[string]*caller                               // by address
}

// A position is a node's generation and rank in one membership.
type position struct {
	generation Generation
	rank       Rank
}

// ID is the node's ID.
func (n *Node) ID() NodeID { return n.id }

// Recorder takes what this process measures: the heartbeats carry it to the scheduler.
func (n *Node) Recorder() *telemetry.Recorder { return n.cfg.Recorder }

// Clock is this process's clock, which knows how far it is from the scheduler's.
func (n *Node) Clock() *telemetry.Clock { return n.clock }

// Trace takes the spans of this process; its times are those of Clock.
func (n *Node) Trace() *trace.Recorder { return n.cfg.Trace }

// Role is the node's role.
func (n *Node) Role() Role { return n.cfg.Role }

// InitialWorkers is the number of workers that the job was started with.
func (n *Node) InitialWorkers() int { return n.cfg.NumWorkers }

// Run is the ID of the job's run, and whether launch has started the job again.
func (n *Node) Run() (id string, again bool) { return n.cfg.Run, n.cfg.RunAgain }

// Rank is the node's rank in the newest generation known. A joining worker's rank is the number of
// workers of that generation.
func (n *Node) Rank() Rank { return n.position.Load().rank }

// Generation is the newest generation known.
func (n *Node) Generation() Generation { return n.position.Load().generation }

// Membership is the newest membership known. The slices are shared and must not be changed.
func (n *Node) Membership() wire.Membership {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.membership
}

// Changed returns a channel that is closed when the membership changes. Get the channel first, then
// read Membership, then wait.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Progress sets what the next heartbeats report: the last finished step and its epoch (for a
// server, the rounds closed).
func (n *Node) Progress(step, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step, n.epoch = step, epoch
}

// ReportAdaptation sets what the next heartbeats report of how this worker adapts, as JSON of at
// most wire.MaxAdaptation bytes.
func (n *Node) ReportAdaptation(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.adaptation = text
}

// ReportWaits takes a function that says which of the process's calls has waited longest, for whom,
// and for how long; no call: none has waited for long. It is called before each heartbeat, which
// takes that to the scheduler for those who ask why the job stands still.
func (n *Node) ReportWaits(longest func() (call, whom string, waited time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits = longest
}

// WorkerRange is from how many to how many workers the job may have as rank 0 wishes; most is 0
// where no one carries a wish out.
func (n *Node) WorkerRange() (least, most int) {
	if e := n.cfg.Elastic; e.AdaptWorkers {
		return max(e.MinWorkers, 1), e.MaxWorkers
	}
	return 0, 0
}

// Done is closed when the job has ended for this node: it finished (Err is nil), it failed
// (ErrFailed), the scheduler has declared the node lost (ErrLost) or is unreachable (ErrScheduler),
// or the node was closed (ErrClosed).
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why Done is closed; nil before that, and when the job has finished.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// endError is Err of a node that has ended; ErrFinished where Err is nil.
func (n *Node) endError() error {
	if err := n.Err(); err != nil {
		return err
	}
	return fmt.Errorf("cluster: %w", ErrFinished)
}

// end ends the node, and all its waits, for a reason. The first reason is kept.
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

// Close ends the node without telling the scheduler, which will declare it lost when its lease
// expires. It returns when all of the node's goroutines and connections have ended.
func (n *Node) Close() error {
	n.end(ErrClosed)
	if err := n.Err(); err == nil || errors.Is(err, ErrFailed) { // watch has said so, and trace began with it
		<-n.traced // the scheduler stays for a trace; servers do not leave a job that has ended
	}
	err := n.sched.Close()
	n.wg.Wait()
	if n.endpoint != nil {
		n.closeEndpoint.Do(func() { _ = n.endpoint.Close() }) // a scrape that is cut off is the scraper's matter
	}
	return err
}

// Leave tells the scheduler that the node ends, cleanly or (ok false) for a reason that fails the
// job, and closes the node. It does so even after the job has ended, so that the scheduler need not
// wait for this node. On a clean leave it tries for up to Config.SchedulerTimeout to reach the
// scheduler, which would otherwise declare the node lost. If that fails it logs a warning and
// returns nil, because the node's work is done.
func (n *Node) Leave(ctx context.Context, ok bool, reason string) error {
	n.end(ErrClosed) // no heartbeat may come after the leave
	<-n.traced       // and no spans are taken from a node that has left
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
	_, err := n.ask(ctx, 0, &wire.Leave{Node: uint64(n.id), OK: ok, Reason: reason, Record: n.record()}, &wire.Ack{}, false)
	n.Close()
	if ok && !over && (errors.Is(err, transport.ErrConnection) || errors.Is(err, context.DeadlineExceeded)) {
		n.cfg.Logger.Warn("the leave request did not reach the scheduler, which will declare this node lost; its acknowledged steps still count", "err", err)
		return nil
	}
	if err != nil && !over && !errors.Is(err, transport.ErrClosed) {
		return fmt.Errorf("cluster: leave: %w", err)
	}
	return nil
}

// update replaces the membership by a newer one.
func (n *Node) update(m *wire.Membership) {
	n.mu.Lock()
	n.lastHeard = time.Now()
	if m.Revision > n.membership.Revision || m.Phase == wire.PhaseForming {
		grown := m.Revision > n.membership.Revision
		if m.Stopping && !n.membership.Stopping {
			close(n.stopping)
		}
		n.membership = *m
		n.pending.Store(m.Change)
		now := &position{Generation(m.Generation), n.position.Load().rank}
		for _, member := range m.Nodes {
			if member.Node == uint64(n.id) && m.Phase != wire.PhaseForming {
				now.rank, n.member = Rank(member.Rank), member.Counts()
				if n.member {
					joblog.SetRank(n.cfg.Logger, int(now.rank))
				} else {
					now.rank = Rank(m.Workers)
				}
			}
		}
		n.position.Store(now)
		if grown {
			close(n.changed)
			n.changed = make(chan struct{})
		}
		n.closeFormerPeers()
	}
	n.mu.Unlock()
	switch m.Phase {
	case wire.PhaseFinished:
		n.end(nil)
	case wire.PhaseFailed:
		n.end(fmt.Errorf("cluster: %w: %s", ErrFailed, m.Reason))
	}
}

// closeFormerPeers closes the Clients to servers, and to workers of this host, that are no longer
// members: calls to a silent one would wait for ever. The caller holds mu.
func (n *Node) closeFormerPeers() {
	if n.ended || n.membership.Phase != wire.PhaseRunning {
		return
	}
	here := make(map[string]bool, len(n.callers))
	for i := range n.membership.Nodes {
		m := &n.membership.Nodes[i]
		if m.Role == wire.RoleServer {
			here[m.Addr] = true
		} else if addr, _ := m.HostSums(); addr != "" {
			here[addr] = true
		}
	}
	for addr, c := range n.callers {
		if !here[addr] {
			delete(n.callers, addr)
			n.wg.Go(func() { c.Client.Close() })
		}
	}
}

// A caller is the Client to a server. If the job's end breaks a call, the error says why the job
// ended.
type caller struct {
	*transport.Client
	n *Node
}

// Call implements transport.Caller.
func (c *caller) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	return c.CallNotify(ctx, nil, request, answer, dst, payload...)
}

// CallNotify implements transport.Notifier.
func (c *caller) CallNotify(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	b, err := c.Client.CallNotify(ctx, sent, request, answer, dst, payload...)
	if err != nil && errors.Is(err, transport.ErrClosed) {
		select {
		case <-c.n.done:
			return nil, fmt.Errorf("%w: %w", c.n.endError(), err)
		default:
		}
	}
	return b, err
}

// Close does nothing: the node owns its callers.
func (c *caller) Close() error { return nil }

// Server returns the Caller to the server of a rank and the server's address. The node owns the
// Caller: it is shared, and Close and the end of the job close it.
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

// Worker returns the Caller to a worker of this host that takes part in sums within it, as Server
// does.
func (n *Node) Worker(node NodeID) (transport.Caller, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		if n.err != nil {
			return nil, n.err
		}
		return nil, fmt.Errorf("cluster: %w", ErrFinished)
	}
	for i := range n.membership.Nodes {
		m := &n.membership.Nodes[i]
		addr, _ := m.HostSums()
		if m.Node != uint64(node) || addr == "" {
			continue
		}
		c := n.callers[addr]
		if c == nil {
			c = &caller{transport.NewClient(addr, n.cfg.Transport(Worker)), n}
			n.callers[addr] = c
		}
		return c, nil
	}
	return nil, fmt.Errorf("cluster: node %d takes no part in sums within a host in generation %d", node, n.membership.Generation)
}

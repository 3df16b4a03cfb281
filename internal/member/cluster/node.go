package cluster

import (
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Node is a process's membership in a job. Its methods may be called concurrently.
type Node struct {
	cfg   Config
	sched *transport.Client
	id    NodeID
	// nonce is random, of this process.
	nonce uint64
	clock *telemetry.Clock

	life    *life
	members *membership
	peers   *peers
	report  *report
	reach   *reach

	// windows has the trace that is being taken, and traced is closed when the node sends no
	// more spans.
	windows *windows
	traced  chan struct{}
	// wg has the goroutines of the node.
	wg sync.WaitGroup

	// endpoint is nil if there is none.
	endpoint      *exposition.Endpoint
	closeEndpoint sync.Once
}

// newNode returns a node that has not registered. cfg is complete.
func newNode(cfg Config, sched *transport.Client) *Node {
	l := newLife()
	return &Node{
		cfg: cfg, sched: sched, clock: cfg.Trace.Clock(), life: l, members: newMembership(), peers: newPeers(l, func(r Role) transport.Config { return cfg.Transport(r) }), report: new(report), reach: newReach(),
		windows: newWindows(), traced: make(chan struct{}),
	}
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
func (n *Node) Rank() Rank { return n.members.position.Load().rank }

// Generation is the newest generation known.
func (n *Node) Generation() Generation { return n.members.position.Load().generation }

// Membership is the newest membership known. The slices are shared and must not be changed.
func (n *Node) Membership() wire.Membership { return n.members.get() }

// Changed returns a channel that is closed when the membership changes. Get the channel first, then
// read Membership, then wait.
func (n *Node) Changed() <-chan struct{} { return n.members.next() }

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
func (n *Node) Done() <-chan struct{} { return n.life.done }

// Err is why Done is closed; nil before that, and when the job has finished.
func (n *Node) Err() error { return n.life.reason() }

// end ends the node, and all its waits, for a reason. The first reason is kept.
func (n *Node) end(err error) {
	if n.life.end(err) {
		n.peers.close()
	}
}

// Close ends the node without telling the scheduler, which will declare it lost when its lease
// expires. It returns when all of the node's goroutines and connections have ended.
func (n *Node) Close() error {
	n.end(ErrClosed)
	if err := n.Err(); err == nil || errors.Is(err, ErrFailed) {
		// The job has ended, and watch has said so; trace began with it. The scheduler
		// stays for a trace, and servers do not leave a job that has ended.
		<-n.traced
	}
	err := n.sched.Close()
	n.wg.Wait()
	n.peers.wg.Wait()
	if n.endpoint != nil {
		// A scrape that is cut off is the scraper's matter.
		n.closeEndpoint.Do(func() { _ = n.endpoint.Close() })
	}
	return err
}

// update takes a membership that the scheduler has sent.
func (n *Node) update(m *wire.Membership) {
	n.reach.answered()
	if n.members.update(m, n.id) {
		if rank, member := n.members.rank(); member {
			joblog.SetRank(n.cfg.Logger, int(rank))
		}
		n.peers.keep(m)
	}
	switch m.Phase {
	case wire.PhaseFinished:
		n.end(nil)
	case wire.PhaseFailed:
		n.end(fmt.Errorf("cluster: %w: %s", ErrFailed, m.Reason))
	}
}

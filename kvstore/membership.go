package kvstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
	"github.com/paragon-train/paragon/sampler"
)

// A membership is this worker's place among the workers of its job: whether it counts, and what all
// that count do together. It implements Elastic, Stopper, Barrier and Broadcast.
//
// A worker is joining until Ready, counts until an Arrive that is ErrRemoved, and then is removed.
// The node has the membership itself, which changes at any time; what is here changes only by calls
// of this worker.
type membership struct {
	node     member
	requests *requests
	// elastic is the node, where the membership may change; nil: it does not.
	elastic changing
	// findRounds reads from the servers at which round every key is.
	findRounds func(ctx context.Context) error

	commonNames commonNames
	joining     atomic.Bool
	removed     atomic.Bool
}

func newMembership(node member) *membership {
	m := &membership{node: node}
	if n, ok := node.(changing); ok {
		m.elastic = n
		m.joining.Store(n.Joining())
	}
	m.beginNames()
	return m
}

func (m *membership) Rank() int          { return int(m.node.Rank()) }
func (m *membership) NodeID() NodeID     { return NodeID(m.node.ID()) }
func (m *membership) Generation() uint64 { return uint64(m.node.Generation()) }
func (m *membership) NumWorkers() int    { return int(m.node.Membership().Workers) }
func (m *membership) Members() []NodeID  { return counting(m.node.Membership()) }
func (m *membership) Joining() bool      { return m.joining.Load() }

// InitialWorkers is the number of workers at the job's start. A member that does not know it is of
// a job whose workers stay.
func (m *membership) InitialWorkers() int {
	if n, ok := m.node.(initialSize); ok {
		return n.InitialWorkers()
	}
	return m.NumWorkers()
}

func (m *membership) Division() Division {
	d := m.node.Membership().Division
	division := Division{Change: d.Change, Epoch: d.Epoch, Step: d.Step, Steps: d.Steps, Stop: d.Stop, Order: d.Order}
	for _, c := range d.Cuts {
		cut := sampler.Cut{Parts: int(c.Parts), Used: make([]int, len(c.Used))}
		for part, n := range c.Used {
			cut.Used[part] = int(min(n, mostUsed))
		}
		division.Cuts = append(division.Cuts, cut)
	}
	return division
}

// mostUsed stands for all of a share.
const mostUsed = math.MaxInt

func (m *membership) Progress(steps, epoch uint64) {
	if n, ok := m.node.(progressing); ok {
		n.Progress(steps, epoch)
	}
}

func (m *membership) ReportAdaptation(text string) error {
	if len(text) > MaxAdaptation || !utf8.ValidString(text) {
		return fmt.Errorf("kvstore: report adaptation: got a text of %d bytes, want at most %d of UTF-8", len(text), MaxAdaptation)
	}
	if n, ok := m.node.(adapting); ok {
		n.ReportAdaptation(text)
	}
	return nil
}

func (m *membership) WorkerRange() (least, most int) {
	if n, ok := m.node.(adapting); ok {
		return n.WorkerRange()
	}
	return 0, 0
}

// counting returns the workers that count, in rank order.
func counting(m wire.Membership) []NodeID {
	var list []NodeID
	// Nodes are sorted by role, then rank.
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Role == wire.RoleWorker && n.Counts() {
			list = append(list, NodeID(n.Node))
		}
	}
	return list
}

func (m *membership) Pending() uint64 {
	if m.elastic == nil {
		return 0
	}
	return m.elastic.Pending()
}

func (m *membership) AwaitPending(ctx context.Context) (uint64, error) {
	err := m.awaitNews(ctx, "await a change", func(m *wire.Membership) bool { return m.Change != 0 })
	return m.Pending(), err
}

func (m *membership) AwaitMembers(ctx context.Context, most int) error {
	return m.awaitNews(ctx, "await news of lost workers", func(m *wire.Membership) bool { return len(counting(*m)) <= most })
}

// awaitNews waits until the membership is as wanted.
func (m *membership) awaitNews(ctx context.Context, verb string, wanted func(*wire.Membership) bool) error {
	if m.elastic == nil {
		return fmt.Errorf("kvstore: %s: %w: this job has one worker and its membership does not change", verb, ErrUnsupported)
	}
	return m.requests.ask(ctx, verb, func(ctx context.Context) error {
		for {
			news := m.elastic.Changed()
			if now := m.node.Membership(); wanted(&now) {
				return nil
			}
			select {
			case <-news:
			case <-m.node.Done():
				return m.requests.jobEndError()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// Ready makes this worker count. The order matters: names count from the change before joining ends,
// so that no call that only members may make gets a name from before it.
func (m *membership) Ready(ctx context.Context) error {
	if m.elastic == nil || !m.joining.Load() {
		return nil
	}
	if err := m.requests.ask(ctx, "ready", m.elastic.Ready); err != nil {
		// Being removed is final, whatever another attempt returns.
		if errors.Is(err, ErrRemoved) {
			m.removed.Store(true)
		}
		if m.finished() {
			return fmt.Errorf("%w: %w", ErrFinished, err)
		}
		return err
	}
	m.beginNames()
	m.joining.Store(false)
	// Rounds have closed since the keys were initialised. No more can close now without this
	// worker.
	return m.findRounds(ctx)
}

// Arrive takes part in a change of the membership. None of the program's calls may be under way, since
// a boundary lies between two steps. Calls of the store's own, such as copies for backups, may: they
// go on in the new generation.
func (m *membership) Arrive(ctx context.Context, a Arrival) error {
	verb := fmt.Sprintf("arrive at change %d", a.Change)
	switch {
	case m.elastic == nil:
		return fmt.Errorf("kvstore: %s: %w: this job has one worker and its membership does not change", verb, ErrUnsupported)
	case m.joining.Load():
		return m.notYet(verb)
	}
	if under := m.requests.flight.programCalls(); under > 0 {
		return fmt.Errorf("kvstore: %s: %d other calls of this worker are under way, want none at a boundary", verb, under)
	}
	told := a.message()
	err := m.requests.ask(ctx, verb, func(ctx context.Context) error { return m.elastic.Arrive(ctx, told) })
	m.removed.Store(errors.Is(err, ErrRemoved))
	switch {
	case err == nil:
		m.beginNames()
	case m.finished() && !errors.Is(err, ErrRemoved):
		// The job finishes when all workers that count are done: so this one no longer
		// counts. The answer that says so was late.
		return fmt.Errorf("%w: %w", ErrRemoved, err)
	}
	return err
}

// message is the arrival as the scheduler is told it.
func (a *Arrival) message() wire.Arrive {
	told := wire.Arrive{Change: a.Change, Steps: a.Steps, Epoch: a.Epoch, Step: a.Step, Used: a.Used, Stop: a.Stop, Earlier: a.Earlier, Resumed: a.Resumed, Order: a.Order}
	for _, c := range a.Cuts {
		cut := wire.Cut{Parts: uint32(c.Parts)}
		for _, n := range c.Used {
			cut.Used = append(cut.Used, uint64(n))
		}
		told.Cuts = append(told.Cuts, cut)
	}
	return told
}

// AskLeave asks to leave. It has no bound but its context and Close: a worker that is told to end
// has nothing better to do than to wait for a scheduler that is away.
func (m *membership) AskLeave(ctx context.Context, reason string) error {
	if m.elastic == nil {
		return fmt.Errorf("kvstore: ask to leave: %w: this job has one worker and its membership does not change", ErrNeeded)
	}
	// It is no call of the program's, since it may be under way during Arrive.
	if !m.requests.flight.enter(true) {
		return fmt.Errorf("kvstore: ask to leave: %w", ErrClosed)
	}
	defer m.requests.flight.leave(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		select {
		case <-m.requests.flight.closing:
			cancel()
		case <-answered:
		}
	}()
	if err := m.elastic.AskLeave(ctx, reason); err != nil {
		return fmt.Errorf("kvstore: ask to leave: %w", err)
	}
	return nil
}

// finished reports whether the job has finished without an error.
func (m *membership) finished() bool { return attempt.IsClosed(m.node.Done()) && m.node.Err() == nil }

// beginNames begins to count anew what all workers count.
func (m *membership) beginNames() { m.commonNames.begin(m.node.Membership().Division.Change) }

// notYet is the error of a call that only members may make.
func (m *membership) notYet(verb string) error {
	return fmt.Errorf("kvstore: %s: %w: this worker is joining and does not count yet; call Ready first (worker.Fit does)", verb, ErrUnsupported)
}

// leader returns the worker of the lowest rank, which does what one worker does for all. A node
// that knows of no members is alone, and leads.
func (m *membership) leader() NodeID {
	if list := m.Members(); len(list) > 0 {
		return list[0]
	}
	return m.NodeID()
}

// unlessChanged runs f until it returns, or until over says that the membership is no longer the
// one that f was meant for: then f's context ends and changed is true, unless f succeeds all the
// same. It returns when f has.
func (m *membership) unlessChanged(ctx context.Context, over func(m wire.Membership) bool, f func(context.Context) error) (changed bool, err error) {
	if m.elastic == nil {
		return false, f(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	for {
		news := m.elastic.Changed()
		if over(m.node.Membership()) {
			cancel()
			err := <-result
			return err != nil, err
		}
		select {
		case err := <-result:
			return false, err
		case <-news:
		}
	}
}

// Barrier returns when every worker has called it.
func (m *membership) Barrier(ctx context.Context) error {
	if m.joining.Load() {
		return m.notYet("barrier")
	}
	name := m.commonNames.next(barrierName)
	return m.requests.ask(ctx, "barrier", func(ctx context.Context) error { return m.node.Barrier(ctx, name) })
}

func (m *membership) StopRequested() <-chan struct{} {
	if n, ok := m.node.(stopping); ok {
		return n.StopRequested()
	}
	return nil
}

func (m *membership) ReportStopped(ctx context.Context, steps uint64, reason string) error {
	n, ok := m.node.(stopping)
	if !ok {
		return nil
	}
	return m.requests.ask(ctx, "report stopped", func(ctx context.Context) error { return n.Stopped(ctx, steps, reason) })
}

// leaveTimeout bounds the leave request of a worker that failed. It equals the default lease: later
// the scheduler declares the worker lost anyway.
const leaveTimeout = 10 * time.Second

package kvstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/sampler"
)

// ErrRemoved: this worker has left the job, as the job asked it to or as it asked itself. All its
// steps count. Close the store and exit with code 0.
var ErrRemoved = cluster.ErrRemoved

// ErrNeeded: this worker cannot leave alone, because the job cannot go on without it.
var ErrNeeded = cluster.ErrNeeded

// ErrLost: the job has declared this worker lost, because it was silent for longer than its lease.
var ErrLost = cluster.ErrLost

// ErrFinished: all workers that counted had finished before this one took part.
var ErrFinished = cluster.ErrFinished

// A NodeID identifies a process for the life of the job. Ranks change with the membership; a
// process that is started again has a new NodeID.
type NodeID uint64

// A Division says which worker has which examples of an epoch: what remains after the cuts (see
// sampler.Divide) is shared by the workers, part i for rank i. An epoch after Epoch has no cuts.
type Division struct {
	Change uint64 // the number of the change that made the division; 0: none did
	Epoch  uint64 // to which the cuts belong
	Step   uint64 // of that epoch, the next one when the division was made
	Steps  uint64 // done in all when the division was made
	Stop   bool   // the workers had agreed to stop there
	Cuts   []sampler.Cut
	Order  string // its name (sampler.Order.String), as the workers said it when the division was made; empty: they said none
}

// An Arrival is what a worker says at a boundary. All workers say the same, but for Used.
type Arrival struct {
	Change uint64 // the pending change; 0: others have said that there is one, and it is waited for
	Steps  uint64 // done in all
	Epoch  uint64 // in which the next step is
	Step   uint64 // of that epoch, the next one
	Used   uint64 // examples of its share of this division that its steps of the epoch used
	Stop   bool   // the workers have agreed to stop here, which those who join must know
	// Earlier has for each worker of the division, by rank, the examples that it used since the
	// division was made in epochs before Epoch; empty: none. The servers count what a worker
	// uses (Weighted) from the time it joined; of one that is lost the rest is what it used of
	// its share.
	Earlier []uint64
	// Resumed and Cuts are of a run that goes on from a checkpoint in the middle of Epoch, up
	// to the first change: the cuts that the epoch had there, and for each worker, by rank, how
	// many examples of its share the run had used there, which Used includes.
	Resumed []uint64
	Cuts    []sampler.Cut
	// Order is the name of the order in which epochs are read, for those who join; empty: the
	// workers share no examples.
	Order string
}

// Elastic are the calls about a job whose workers may change while it runs. An ElasticSampler makes
// them for a training loop, and worker.Fit for a worker.Feed; by themselves they serve loops that
// have no examples to share:
//
//   - A worker that joins a running job initialises keys and sets the same optimizer as the others,
//     and calls Ready. It counts when Ready returns: from the open round of every key on.
//   - In each step every worker pushes a flag beside its gradients, 1 where Pending is not 0, to a
//     key of InitAverage. All see the same value. Where it is above 0 each calls AwaitPending, for
//     the others may have heard of the change first, and Arrive; then Rank and NumWorkers are new.
//   - A worker that is told to end while the others go on calls AskLeave, and goes on until its
//     Arrive is ErrRemoved.
//   - A lost worker needs nothing of this: rounds close without it, and the job has one worker less
//     from the next Arrive on.
//
// Calls that are under way when the membership changes continue in the new generation; they are
// sent again if necessary and count once. If this worker was declared lost, because it was silent
// for longer than its lease, all calls return ErrUnavailable with ErrLost in the chain.
type Elastic interface {
	// Joining reports whether this worker does not count yet: it may initialise keys, pull, set
	// the optimizer and compression, and read, but a push, a barrier or a load is
	// ErrUnsupported.
	Joining() bool
	// Ready reports that this worker can take part, and returns when it counts, from the open
	// round of every key on. ErrRemoved is in the error's chain if it was asked to leave,
	// ErrFinished if the job finished before.
	Ready(ctx context.Context) error
	// Pending is the number of the pending change, 0 if there is none. It costs no more than
	// reading a variable.
	Pending() uint64
	// AwaitPending waits until this worker knows of a pending change, and returns its number.
	AwaitPending(ctx context.Context) (uint64, error)
	// AwaitMembers waits until this worker knows that at most so many workers count.
	AwaitMembers(ctx context.Context, most int) error
	// Arrive reports that this worker has reached the step of the change, and returns when all
	// have and the change is made: Rank, NumWorkers and Generation are then new. No other call
	// of this store may be under way. ErrRemoved is in the error's chain if this worker was
	// asked to leave.
	Arrive(ctx context.Context, a Arrival) error
	// AskLeave asks to leave while the others go on; the reason is for people. A worker program
	// calls it, from any goroutine, when it is told to end (SIGTERM). On nil the worker may
	// leave: it goes on until the next Arrive, which returns ErrRemoved, as Ready does on a
	// joining worker. ErrNeeded is in the error's chain if the job cannot go on without it: it
	// was not started with --elastic-training-enabled, fewer than --min-workers would be left,
	// or all of it is being stopped. While the scheduler is unreachable the request is
	// repeated, until ctx ends or the store is closed.
	AskLeave(ctx context.Context, reason string) error
	// Division is the division of the epoch that the last change made.
	Division() Division
	// Members are the workers that count, in rank order.
	Members() []NodeID
	NodeID() NodeID
	// Progress sets the number of steps and the epoch that the next heartbeats report, for
	// `launch ctl status`.
	Progress(steps, epoch uint64)
	// ReportAdaptation sets what the next heartbeats of rank 0 say of how the job adapts its
	// batch size, for `launch ctl status` and for whoever divides a cluster among jobs: JSON of
	// at most MaxAdaptation bytes of UTF-8, as worker.Fit makes it. A newer text replaces it;
	// an empty one ends the reports.
	ReportAdaptation(text string) error
	// WorkerRange is the range of the numbers of workers that rank 0 may wish for in
	// ReportAdaptation: --min-workers to --max-workers of a job that was started with
	// --adapt-workers, within the slots of its hosts. most is 0 in other jobs, where nothing
	// carries a wish out.
	WorkerRange() (least, most int)
}

// MaxAdaptation bounds the text of ReportAdaptation, in bytes.
const MaxAdaptation = wire.MaxAdaptation

// changing has the methods of a member, beyond those of member, in a job whose membership may
// change.
type changing interface {
	Joining() bool
	Ready(ctx context.Context) error
	Pending() uint64
	Arrive(ctx context.Context, a wire.Arrive) error
	AskLeave(ctx context.Context, reason string) error
	Changed() <-chan struct{}
}

var _ changing = (*cluster.Node)(nil)

func (s *store) Joining() bool     { return s.joining.Load() }
func (s *store) NodeID() NodeID    { return NodeID(s.node.ID()) }
func (s *store) Members() []NodeID { return counting(s.node.Membership()) }

func (s *store) Division() Division {
	d := s.node.Membership().Division
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

func (s *store) Progress(steps, epoch uint64) {
	if n, ok := s.node.(interface{ Progress(step, epoch uint64) }); ok {
		n.Progress(steps, epoch)
	}
}

func (s *store) ReportAdaptation(text string) error {
	if len(text) > MaxAdaptation || !utf8.ValidString(text) {
		return fmt.Errorf("kvstore: report adaptation: got a text of %d bytes, want at most %d of UTF-8", len(text), MaxAdaptation)
	}
	if n, ok := s.node.(interface{ ReportAdaptation(text string) }); ok {
		n.ReportAdaptation(text)
	}
	return nil
}

func (s *store) WorkerRange() (least, most int) {
	if n, ok := s.node.(interface{ WorkerRange() (least, most int) }); ok {
		return n.WorkerRange()
	}
	return 0, 0
}

// counting returns the workers that count, in rank order.
func counting(m wire.Membership) []NodeID {
	var list []NodeID
	for i := range m.Nodes { // sorted by role, then rank
		if n := &m.Nodes[i]; n.Role == wire.RoleWorker && n.Counts() {
			list = append(list, NodeID(n.Node))
		}
	}
	return list
}

func (s *store) Pending() uint64 {
	if n, ok := s.node.(changing); ok {
		return n.Pending()
	}
	return 0
}

func (s *store) AwaitPending(ctx context.Context) (uint64, error) {
	err := s.awaitMembership(ctx, "await a change", func(m *wire.Membership) bool { return m.Change != 0 })
	return s.Pending(), err
}

func (s *store) AwaitMembers(ctx context.Context, most int) error {
	return s.awaitMembership(ctx, "await news of lost workers", func(m *wire.Membership) bool { return len(counting(*m)) <= most })
}

// awaitMembership waits until the membership is as wanted.
func (s *store) awaitMembership(ctx context.Context, verb string, wanted func(*wire.Membership) bool) error {
	n, ok := s.node.(changing)
	if !ok {
		return fmt.Errorf("kvstore: %s: %w: this job has one worker and its membership does not change", verb, ErrUnsupported)
	}
	return s.requests.ask(ctx, verb, func(ctx context.Context) error {
		for {
			news := n.Changed()
			if m := s.node.Membership(); wanted(&m) {
				return nil
			}
			select {
			case <-news:
			case <-s.node.Done():
				return s.requests.jobEndError()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

func (s *store) Ready(ctx context.Context) error {
	n, ok := s.node.(changing)
	if !ok || !s.joining.Load() {
		return nil
	}
	if err := s.requests.ask(ctx, "ready", n.Ready); err != nil {
		if errors.Is(err, ErrRemoved) { // final, whatever another attempt returns
			s.removed.Store(true)
		}
		if s.finished() {
			return fmt.Errorf("%w: %w", ErrFinished, err)
		}
		return err
	}
	s.beginEra()
	s.joining.Store(false)
	// Rounds have closed since the keys were initialised. No more can close now without this
	// worker.
	return s.findRounds(ctx)
}

func (s *store) Arrive(ctx context.Context, a Arrival) error {
	verb := fmt.Sprintf("arrive at change %d", a.Change)
	n, ok := s.node.(changing)
	switch {
	case !ok:
		return fmt.Errorf("kvstore: %s: %w: this job has one worker and its membership does not change", verb, ErrUnsupported)
	case s.joining.Load():
		return s.notYet(verb)
	}
	if under := s.requests.flight.programCalls(); under > 0 {
		return fmt.Errorf("kvstore: %s: %d other calls of this worker are under way, want none at a boundary", verb, under)
	}
	told := wire.Arrive{Change: a.Change, Steps: a.Steps, Epoch: a.Epoch, Step: a.Step, Used: a.Used, Stop: a.Stop, Earlier: a.Earlier, Resumed: a.Resumed, Order: a.Order}
	for _, c := range a.Cuts {
		cut := wire.Cut{Parts: uint32(c.Parts)}
		for _, n := range c.Used {
			cut.Used = append(cut.Used, uint64(n))
		}
		told.Cuts = append(told.Cuts, cut)
	}
	err := s.requests.ask(ctx, verb, func(ctx context.Context) error { return n.Arrive(ctx, told) })
	s.removed.Store(errors.Is(err, ErrRemoved))
	switch {
	case err == nil:
		s.beginEra()
	case s.finished() && !errors.Is(err, ErrRemoved):
		// The job finishes when all workers that count are done: so this one no longer
		// counts. The answer that says so was late.
		return fmt.Errorf("%w: %w", ErrRemoved, err)
	}
	return err
}

func (s *store) AskLeave(ctx context.Context, reason string) error {
	n, ok := s.node.(changing)
	if !ok {
		return fmt.Errorf("kvstore: ask to leave: %w: this job has one worker and its membership does not change", ErrNeeded)
	}
	// It may be under way during Arrive.
	if !s.requests.flight.enter(true) {
		return fmt.Errorf("kvstore: ask to leave: %w", ErrClosed)
	}
	defer s.requests.flight.leave(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		select {
		case <-s.requests.flight.closing:
			cancel()
		case <-answered:
		}
	}()
	if err := n.AskLeave(ctx, reason); err != nil {
		return fmt.Errorf("kvstore: ask to leave: %w", err)
	}
	return nil
}

// finished reports whether the job has finished without an error.
func (s *store) finished() bool {
	select {
	case <-s.node.Done():
		return s.node.Err() == nil
	default:
		return false
	}
}

// beginEra resets the counters that all workers must agree on, since a worker that has joined does
// not know their values. An era has the number of the change that began it, not a generation: that
// may go up again, when a worker is lost, before all workers have seen it.
func (s *store) beginEra() {
	change := s.node.Membership().Division.Change
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era, s.barriers, s.loads, s.broadcasts = change, 0, 0, 0
}

// notYet is the error of a call that only members may make.
func (s *store) notYet(verb string) error {
	return fmt.Errorf("kvstore: %s: %w: this worker is joining and does not count yet; call Ready first (worker.Fit does)", verb, ErrUnsupported)
}

// findRounds reads from the servers at which round every key is.
func (s *store) findRounds(ctx context.Context) error {
	var finding sync.WaitGroup
	keys := s.sorted()
	errs := make([]error, len(keys))
	places := make(chan struct{}, shardsAtOnce)
	for i, k := range keys {
		places <- struct{}{}
		finding.Go(func() {
			errs[i] = k.findRound(ctx)
			<-places
		})
	}
	finding.Wait()
	return errors.Join(errs...)
}

// leader returns the worker of the lowest rank, which does what one worker does for all.
func (s *store) leader() NodeID {
	if list := s.Members(); len(list) > 0 {
		return list[0]
	}
	return s.NodeID() // a node that knows of no members is alone
}

// whileFollowing runs f until it returns, or until over says that the membership is no longer the
// one that f was meant for: then f's context ends and changed is true.
func (s *store) whileFollowing(ctx context.Context, over func(m wire.Membership) bool, f func(context.Context) error) (changed bool, err error) {
	n, ok := s.node.(changing)
	if !ok {
		return false, f(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	for {
		news := n.Changed()
		if over(s.node.Membership()) {
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

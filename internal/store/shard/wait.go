package shard

import (
	"context"
	"math"
)

// A Want says which value a pull asks for.
type Want struct {
	Node uint64
	// Round is, in sync mode, how many rounds must have closed at least.
	Round uint64
	// Seq is, in async mode, how many contributions of Node the value contains, beside at least
	// Seq − Staleness of every other member: the guarantee of Ho et al. 2013 (SSP, section 3)
	// for the worker at clock Seq. NoBound as Staleness demands nothing of the others.
	Seq       uint64
	Staleness uint64
}

// NoBound is the Staleness without a bound.
const NoBound = math.MaxUint64

// Turn returns the Want to wait for before a contribution that is Ahead is pushed again.
func Turn(c Contribution) Want {
	return Want{Node: c.Node, Round: max(c.Round, 1) - 1, Seq: c.Seq - 1, Staleness: NoBound}
}

// A Wait is a Want in the shard's queue. It ends with one call of Result, after Done, or of Cancel,
// and must not be used after that: the next Pull may use its memory.
type Wait struct {
	// of is the queue. Nil: the Wait lies in a free list.
	of   *readers
	want Want
	// done holds one token once the wait is over.
	done    chan struct{}
	over    bool
	version *Version
	err     error
}

// Done returns a channel from which one receive succeeds when the wait is over.
func (w *Wait) Done() <-chan struct{} { return w.done }

// Result returns the value, or the error that ended the shard. It is called once, after Done.
func (w *Wait) Result() (*Version, error) {
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.over {
		panic("shard: Wait.Result before Done")
	}
	v, err := w.version, w.err
	r.forget(w)
	return v, err
}

// Await waits until the wait is over, or until ctx ends. It is called in place of Result and
// Cancel.
func (w *Wait) Await(ctx context.Context) (*Version, error) {
	select {
	case <-w.Done():
		return w.Result()
	case <-ctx.Done():
		w.Cancel()
		return nil, context.Cause(ctx)
	}
}

// Cancel ends the wait without a result.
func (w *Wait) Cancel() {
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel(w)
	r.forget(w)
}

// A Laggard is a member that a wait is waiting for.
type Laggard struct {
	Node uint64
	Rank uint32
	// Done is, in sync mode, the number of rounds, closed or open, that it has contributed to;
	// in async mode the number of its contributions.
	Done uint64
}

// Pull returns the value if it is available, else a Wait for it. For a shard of rows the Version is
// nil: PullRows reads the rows.
func (s *Shard) Pull(want Want) (*Version, *Wait, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	if p := s.progress(); p.has(&want) {
		return s.readers.acquire(), nil, nil
	}
	return nil, s.readers.wait(want), nil
}

// TryPull returns the value if it is available.
func (s *Shard) TryPull(want Want) (v *Version, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.progress(); s.err != nil || !p.has(&want) {
		return nil, false, s.err
	}
	return s.readers.acquire(), true, nil
}

// HandTo records that a worker gets the value v of this shard, and returns its staleness. missed is
// the number of rounds of others between the worker's previous pull and its newest contribution,
// whose gradient was computed without them. lead is how many contributions more than the slowest
// member the worker has made; the Staleness of its Want bounds it. Both are 0 in sync mode.
func (s *Shard) HandTo(v *Version, node uint64) (missed, lead uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members.of(node)
	if !s.mode.async() || m == nil {
		return 0, 0
	}
	return m.asynchronous().staleness.pull(v.round, m.lastSeq), m.progress() - s.members.slowest()
}

// Laggards returns the members that want waits for, in rank order; none if the value is available.
func (s *Shard) Laggards(want Want) []Laggard {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress()
	return p.laggards(&want, &s.rounds.open)
}

// progress is how far the shard has come.
func (s *Shard) progress() progress {
	return progress{members: &s.members, rounds: s.rounds.number, async: s.mode.async(), hidden: s.replica.hides(s.mode)}
}

// wake ends the waits that the shard's progress satisfies.
func (s *Shard) wake() {
	if len(s.readers.waits) > 0 {
		p := s.progress()
		s.readers.wake(s.err, &p)
	}
}

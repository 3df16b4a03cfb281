package shard

import (
	"context"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Want says which value a pull asks for.
type Want struct {
	Node  uint64
	Round uint64 // sync mode: at least this many rounds have closed
	// Async mode: the value contains this many contributions of Node, and at least Seq −
	// Staleness of every other member: the guarantee of Ho et al. 2013 (SSP, section 3) for the
	// worker at clock Seq. NoBound as Staleness demands nothing of the others.
	Seq       uint64
	Staleness uint64
}

// NoBound is the Staleness without a bound.
const NoBound = math.MaxUint64

// A Wait is a Want in the shard's queue. It ends with one call of Result, after Done, or of Cancel,
// and must not be used after that.
type Wait struct {
	shard   *Shard
	want    Want
	done    chan struct{} // holds one token once the wait is over
	over    bool
	version *Version
	err     error
}

// Pull returns the value if it is available, else a Wait for it. For a shard of rows the Version is
// nil: PullRows reads the rows.
func (s *Shard) Pull(want Want) (*Version, *Wait, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	if s.has(&want) {
		return s.acquire(), nil, nil
	}
	w := s.cfg.Pool.spare.wait()
	w.shard, w.want = s, want
	s.waits = append(s.waits, w)
	return nil, w, nil
}

// TryPull returns the value if it is available.
func (s *Shard) TryPull(want Want) (v *Version, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.has(&want) {
		return nil, false, s.err
	}
	return s.acquire(), true, nil
}

// Await is Pull, and waits until ctx ends.
func (s *Shard) Await(ctx context.Context, want Want) (*Version, error) {
	v, w, err := s.Pull(want)
	if w == nil {
		return v, err
	}
	select {
	case <-w.Done():
		return w.Result()
	case <-ctx.Done():
		w.Cancel()
		return nil, context.Cause(ctx)
	}
}

// Turn returns the Want to wait for before a contribution that is Ahead is pushed again.
func Turn(c Contribution) Want {
	return Want{Node: c.Node, Round: max(c.Round, 1) - 1, Seq: c.Seq - 1, Staleness: NoBound}
}

// Done returns a channel from which one receive succeeds when the wait is over.
func (w *Wait) Done() <-chan struct{} { return w.done }

// Result returns the value, or the error that ended the shard. It is called once, after Done.
func (w *Wait) Result() (*Version, error) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.over {
		panic("shard: Wait.Result before Done")
	}
	v, err := w.version, w.err
	s.forget(w)
	return v, err
}

// Cancel ends the wait without a result.
func (w *Wait) Cancel() {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over {
		select { // take the token that no one will receive
		case <-w.done:
		default:
		}
		if w.version != nil {
			s.release(w.version)
		}
	} else {
		for i, x := range s.waits {
			if x == w {
				s.waits = append(s.waits[:i], s.waits[i+1:]...)
				break
			}
		}
	}
	s.forget(w)
}

func (s *Shard) forget(w *Wait) {
	w.over, w.version, w.err = false, nil, nil
	s.cfg.Pool.spare.keepWait(w)
}

// has reports whether the value satisfies want.
func (s *Shard) has(want *Want) bool {
	if s.awaitsBackup() {
		return false
	}
	if !s.async() {
		return s.rounds >= want.Round
	}
	if m := s.memberOf(want.Node); m != nil && m.counted < want.Seq {
		return false
	}
	if want.Staleness == NoBound {
		return true
	}
	for _, m := range s.ranked {
		if s.late(m, want) {
			return false
		}
	}
	return true
}

// late reports whether want waits for m, which is not the worker that asks.
func (s *Shard) late(m *member, want *Want) bool {
	made := want.Seq
	if asks := s.memberOf(want.Node); asks != nil {
		made += asks.base()
	}
	return m.Node != want.Node && want.Staleness != NoBound && m.progress() < made && made-m.progress() > want.Staleness
}

// wake ends the waits whose value is available, or all if the shard has ended.
func (s *Shard) wake() {
	keep := s.waits[:0]
	for _, w := range s.waits {
		if s.err == nil && !s.has(&w.want) {
			keep = append(keep, w)
			continue
		}
		s.end(w, s.err)
	}
	clear(s.waits[len(keep):])
	s.waits = keep
}

// end ends a wait, with the value if err is nil. The caller takes it off the queue.
func (s *Shard) end(w *Wait, err error) {
	w.over, w.err = true, err
	if err == nil {
		w.version = s.acquire()
	}
	w.done <- struct{}{}
}

// expel ends the waits of nodes that were members and are no longer.
func (s *Shard) expel(gone []uint64) {
	s.waits = slices.DeleteFunc(s.waits, func(w *Wait) bool {
		if !slices.Contains(gone, w.want.Node) {
			return false
		}
		s.end(w, s.refuse(wire.CodeUnknownNode, "wait: node %d is no longer a worker in generation %d", w.want.Node, s.generation))
		return true
	})
}

// A Laggard is a member that a wait is waiting for.
type Laggard struct {
	Node uint64
	Rank uint32
	// Done is, in sync mode, the number of rounds, closed or open, that it has contributed to;
	// in async mode the number of its contributions.
	Done uint64
}

// Laggards returns the members that want waits for, in rank order; none if the value is available.
func (s *Shard) Laggards(want Want) []Laggard {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Laggard
	if s.has(&want) {
		return nil
	}
	for _, m := range s.ranked {
		switch {
		case s.async():
			if m.Node == want.Node && m.counted < want.Seq || s.late(m, &want) {
				list = append(list, Laggard{Node: m.Node, Rank: m.Rank, Done: m.counted})
			}
		default:
			if slot := s.open.find(m); slot != nil && slot.seq == 0 {
				list = append(list, Laggard{Node: m.Node, Rank: m.Rank, Done: s.rounds})
			}
		}
	}
	return list
}

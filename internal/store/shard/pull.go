package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Pull returns the value if it is available, else a Wait for it. For a shard of rows, and for a Want
// of Clip, the Version is nil: PullRows reads the rows, ReadHeld what is held.
func (s *Shard) Pull(want Want) (*Version, *Wait, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	switch p := s.progress(); {
	case !p.has(&want):
	case want.Clip:
		return nil, nil, nil
	default:
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

// PullRows copies row rows[i] of a shard of rows into row i of out, all of one round, and returns
// the number of rounds they contain and the generation under which the newest closed. Wait for a
// round with Pull first; ErrAgain is for shards with a backup.
func (s *Shard) PullRows(rows []int64, out []float32) (round, generation uint64, err error) {
	rowLen := int(s.cfg.RowLen)
	if rowLen == 0 {
		return 0, 0, s.cfg.refuse(wire.CodeUnsupported, "pull rows: the key is dense")
	}
	if len(out) != len(rows)*rowLen {
		return 0, 0, s.cfg.refuse(wire.CodeSize, "pull rows: got room for %d values, want %d rows of %d", len(out), len(rows), rowLen)
	}
	numRows := s.cfg.numRows()
	for i, row := range rows {
		if s.cfg.Form == wire.FormRows && (row < 0 || row >= int64(numRows)) {
			return 0, 0, s.cfg.refuse(wire.CodeSize, "pull rows: rows[%d]: got row %d, want 0 to %d", i, row, numRows-1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, 0, s.err
	}
	if s.replica.hides(s.mode) {
		return 0, 0, ErrAgain
	}
	if o := s.table.vocabulary; o != nil {
		o.pull(rows, out)
	} else {
		f32.GatherRows(out, s.readers.current.Float32s(), rows, rowLen)
	}
	return s.readers.current.round, s.readers.current.generation, nil
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

// CaughtOf returns how many of a member's contributions the guard has refused or clipped.
func (s *Shard) CaughtOf(node uint64) uint64 {
	if !s.guarded.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members.of(node); m != nil {
		return m.caught
	}
	return 0
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
	return progress{members: &s.members, rounds: s.rounds.number, async: s.mode.async(), hidden: s.replica.hides(s.mode), held: s.held()}
}

// wake ends the waits that the shard's progress satisfies.
func (s *Shard) wake() {
	if len(s.readers.waits) > 0 {
		p := s.progress()
		s.readers.wake(s.err, &p)
	}
}

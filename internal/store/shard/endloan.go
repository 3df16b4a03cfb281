package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// TakesLoans reports whether contributions may be lent. It does not mean that one will not be
// copied.
func (s *Shard) TakesLoans() bool {
	return s.cfg.Form == wire.FormDense && s.cfg.Length > 0 && !s.guarded.Load()
}

// Settle ends all use of a loan. It must be called before the owner's call is answered, and when the
// call ends without an answer. A contribution that has not been added is copied, and so counts, also
// if its worker was killed; one that was taken back has not come.
func (s *Shard) Settle(l Loan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, x := s.rounds.lent(l)
	if x == nil {
		return
	}
	x.loan = nil
	if !x.payload.lent {
		// It has been added.
		return
	}
	x.payload.lent = false
	if l.Claim() {
		n := s.cfg.values()
		x.payload.data = s.cfg.Pool.Get(4 * n)
		copy(x.payload.data.Float32s(n), l.Values())
		l.Release()
		s.stopwatch.hold(x)
	} else {
		r.vacate(x, &s.members, &s.counts)
	}
	// A copy that is next in order is added now. If the worker has left, its round does not
	// wait for what it has taken back.
	s.closeRounds()
}

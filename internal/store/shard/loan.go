package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A Loan is a contribution's data where they lie in the memory of its worker, of a dense shard in
// wire.CodecFloat32. The worker waits for the round, and lends the memory meanwhile; when it stops
// waiting it takes the memory back, unless that is claimed. A contribution that was taken back
// before it was added has not come.
//
// So a contribution is added without a copy, and the round's value is written where the worker
// wants it while it is made. See transport.Loan.
type Loan interface {
	// Claim keeps the owner from taking the memory back until Release; it returns false if the
	// owner has done so.
	Claim() bool
	Release()
	// Over reports whether the owner has taken the memory back.
	Over() bool
	Values() []float32
	// Out is where the value that the contribution is part of belongs; nil if it is to be sent.
	Out() []float32
	// Place says that Out holds the value of this many rounds.
	Place(rounds uint64)
}

// TakesLoans reports whether contributions may be lent. It does not mean that one will not be
// copied.
func (s *Shard) TakesLoans() bool {
	return s.cfg.Form == wire.FormDense && s.cfg.Length > 0 && !s.guarded.Load()
}

// Settle ends all use of a loan. It must be called before the owner's call is answered. A
// contribution that has not been added is copied; one that was taken back has not come.
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

package shard

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/exact"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// With optim.Config.ClipGlobalNorm the gradients of all keys of a step are multiplied by one factor,
// which depends on all of them. A round then closes in two phases. When it is whole and added up it
// is held: the sum does not change any more, the value stays, and pulls wait. The workers read the
// squares of all keys' sums, find the factor, and each brings it to all shards. The first one lets
// the round close; the others find it decided. So no server asks another one, and the loss of a
// worker holds nothing up: any other one brings the same factor.
//
// A held round is closed as far as members are concerned: who joins counts from the next one on, and
// what a worker that leaves has contributed stays.

// A Decision is what became of a round whose gradients are clipped by their norm over all keys.
type Decision struct {
	// Norm is that over all keys; NaN: not a finite number.
	Norm float64
	// Factor is above 0 and at most 1. Zero: the round changes neither value nor state.
	Factor float64
	// Rank is that of the worker who brought it first.
	Rank uint32
}

// clipping is what a shard knows of the decisions about its rounds. The zero value knows none.
type clipping struct {
	// open is of the open round, once decided; last of the one before it, if known.
	open, last     Decision
	decided, known bool
	// squares are those of the held round's sum, if taken.
	squares exact.Sum
	taken   bool
}

// clips reports whether rounds are held.
func (s *Shard) clips() bool {
	return s.updater.opt != nil && s.updater.opt.ClipsGlobalNorm() && s.cfg.Rule == wire.RuleOptimizer
}

// Clips reports whether rounds close only with a Decision.
func (s *Shard) Clips() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clips()
}

// held reports whether the open round's sum is whole, in a shard that holds rounds.
func (s *Shard) held() bool {
	r := &s.rounds.open
	return s.err == nil && s.clips() && r.full() && r.aggregated == len(r.slots)
}

// undecided reports whether the open round waits for a Decision, or will once it is whole.
func (s *Shard) undecided() bool { return s.clips() && !s.rounds.clip().has() }

// Undecided reports whether what want waits for is a Decision alone.
func (s *Shard) Undecided(want Want) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds.number < want.Round && s.held() && s.undecided()
}

// A ClipState is what a shard says of a round that is held or has closed.
type ClipState struct {
	// Decided says that Decision is known. A round that has closed long ago, or under another
	// server, may be decided and not known: Closed is true then.
	Decided, Closed bool
	Decision        Decision
	// Squares is Σg² over the sum, g as the optimizer gets it but for the clipping, unless the
	// round has closed.
	Squares exact.Sum
}

// ReadHeld says what is known of a round. Wait for it with a Want of Clip first.
func (s *Shard) ReadHeld(round uint64) (ClipState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return ClipState{}, s.err
	case round < s.rounds.number:
		return s.closedRound(round), nil
	case round > s.rounds.number || !s.held():
		return ClipState{}, s.cfg.refuse(wire.CodeConflict, "clip: round %d is not whole; round %d is open", round, s.rounds.number)
	}
	c := s.rounds.clipped()
	if !c.taken {
		c.squares, c.taken = s.squares(), true
	}
	return ClipState{Decided: c.decided, Decision: c.open, Squares: c.squares}, nil
}

// closedRound says what is known of a round that has closed.
func (s *Shard) closedRound(round uint64) ClipState {
	h := ClipState{Closed: true}
	if c := s.rounds.clip(); c != nil && c.known && round+1 == s.rounds.number {
		h.Decided, h.Decision = true, c.last
	}
	return h
}

// Decide brings a held round its Decision. The first one counts; Decide returns it, with Decided
// false if the round has closed and its Decision is not known.
func (s *Shard) Decide(round uint64, d Decision) (ClipState, error) {
	if !(d.Factor >= 0 && d.Factor <= 1) || d.Factor > 0 && !(d.Norm >= 0 && d.Norm <= math.MaxFloat64) {
		return ClipState{}, s.cfg.refuse(wire.CodeMalformed, "clip: got factor %v for norm %v, want at least 0 and at most 1, and 0 unless the norm is finite", d.Factor, d.Norm)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return ClipState{}, s.err
	case round < s.rounds.number:
		return s.closedRound(round), nil
	case round > s.rounds.number || !s.held():
		return ClipState{}, s.cfg.refuse(wire.CodeConflict, "clip: round %d is not whole; round %d is open", round, s.rounds.number)
	}
	c := s.rounds.clipped()
	if !c.decided {
		c.open, c.decided = d, true
		d := c.open
		s.closeRounds()
		return ClipState{Decided: true, Decision: d}, nil
	}
	return ClipState{Decided: true, Decision: c.open}, nil
}

// squaresBlock values of a key have their squares added up together, in float64. Shards of dense keys
// begin at multiples of it, and the blocks' sums are added without rounding, so that the norm does
// not depend on where keys are cut.
const squaresBlock = 1024

// squares takes the squares of the held round's sum.
func (s *Shard) squares() (sum exact.Sum) {
	t := &s.sum
	if s.updater.idle(t) {
		return sum
	}
	pass := s.updater.pass(s.rounds.number, t.weight, wire.RoundRate{}, 1)
	if s.cfg.HasRows() {
		rows, values := t.rowTotal()
		n := int(s.cfg.RowLen)
		for i := range rows {
			sum.Add(pass.GradientSquares(values[i*n : (i+1)*n]))
		}
		return sum
	}
	if t.data == nil {
		return sum
	}
	values := t.values()
	for len(values) > 0 {
		n := min(len(values), squaresBlock)
		sum.Add(pass.GradientSquares(values[:n]))
		values = values[n:]
	}
	return sum
}

// has reports whether the open round is decided.
func (c *clipping) has() bool { return c != nil && c.decided }

// factor is that of the round that is being applied.
func (c *clipping) factor() float64 {
	if c == nil {
		return 1
	}
	return c.open.Factor
}

// skips reports whether the round that is being applied changes nothing.
func (c *clipping) skips() bool { return c.has() && c.open.Factor == 0 }

// closed begins the next round.
func (c *clipping) closed() {
	if c == nil {
		return
	}
	*c = clipping{last: c.open, known: c.decided}
}

// forget forgets the open round and the one before: the state was replaced.
func (c *clipping) forget() {
	if c != nil {
		*c = clipping{}
	}
}

// recorded is the Decision of the round that is being applied, for a backup; nil: there is none.
func (c *clipping) recorded() *Decision {
	if !c.has() {
		return nil
	}
	d := c.open
	return &d
}

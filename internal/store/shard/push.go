package shard

import (
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Push adds a contribution to its round. Its Data must have the length that PayloadSize or
// RowsPayloadSize gives.
//
// A contribution that is Held stays in its round whatever happens to its worker, until the state is
// replaced. The one exception is a Loan that its owner has taken back before it was added: that
// contribution has not come. A worker that is killed takes nothing back, and Settle copies what it
// had lent, so its contribution counts. One that is Refused, Ahead or Unlent has left no trace, and
// the caller still owns its memory. So a worker may send everything again of which it does not know
// whether it was accepted.
func (s *Shard) Push(c Contribution) (Status, error) {
	if err := s.cfg.check(&c); err != nil {
		return Refused, err
	}
	if c.Loan != nil && (c.Step.Measure || s.guarded.Load()) {
		return Unlent, nil
	}
	// The norm is taken before the lock, which others may hold meanwhile.
	if s.guarded.Load() && len(c.Contributors) == 0 {
		c.norm = s.cfg.normOf(&c)
		if c.Judged && c.norm <= math.MaxFloat64 {
			c.norm = c.Norm
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Refused, s.err
	}
	if c.Generation != s.members.generation {
		return Refused, s.cfg.refuse(wire.CodeStaleGeneration, "push: got generation %d, want %d", c.Generation, s.members.generation)
	}
	m := s.members.of(c.Node)
	if m == nil {
		return Refused, s.cfg.refuse(wire.CodeUnknownNode, "push: node %d is not a worker of generation %d", c.Node, s.members.generation)
	}
	switch async := s.mode.async(); {
	case len(c.Contributors) > 0:
		return s.pushTogether(&c)
	case c.Seq <= m.lastSeq:
		c.Data.Release()
		return Repeated, nil
	case c.Loan != nil && (s.guard != nil || async && s.cfg.Rule == wire.RuleAverage):
		return Unlent, nil
	case async && c.Step.Measure:
		return Refused, s.cfg.refuse(wire.CodeUnsupported, "push: got a measured push in async mode, where a round has one contribution")
	case async:
		return s.pushAsync(m, &c)
	}
	return s.pushSync(m, &c)
}

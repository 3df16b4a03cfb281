package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// SetMode sets the mode, one of package wire's. After the first contribution another mode is an
// error.
func (s *Shard) SetMode(mode uint8) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == mode {
		return nil
	}
	if s.pushed {
		return s.refuse(wire.CodeConflict, "mode: got %d after contributions in mode %d", mode, s.mode)
	}
	s.mode = mode
	s.wake()
	return nil
}

// pushAsync applies one contribution. A member's contributions are applied in the order of their
// sequence numbers.
func (s *Shard) pushAsync(m *member, c *Contribution) (Status, error) {
	if m.known && c.Seq != m.counted+1 || s.roundsBlocked() {
		return Ahead, nil
	}
	if err := s.takeRows(c); err != nil {
		return Refused, err
	}
	if c.Loan != nil && !c.Loan.Claim() {
		return Refused, s.refuse(wire.CodeBusy, "push %d of rank %d: the worker has taken its gradient back", c.Seq, m.Rank) // and waits for no answer
	}
	s.pushed = true
	s.countExamples(m, c.Counted, c.Examples)
	begin := s.clock()
	if m.async != nil {
		m.async.staleness.push(s.rounds, m.counted)
	}
	single := s.scratchMemory().single[:]
	x := &single[0]
	*x = slot{node: m.Node, rank: m.Rank, seq: c.Seq, weight: c.Weight, examples: uint32(c.Examples), norm: c.norm, judged: c.Judged, payload: payloadOf(c), loan: c.Loan}
	defer func() { x.loan = nil }()
	s.judge(x)
	s.open.setRate(c.Step.Rate)
	switch {
	case c.Loan != nil:
		s.takeLent(single)
		if !s.updatesInParts() {
			s.addLent(&s.sum.partialSum)
		}
	case s.cfg.Rule == wire.RuleAverage && !x.verdict.refused():
		s.keepNewest(m, &x.payload, x.weight)
	default:
		s.aggregate(x, true)
	}
	s.learnNorms(single)
	inParts := s.lent() != nil && !s.weighsNothing()
	if err := s.apply(s.rounds); err != nil {
		s.fail(err)
		return Held, nil
	}
	if !inParts {
		s.placeValue(s.rounds + 1)
	}
	m.counted, m.known = c.Seq, true
	if !x.verdict.refused() {
		s.recordNewest(m)
	}
	s.recordContribution(Counted{Node: c.Node, Seq: c.Seq, Weight: c.Weight, Examples: c.Examples, Counts: c.Counted, Norm: x.norm, Verdict: uint8(x.verdict)})
	s.rounds++
	s.publishRound(s.examplesOfRound())
	s.measureAsync(begin, c)
	s.announce()
	s.wake()
	return Held, nil
}

// keepNewest makes p the member's newest contribution, and the sum the sum of all members' newest
// contributions.
func (s *Shard) keepNewest(m *member, p *payload, weight float32) {
	if s.n == 0 {
		p.data.Release()
		return
	}
	a := m.asynchronous()
	if a.newest == nil {
		a.newest = s.cfg.Pool.Get(4 * s.n)
	}
	p.decodeTo(a.newest.Float32s(s.n))
	p.data.Release()
	a.newestWeight = weight
	s.sum.data = s.cfg.Pool.Get(4 * s.n)
	total := s.sum.data.Float32s(s.n)
	clear(total)
	for _, o := range s.ranked {
		if newest := o.newest(); newest != nil {
			f32.AddTo(total, newest.Float32s(s.n))
			s.sum.weight += float64(o.async.newestWeight)
		}
	}
}

func (s *Shard) async() bool { return s.mode == wire.ModeAsync }

// Async reports whether the mode is asynchronous.
func (s *Shard) Async() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.async()
}

package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// SetMode sets the mode, one of package wire's. After the first contribution another mode is an
// error.
func (s *Shard) SetMode(to uint8) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == mode(to) {
		return nil
	}
	if s.pushed {
		return s.cfg.refuse(wire.CodeConflict, "mode: got %d after contributions in mode %d", to, s.mode)
	}
	s.mode = mode(to)
	s.wake()
	return nil
}

// Async reports whether the mode is asynchronous.
func (s *Shard) Async() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode.async()
}

// pushAsync applies one contribution, which is a round of its own. A member's contributions are
// applied in the order of their sequence numbers, because the age of a value is counted in them and
// because momentum is not commutative; one that has overtaken another waits for its turn.
//
// An error of the update ends the shard and not the contribution: it is counted, and every later
// request says why there is no value.
func (s *Shard) pushAsync(m *member, c *Contribution) (Status, error) {
	if m.known && c.Seq != m.lastSeq+1 || s.replica.blocks() {
		return Ahead, nil
	}
	if err := s.table.take(&s.cfg, c); err != nil {
		return Refused, err
	}
	// The worker waits for no answer any more if it has taken its gradient back.
	if c.Loan != nil && !c.Loan.Claim() {
		return Refused, s.cfg.refuse(wire.CodeBusy, "push %d of rank %d: the worker has taken its gradient back", c.Seq, m.Rank)
	}
	s.pushed = true
	s.counts.add(m, c.Counted, c.Examples)
	begin := s.cfg.clock()
	if m.async != nil {
		m.async.staleness.push(s.rounds.number, m.lastSeq)
	}
	x := s.rounds.alone(m, c)
	defer func() { x.loan = nil }()
	single := s.rounds.closing(true)
	s.guard.judge(&s.cfg, x, s.rounds.number)
	s.rounds.open.setRate(c.Step.Rate)
	s.addAlone(m, c, single)
	s.guard.learn(&s.cfg, single, &s.members)
	weight, places := s.sum.weight, s.updater.places(&s.sum, s.replica.in(replicaInSync))
	if err := s.apply(s.rounds.number); err != nil {
		s.fail(err)
		return Held, nil
	}
	if places {
		s.sum.place(single, s.readers.current, s.rounds.number+1)
	}
	m.lastSeq, m.known = c.Seq, true
	if !x.verdict.refused() {
		s.replica.addNewest(m, s.cfg.Pool, s.cfg.values())
	}
	if s.replica != nil {
		s.replica.count(countedOf(x))
	}
	s.rounds.number++
	s.publish(weight, examplesOf(single))
	s.stopwatch.applied(&s.cfg, begin, c)
	s.replica.announce()
	s.wake()
	return Held, nil
}

// addAlone makes the sum what a single contribution gives: itself or, under the average rule, the
// sum of the members' newest contributions.
func (s *Shard) addAlone(m *member, c *Contribution, single []slot) {
	x := &single[0]
	switch {
	case c.Loan != nil:
		s.sum.claim(single)
		if s.replica.in(replicaInSync) || !s.updater.inParts(&s.cfg) {
			s.sum.addClaimed(&s.sum.partialSum)
		}
	case s.cfg.Rule == wire.RuleAverage && !x.verdict.refused():
		s.sum.addNewest(m, &x.payload, x.weight, s.members.ranked)
	default:
		s.sum.add(x, &addition{last: true, rows: s.table.count(&s.cfg)})
	}
}

package shard

// A staleness is the age of the value from which a worker computed its newest contribution. Async
// mode only.
type staleness struct {
	pulled    bool   // the worker has pulled a value
	round     uint64 // rounds that the value contained
	ownRounds uint64 // how many of them were the worker's own
	missed    uint64 // rounds of others between that pull and the worker's newest contribution
}

// push records a contribution that becomes round number rounds, after own contributions of the
// worker.
func (a *staleness) push(rounds, own uint64) {
	if !a.pulled {
		return
	}
	mine := own - min(a.ownRounds, own)
	since := rounds - min(a.round, rounds)
	a.missed = since - min(mine, since)
}

// progress is the number of a member's contributions, plus base for one that joined late.
func (m *member) progress() uint64 { return m.base() + m.counted }

// slowest is the least progress of all members; 0 if there are none.
func (s *Shard) slowest() uint64 {
	if len(s.ranked) == 0 {
		return 0
	}
	least := s.ranked[0].progress()
	for _, m := range s.ranked[1:] {
		least = min(least, m.progress())
	}
	return least
}

// HandTo records that a worker pulls the value, and returns its staleness. missed is the number of
// rounds of others between the worker's previous pull and its newest contribution, whose gradient
// was computed without them. lead is how many contributions more than the slowest member the worker
// has made; the Staleness of its Want bounds it. Both are 0 in sync mode.
func (v *Version) HandTo(node uint64) (missed, lead uint64) {
	s := v.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memberOf(node)
	if !s.async() || m == nil {
		return 0, 0
	}
	a := m.asynchronous()
	missed = a.staleness.missed
	a.staleness = staleness{pulled: true, round: v.round, ownRounds: m.counted, missed: missed}
	return missed, m.progress() - s.slowest()
}

package shard

// age is how old the value was that a worker made its newest contribution from. Async mode.
type age struct {
	held   bool   // a value was handed to the worker
	round  uint64 // rounds in it
	own    uint64 // the worker's contributions by then
	missed uint64 // rounds of others between that value and the worker's newest contribution
}

// push takes note of a contribution that becomes round number rounds, after own contributions of the worker.
func (a *age) push(rounds, own uint64) {
	if !a.held {
		return
	}
	mine := own - min(a.own, own)
	since := rounds - min(a.round, rounds)
	a.missed = since - min(mine, since)
}

// progress is how far a member has come: its contributions, and what a late one is taken to have made.
func (m *member) progress() uint64 { return m.base + m.counted }

// slowest is the least progress of all members, 0 without any.
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

// HandTo takes note that the value goes to a worker, and returns what the worker should know of its age. Missed is how many
// rounds others had made, when the worker's newest contribution was applied, since the value that was handed to it before:
// the gradient was computed without them. Lead is how many contributions more than the slowest member the worker has made;
// the staleness of its Want bounds it. Both are 0 in sync mode.
func (v *Version) HandTo(node uint64) (missed, lead uint64) {
	s := v.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[node]
	if !s.async || m == nil {
		return 0, 0
	}
	missed = m.age.missed
	m.age = age{held: true, round: v.round, own: m.counted, missed: missed}
	return missed, m.progress() - s.slowest()
}

package shard

// SetMembers replaces the set of workers. The open round closes at once if every worker of the new
// set has contributed. Contributions of a worker that is no longer in the set were accepted, so
// they count, even one made a round ahead. Requests of another generation are refused from now on.
func (s *Shard) SetMembers(generation uint64, members []Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	joined, left, err := s.members.replace(&s.cfg, generation, members, s.anySeq)
	if err != nil {
		return err
	}
	for _, m := range joined {
		s.counts.join(m)
	}
	for _, m := range left {
		m.dropNewest()
		s.counts.leave(m)
	}
	s.readers.expel(left, generation)
	s.rounds.change(s.members.ordered(), s.held())
	s.closeRounds()
	s.wake()
	return nil
}

// ExamplesOf returns how many examples of a node the shard's closed and open rounds contain, also of a
// worker that has left. It is false if no contribution to this shard ever counted examples.
func (s *Shard) ExamplesOf(node uint64) (examples uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.of(s.members.of(node), node)
}

// ForgetLeft drops the counts of workers that are no longer members.
func (s *Shard) ForgetLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.forgetLeft()
}

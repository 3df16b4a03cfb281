package shard

// Forget ends the shard with err and gives all its memory back: value, optimizer state, contributions, and what its backup has yet to
// acknowledge. A Version that is being read, and a Record that is lent, go when they are released.
func (s *Shard) Forget(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	s.fail(err)
	s.dropContributions()
	for _, m := range s.backup.newest { // of a backup: also of workers that are no members
		m.newest.Release()
		m.newest = nil
	}
	s.backup.newest = nil
	if s.vocabulary != nil {
		s.vocabulary.forget()
	}
	s.sum, s.state, s.spareVersion = sum{}, nil, nil
	last := s.current
	s.current = &Version{shard: s} // without values: err stands before every use
	if last.readers == 0 {
		last.data.Release()
		last.data = nil
		last.forgetHalf()
	}
}

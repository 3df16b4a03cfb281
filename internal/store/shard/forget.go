package shard

// Forget ends the shard with err and releases all its memory: value, optimizer state,
// contributions, and the record that its backup has yet to acknowledge. A Version that is in use,
// and a Record that is lent, are freed when they are released.
func (s *Shard) Forget(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	s.fail(err)
	s.dropContributions()
	for _, m := range s.backup.newestOf() { // a backup's: it has also workers that are not members
		m.dropNewest()
	}
	if s.backup != nil {
		s.backup.newest = nil
	}
	if s.vocabulary != nil {
		s.vocabulary.clear()
	}
	s.sum, s.state = sum{}, nil
	last := s.current
	s.current = &Version{shard: s} // without values: every use returns err before it reads them
	if last.readers == 0 {
		last.data.Release()
		last.data = nil
		last.forgetHalf()
	}
}

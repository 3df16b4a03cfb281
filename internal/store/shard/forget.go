package shard

// Forget ends the shard with err and releases all its memory: value, optimizer state,
// contributions, and the record that its backup has yet to acknowledge. A Version that is in use,
// and a Record that is lent, are freed when they are released.
func (s *Shard) Forget(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.detach(&s.readers)
	s.fail(err)
	s.dropContributions()
	s.replica.forget()
	if o := s.table.vocabulary; o != nil {
		o.clear()
	}
	s.sum, s.updater.state = sum{cfg: &s.cfg}, nil
	s.readers.drop()
}

// Fail ends the shard: every wait and every further request ends with err.
func (s *Shard) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// fail ends the shard. The first error stays.
func (s *Shard) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

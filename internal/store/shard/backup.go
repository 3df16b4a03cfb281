package shard

// SetClosed sets a function that is called, under the shard's mutex, when there is a closed round
// to replicate; Lend returns it.
func (s *Shard) SetClosed(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica = s.replica.made()
	s.replica.closed = f
}

// Lend returns the round that the backup has yet to acknowledge, or nil. It does not change until
// Commit, which the caller must call once.
func (s *Shard) Lend() *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replica.lend()
}

// Commit takes a record back. If it was acknowledged, the round's value is shown from now on and
// the next round may close; else Lend returns the record again.
func (s *Shard) Commit(r *Record, acknowledged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replica.commit(r, acknowledged, &s.readers) {
		s.releaseWaits()
	}
}

// releaseWaits ends the waits for the value before the next round can change it.
func (s *Shard) releaseWaits() {
	s.wake()
	s.closeRounds()
}

// Detach makes the shard go on without a backup: closed rounds are shown at once.
func (s *Shard) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.detach(&s.readers)
	s.releaseWaits()
}

// BackupStatus reports whether a backup has the whole state, and whether it has yet to acknowledge
// a round.
func (s *Shard) BackupStatus() (on, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replica.in(replicaInSync), s.replica.unacknowledged() != nil
}

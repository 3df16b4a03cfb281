package shard

// A shard counts the examples that it has got from each worker: those of contributions that count
// them. What a contribution weighs in a mean is another number. A contribution is added when the
// shard accepts it, because from then on it is part of its round even if the worker is lost.

// maxExamples bounds the examples of one contribution.
const maxExamples = 1<<32 - 1

// countExamples adds the examples of an accepted contribution.
func (s *Shard) countExamples(m *member, counted bool, examples uint64) {
	if counted {
		s.counted = true
		m.examples += examples
	}
}

// memberLeft keeps the count of a worker that is no longer a member; memberJoined returns it to one
// that is a member again.
func (s *Shard) memberLeft(m *member) {
	if m.examples > 0 {
		if s.left == nil {
			s.left = map[uint64]uint64{}
		}
		s.left[m.Node] = m.examples
	}
}

func (s *Shard) memberJoined(m *member) {
	m.examples = s.left[m.Node]
	delete(s.left, m.Node)
}

// Counted returns how many examples of a node the shard's closed and open rounds contain, also of a
// worker that has left. It is false if no contribution to this shard ever counted examples.
func (s *Shard) Counted(node uint64) (examples uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.memberOf(node); m != nil {
		return m.examples, s.counted
	}
	return s.left[node], s.counted
}

// ForgetLeft drops the counts of workers that are no longer members.
func (s *Shard) ForgetLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.left)
}

// examplesOfRound returns the number of examples of the round that is being closed, without those
// of contributions that the guard has refused.
func (s *Shard) examplesOfRound() (sum uint64) {
	slots := s.contributions()
	for i := range slots {
		if !slots[i].verdict.refused() {
			sum += uint64(slots[i].examples)
		}
	}
	return sum
}

// countRecord is countExamples at a backup, which gets closed rounds. m is nil for a worker that
// has left.
func (s *Shard) countRecord(m *member, node, examples uint64) {
	s.counted = true
	switch {
	case m != nil:
		m.examples += examples
	case examples > 0:
		if s.left == nil {
			s.left = map[uint64]uint64{}
		}
		s.left[node] += examples
	}
}

// openExamples returns how many examples of a node are in open rounds.
func (s *Shard) openExamples(node uint64) (examples uint64) {
	for _, r := range []*round{&s.open, s.next} {
		if r == nil {
			break
		}
		for i := range r.slots {
			if x := &r.slots[i]; x.node == node && x.seq != 0 && x.counts {
				examples += uint64(x.examples)
			}
		}
	}
	return examples
}

package shard

import "github.com/paragon-train/paragon/internal/wire"

// A ledger says how many examples of each worker are in the shard: the sum of the weights of its contributions that count
// examples, in whole numbers. A contribution is entered when the shard takes it, since from then on it is in its round whatever
// becomes of the worker.
type ledger struct {
	used bool              // some contribution counted examples
	left map[uint64]uint64 // of workers that are no members any more, until Settled
}

// maxExamples bounds what one contribution may count: so far every whole number is a float32.
const maxExamples = 1 << 24

// checkCounted looks at the weight of a contribution that counts examples.
func (s *Shard) checkCounted(c *Contribution) error {
	if c.Counted && (c.Weight > maxExamples || c.Weight != float32(uint64(c.Weight))) {
		return s.refuse(wire.CodeMalformed, "push: got weight %v as a number of examples, want a whole number up to %d", c.Weight, maxExamples)
	}
	return nil
}

// enter takes note of a contribution that the shard has taken.
func (s *Shard) enter(m *member, c *Contribution) {
	if c.Counted {
		s.ledger.used = true
		m.examples += uint64(c.Weight)
	}
}

// departs keeps what a worker has counted that is no longer a member; arrives gives it back to one that is again.
func (l *ledger) departs(m *member) {
	if m.examples > 0 {
		if l.left == nil {
			l.left = map[uint64]uint64{}
		}
		l.left[m.Node] = m.examples
	}
}

func (l *ledger) arrives(m *member) {
	m.examples = l.left[m.Node]
	delete(l.left, m.Node)
}

// Counted returns how many examples of a node the shard's rounds contain or will, also of a worker that has left. It is false
// where no contribution of anybody ever counted examples, for such a shard can say nothing.
func (s *Shard) Counted(node uint64) (examples uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[node]; m != nil {
		return m.examples, s.ledger.used
	}
	return s.ledger.left[node], s.ledger.used
}

// Settled forgets what workers have counted that are no longer members.
func (s *Shard) Settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ledger.left)
}

// follows is enter of a backup: it enters what closed rounds count. m is nil for a worker that has left.
func (l *ledger) follows(m *member, node, examples uint64) {
	l.used = true
	switch {
	case m != nil:
		m.examples += examples
	case examples > 0:
		if l.left == nil {
			l.left = map[uint64]uint64{}
		}
		l.left[node] += examples
	}
}

// held returns how many examples of a node are in contributions to rounds that have not closed.
func (s *Shard) held(node uint64) (examples uint64) {
	for _, r := range []*round{&s.open, &s.next} {
		for i := range r.slots {
			if x := &r.slots[i]; x.node == node && x.seq != 0 && x.counts {
				examples += uint64(x.weight)
			}
		}
	}
	return examples
}

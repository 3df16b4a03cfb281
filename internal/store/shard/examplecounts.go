package shard

// maxExamples bounds the examples of one contribution.
const maxExamples = 1<<32 - 1

// exampleCounts is how many examples a shard has got from each worker: those of contributions that
// count them. What a contribution weighs in a mean is another number.
//
// A contribution is added when the shard accepts it, because from then on it is part of its round
// even if the worker is lost. So a member's count includes the open rounds; what is copied to a
// backup, which gets closed rounds alone, must have them taken off.
type exampleCounts struct {
	// left has the counts of workers that are no longer members, by node, until forgetLeft. Nil
	// means none.
	left map[uint64]uint64
	// any says that some contribution has counted examples.
	any bool
}

// add adds the examples of an accepted contribution.
func (x *exampleCounts) add(m *member, counted bool, examples uint64) {
	if counted {
		x.any = true
		m.examples += examples
	}
}

// takeBack undoes add for a contribution that its worker has taken back. m is nil for a worker that
// has left.
func (x *exampleCounts) takeBack(m *member, node, examples uint64) {
	if m != nil {
		m.examples -= examples
	} else {
		x.left[node] -= examples
	}
}

// follow counts, at a backup, the examples of a closed round. A worker that has left has no member.
func (x *exampleCounts) follow(r *Record, members *membership) {
	for _, c := range r.Counts {
		if !c.Counted {
			continue
		}
		x.any = true
		if m := members.of(c.Node); m != nil {
			m.examples += c.Examples
		} else if c.Examples > 0 {
			x.keep(c.Node, x.left[c.Node]+c.Examples)
		}
	}
}

// leave keeps the count of a worker that is no longer a member; join returns it to one that is a
// member again.
func (x *exampleCounts) leave(m *member) {
	if m.examples > 0 {
		x.keep(m.Node, m.examples)
	}
}

func (x *exampleCounts) join(m *member) {
	m.examples = x.left[m.Node]
	delete(x.left, m.Node)
}

func (x *exampleCounts) keep(node, examples uint64) {
	if x.left == nil {
		x.left = map[uint64]uint64{}
	}
	x.left[node] = examples
}

// of returns the count of a node, of which m is the member or nil. It is false if no contribution
// ever counted examples.
func (x *exampleCounts) of(m *member, node uint64) (examples uint64, ok bool) {
	if m != nil {
		return m.examples, x.any
	}
	return x.left[node], x.any
}

// forgetLeft drops the counts of workers that are no longer members.
func (x *exampleCounts) forgetLeft() { clear(x.left) }

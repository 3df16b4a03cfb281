package scheduler

import "github.com/paragon-train/paragon/internal/store/wire"

// changeWaits has the workers that wait for the pending change to be committed: those that have
// arrived at its boundary, and those that are ready to join with it. A wait's name says which of
// both, for people.
type changeWaits struct{ waits waitList }

// pass refuses those who have waited too long. obstacles says what the change waits for, to a node.
func (c *changeWaits) pass(out *output, obstacles func(asker uint64) string) {
	for _, w := range c.waits.late(out.now) {
		out.refuse(w.request, wire.CodeTimeout, "%s: waited %s for %s", w.name, w.waited(out.now), obstacles(w.node))
	}
}

// committed answers those whom the change concerned: members go on, removed ones are told so.
// Workers that are ready and found no place wait on.
func (c *changeWaits) committed(out *output, r *roster) {
	concerned := func(w wait) bool {
		n := r.node(w.node)
		return n != nil && (n.life == removed || n.takesPart())
	}
	for _, w := range c.waits.remove(concerned) {
		if n := r.node(w.node); n.life == removed {
			out.refuse(w.request, wire.CodeRemoved, "%v was removed from the job", n)
		} else {
			out.ack(w.request)
		}
	}
}

// removed refuses the waits of a worker that is removed before it counts.
func (c *changeWaits) removed(out *output, n *node) {
	for _, w := range c.of(n) {
		out.refuse(w.request, wire.CodeRemoved, "%v was removed from the job", n)
	}
}

// dropped refuses the waits of a worker that did not manage to join.
func (c *changeWaits) dropped(out *output, n *node, why string) {
	for _, w := range c.of(n) {
		out.refuse(w.request, wire.CodeUnknownNode, "node %d (%v) was dropped: %s", n.Node, n, why)
	}
}

// of takes out the waits of a node.
func (c *changeWaits) of(n *node) []wait {
	return c.waits.remove(func(w wait) bool { return w.node == n.Node })
}

// end refuses all who wait: the job has ended.
func (c *changeWaits) end(out *output) {
	c.waits.end(out, func(w wait) string { return w.name })
}

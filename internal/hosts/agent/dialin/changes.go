package dialin

import (
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A Change says that an agent has come, or is gone for good: its lease expired, it left, or another
// one has taken its place. One that comes back after that has come again. An agent whose Machine
// was closed, or that has lost its connection within the lease, is not gone.
type Change struct {
	Info   Info
	Joined bool
}

// Changes has the changes since Listen. It may be read or not: of those that nobody reads, only the
// last ones of each name are kept.
func (l *Listener) Changes() <-chan Change { return l.changes }

// maxChanges bounds those that nobody has read, of agents that are gone: there can be any number of
// names.
const maxChanges = 2 * hosts.MaxSlots

// change adds a change; the caller holds the lock. Coming and going alternate, so where two of a
// name wait, the third makes up for both.
func (l *Listener) change(c Change) {
	same := 0
	for _, q := range l.queue {
		if q.Info.Name == c.Info.Name {
			same++
		}
	}
	if same == 2 {
		l.queue = slices.DeleteFunc(l.queue, func(q Change) bool { return q.Info.Name == c.Info.Name })
	}
	if l.queue = append(l.queue, c); len(l.queue) > maxChanges {
		// tell may be sending the first one.
		l.queue = append(l.queue[:1], withoutPast(l.queue[1:])...)
	}
	l.notify()
}

// withoutPast drops the agents that have come and are gone.
func withoutPast(queue []Change) []Change {
	gone := make(map[string]bool)
	for _, c := range queue {
		gone[c.Info.Name] = !c.Joined
	}
	came := make(map[string]bool)
	return slices.DeleteFunc(queue, func(c Change) bool {
		name := c.Info.Name
		came[name] = came[name] || c.Joined

		// A reader that knows of an agent which has come must hear that it is gone.
		return gone[name] && came[name]
	})
}

// tell sends the changes.
func (l *Listener) tell() {
	for {
		l.mu.Lock()
		var next Change

		// out is nil while there is nothing to send.
		var out chan Change
		if len(l.queue) > 0 {
			next, out = l.queue[0], l.changes
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case out <- next:
			l.mu.Lock()
			if len(l.queue) > 0 && l.queue[0] == next {
				l.queue = l.queue[1:]
			}
			l.mu.Unlock()
		case <-changed:
		case <-l.ctx.Done():
			return
		}
	}
}

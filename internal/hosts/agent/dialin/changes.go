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

// change adds a change; the caller holds the lock.
func (l *Listener) change(c Change) {
	l.queue.add(c)
	l.notify()
}

// A changeQueue has the changes that nobody has read. Of each name, coming and going alternate in what
// a reader hears.
type changeQueue struct{ waiting []Change }

// add adds a change. Where two of its name wait, it makes up for both. The first change of all stays,
// since it may be on its way to the reader: if it went, and was read all the same, the reader would
// hear twice in a row that an agent has come.
func (q *changeQueue) add(c Change) {
	if len(q.waiting) == 0 {
		q.waiting = []Change{c}
		return
	}
	first, behind := q.waiting[:1], q.waiting[1:]
	sameName := func(w Change) bool { return w.Info.Name == c.Info.Name }
	same := 0
	for _, w := range behind {
		if sameName(w) {
			same++
		}
	}
	if same == 2 {
		behind = slices.DeleteFunc(behind, sameName)
	}
	if behind = append(behind, c); len(behind) >= maxChanges {
		behind = withoutPast(behind)
	}
	q.waiting = append(first, behind...)
}

// first is the next change to send; false: none waits.
func (q *changeQueue) first() (Change, bool) {
	if len(q.waiting) == 0 {
		return Change{}, false
	}
	return q.waiting[0], true
}

// sent says that the first change has been sent.
func (q *changeQueue) sent() { q.waiting = q.waiting[1:] }

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
		// out is nil while there is nothing to send.
		var out chan Change
		l.mu.Lock()
		next, ok := l.queue.first()
		if ok {
			out = l.changes
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case out <- next:
			l.mu.Lock()
			l.queue.sent()
			l.mu.Unlock()
		case <-changed:
		case <-l.ctx.Done():
			return
		}
	}
}

package schedulernode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/wire"
)

// Meetings are names for which nodes wait until something happens, once: a barrier until all workers are at it, an await
// until the signal. The names that happened are remembered, the last of them, so that a request repeated after a lost
// answer finds them.
type meetings struct {
	waits []wait
	at    map[string]map[uint64]bool // barriers: the nodes that arrived
	done  map[string]bool
	order []string // of done, oldest first
}

// maxNames bounds the memory for names that happened.
const maxNames = 1 << 16

// A wait is a request that waits for a name.
type wait struct {
	request  uint64
	node     uint64
	name     string
	since    time.Time
	deadline time.Time
}

func (m *meetings) next() (t time.Time) {
	for _, w := range m.waits {
		if t.IsZero() || w.deadline.Before(t) {
			t = w.deadline
		}
	}
	return t
}

// remove takes out and returns the waits that match, oldest first.
func (m *meetings) remove(match func(wait) bool) (out []wait) {
	m.waits = slices.DeleteFunc(m.waits, func(w wait) bool {
		if match(w) {
			out = append(out, w)
			return true
		}
		return false
	})
	return out
}

func (m *meetings) all() []wait { return m.remove(func(wait) bool { return true }) }

// late takes out the waits whose time is over.
func (m *meetings) late(now time.Time) []wait {
	return m.remove(func(w wait) bool { return !now.Before(w.deadline) })
}

// forget drops a wait whose asker is gone. The node stays at the barrier: it will ask again.
func (m *meetings) forget(request uint64) {
	m.remove(func(w wait) bool { return w.request == request })
}

// happen marks a name and takes out those who wait for it.
func (m *meetings) happen(name string) []wait {
	if !m.done[name] {
		if m.done == nil {
			m.done = make(map[string]bool)
		}
		m.done[name] = true
		m.order = append(m.order, name)
		if len(m.order) > maxNames {
			delete(m.done, m.order[0])
			m.order = m.order[1:]
		}
	}
	delete(m.at, name)
	return m.remove(func(w wait) bool { return w.name == name })
}

func (c *Core) barrier(request uint64, m *wire.Barrier) {
	n := c.current(request, m.Node, m.Generation)
	if n == nil {
		return
	}
	if n.Role != wire.RoleWorker {
		c.refuse(request, wire.CodeUnsupported, "barrier %q: %v is no worker", m.Name, n)
		return
	}
	if c.barriers.done[m.Name] {
		c.ack(request)
		return
	}
	if c.barriers.at == nil {
		c.barriers.at = make(map[string]map[uint64]bool)
	}
	if c.barriers.at[m.Name] == nil {
		c.barriers.at[m.Name] = make(map[uint64]bool)
	}
	c.barriers.at[m.Name][n.Node] = true
	c.barriers.waits = append(c.barriers.waits, c.newWait(request, m.Node, m.Name, m.WaitMillis))
	c.checkBarriers()
}

// checkBarriers opens the barriers at which every living worker has arrived.
func (c *Core) checkBarriers() {
	workers := c.living(wire.RoleWorker)
	for { // happen changes the waits
		i := slices.IndexFunc(c.barriers.waits, func(w wait) bool {
			return !slices.ContainsFunc(workers, func(n *node) bool { return !c.barriers.at[w.name][n.Node] })
		})
		if i < 0 {
			return
		}
		for _, w := range c.barriers.happen(c.barriers.waits[i].name) {
			c.ack(w.request)
		}
	}
}

// notAt names the workers that have not arrived at a barrier.
func (c *Core) notAt(name string) string {
	var b strings.Builder
	for _, n := range c.living(wire.RoleWorker) {
		if !c.barriers.at[name][n.Node] {
			fmt.Fprintf(&b, ", %v (last step %d, heard of %s ago)", n, n.step, seconds(c.now.Sub(n.heard)))
		}
	}
	return strings.TrimPrefix(b.String(), ", ")
}

func (c *Core) newWait(request, node uint64, name string, millis uint32) wait {
	return wait{request, node, name, c.now, c.now.Add(time.Duration(millis) * time.Millisecond)}
}

func (c *Core) signal(request uint64, m *wire.Signal) {
	if n := c.current(request, m.Node, c.generation); n == nil {
		return
	}
	for _, w := range c.signals.happen(m.Name) {
		c.ack(w.request)
	}
	c.ack(request)
}

func (c *Core) await(request uint64, m *wire.Await) {
	if n := c.current(request, m.Node, c.generation); n == nil {
		return
	}
	if c.signals.done[m.Name] {
		c.ack(request)
		return
	}
	c.signals.waits = append(c.signals.waits, c.newWait(request, m.Node, m.Name, m.WaitMillis))
}

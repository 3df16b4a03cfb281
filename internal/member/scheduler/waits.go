package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A waitTable holds the requests that wait for a name: at a barrier until all workers have called
// it, in an await until the signal. A name happens once. The last names that happened are
// remembered with their values, so that a request repeated after a lost answer finds them.
type waitTable struct {
	kind  string
	waits []wait
	at    map[string]map[uint64]bool // barriers: the nodes that arrived
	done  map[string]string          // names that happened, with their values
	order []string                   // of done, oldest first
	first uint64                     // number of the first of them; they are numbered as they happened
	bytes int                        // of all values
}

// Bounds of the memory for what happened: names, and bytes of their values (one value is at most
// wire.MaxHead).
const (
	maxNames  = 1 << 16
	maxValues = 8 << 20
)

// A wait is a request that waits for a name.
type wait struct {
	request  uint64
	node     uint64
	name     string
	sender   uint64 // awaits: the worker of the lowest rank, which sends signals
	since    time.Time
	deadline time.Time
}

func (m *waitTable) next() (t time.Time) {
	for _, w := range m.waits {
		if t.IsZero() || w.deadline.Before(t) {
			t = w.deadline
		}
	}
	return t
}

// remove takes out and returns the waits that match, oldest first.
func (m *waitTable) remove(match func(wait) bool) (out []wait) {
	m.waits = slices.DeleteFunc(m.waits, func(w wait) bool {
		if match(w) {
			out = append(out, w)
			return true
		}
		return false
	})
	return out
}

func (m *waitTable) all() []wait { return m.remove(func(wait) bool { return true }) }

// late takes out the waits whose time is over.
func (m *waitTable) late(now time.Time) []wait {
	return m.remove(func(w wait) bool { return !now.Before(w.deadline) })
}

// forget drops a wait whose sender is gone. The node still counts as being at the barrier: it asks
// again.
func (m *waitTable) forget(request uint64) {
	m.remove(func(w wait) bool { return w.request == request })
}

// mark marks a name as happened.
func (m *waitTable) mark(name, value string) {
	if m.done == nil {
		m.done = make(map[string]string)
	}
	m.done[name] = value
	m.bytes += len(value)
	m.order = append(m.order, name)
}

// happened reports whether a name did.
func (m *waitTable) happened(name string) bool {
	_, ok := m.done[name]
	return ok
}

// happen marks a name and takes out those who wait for it.
func (c *Core) happen(m *waitTable, name, value string) []wait {
	if !m.happened(name) {
		c.put(m.record(len(m.order)), keptName{name, value})
		m.mark(name, value)
		if len(m.order) > maxNames {
			c.out.Records = append(c.out.Records, Record{Key: m.record(0)})
			m.bytes -= len(m.done[m.order[0]])
			delete(m.done, m.order[0])
			m.order = m.order[1:]
			m.first++
		}
	}
	delete(m.at, name)
	return m.remove(func(w wait) bool { return w.name == name })
}

// record is the key of the record of a name that happened.
func (m *waitTable) record(i int) string { return fmt.Sprintf("%s/%012d", m.kind, m.first+uint64(i)) }

func (c *Core) barrier(request uint64, m *wire.Barrier) {
	n := c.current(request, m.Node, m.Generation)
	if n == nil {
		return
	}
	if n.Role != wire.RoleWorker {
		c.refuse(request, wire.CodeUnsupported, "barrier %s: %v is not a worker", wire.Shown(m.Name), n)
		return
	}
	if !n.Counts() {
		c.refuse(request, wire.CodeUnsupported, "barrier %s: %v does not count yet", wire.Shown(m.Name), n)
		return
	}
	if c.barriers.happened(m.Name) {
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
	workers := c.counting(wire.RoleWorker)
	for { // happen changes the waits
		i := slices.IndexFunc(c.barriers.waits, func(w wait) bool {
			return !slices.ContainsFunc(workers, func(n *node) bool { return !c.barriers.at[w.name][n.Node] })
		})
		if i < 0 {
			return
		}
		for _, w := range c.happen(&c.barriers, c.barriers.waits[i].name, "") {
			c.ack(w.request)
		}
	}
}

// notAt names the workers that have not arrived at a barrier.
func (c *Core) notAt(name string) string {
	var names []string
	for _, n := range c.counting(wire.RoleWorker) {
		if !c.barriers.at[name][n.Node] {
			names = append(names, c.describe(n))
		}
	}
	return strings.Join(names, ", ")
}

// describe names a node and says how far it is.
func (c *Core) describe(n *node) string {
	return fmt.Sprintf("%v (last step %d, heard from %s ago)", n, n.step, control.Seconds(c.now.Sub(n.heard)))
}

func (c *Core) newWait(request, node uint64, name string, millis uint32) wait {
	return wait{request: request, node: node, name: name, since: c.now, deadline: c.now.Add(time.Duration(millis) * time.Millisecond)}
}

func (c *Core) signal(request uint64, m *wire.Signal) {
	if n := c.current(request, m.Node, c.generation); n == nil {
		return
	}
	if !c.signals.happened(m.Name) && c.signals.bytes+len(m.Value) > maxValues {
		c.refuse(request, wire.CodeFull, "signal %s: a value of %d bytes beside %d that are kept, want at most %d in all", wire.Shown(m.Name), len(m.Value), c.signals.bytes, maxValues)
		return
	}
	for _, w := range c.happen(&c.signals, m.Name, m.Value) {
		c.answer(w.request, &wire.Signalled{Value: c.signals.done[m.Name]})
	}
	c.ack(request)
}

// await waits for a signal. The worker of the lowest rank sends signals: when it is lost, waits for
// those that it has not sent are refused, and whoever waited tries again, with another worker as
// the sender.
func (c *Core) await(request uint64, m *wire.Await) {
	if n := c.current(request, m.Node, c.generation); n == nil {
		return
	}
	if value, ok := c.signals.done[m.Name]; ok {
		c.answer(request, &wire.Signalled{Value: value})
		return
	}
	members := c.counting(wire.RoleWorker)
	if len(members) == 0 {
		c.refuse(request, wire.CodeUnavailable, "signal %s: there is no worker to send it in generation %d", wire.Shown(m.Name), c.generation)
		return
	}
	sender := slices.MinFunc(members, func(a, b *node) int { return cmp.Compare(a.Rank, b.Rank) })
	if sender.Node == m.Node && sender.Rank > 0 {
		c.refuse(request, wire.CodeUnavailable, "signal %s: its sender is gone; %v waits for the signal, but must now send it itself", wire.Shown(m.Name), sender)
		return
	}
	w := c.newWait(request, m.Node, m.Name, m.WaitMillis)
	w.sender = sender.Node
	c.signals.waits = append(c.signals.waits, w)
}

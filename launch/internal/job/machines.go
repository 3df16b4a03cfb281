package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A machine is one that is connected.
type machine struct {
	id                int
	key               string
	address, launcher string // how others reach it, and how it sees the launcher; that is empty for the launching machine
	lost              bool   // the connection is gone
	closing           bool   // it is being closed, and nothing of the job is there
}

// A connection is one that is being made.
type connection struct {
	id   int
	key  string
	host hosts.Host
	goal any // *initialConnection, *access or schedulerAgain
	old  *machine
}

// key is how the machine of a host is called in machines.
func (c *core) key(h hosts.Host) string {
	if !c.set.Remote {
		return ""
	}
	return h.String()
}

// machineKey is how n's machine is called in machines.
func (c *core) machineKey(n *Node) string {
	if n.Role == roleScheduler && c.set.Scheduler == nil {
		return ""
	}
	return c.key(n.host)
}

// connected takes the answer to a connect or a checkHost.
func (c *core) connected(e connected) {
	k := c.connections[e.id]
	if k == nil {
		return
	}
	delete(c.connections, e.id)
	if c.stage == starting {
		c.connectedAtStart(k, e)
		return
	}
	m, fresh := k.old, false
	if e.err == nil && c.set.Remote {
		m, fresh = &machine{id: e.id, key: k.key, address: e.address, launcher: e.launcher}, true
		c.byID[m.id] = m
		if isLoopback(m.address) != isLoopback(c.address) {
			e.err = fmt.Errorf("launch: host %s has the address %s, and the scheduler %s; other hosts cannot reach a loopback address",
				k.host, m.address, c.address)
			c.closeMachine(m, false)
			m, fresh = nil, false
		}
	}
	if fresh && c.stage < closing {
		m = c.adopt(k.key, m)
	}
	c.report.due = true
	switch goal := k.goal.(type) {
	case *access:
		c.accessConnected(goal, m, fresh, e.err)
	case schedulerAgain:
		goal.connected(c, m, e.err)
	}
}

// adopt makes a machine that was connected the one of its host, and returns it. Where the host was
// connected meanwhile for another reason that connection is the one. What is left over is closed.
func (c *core) adopt(key string, m *machine) *machine {
	have := c.machines[key]
	over := have
	if have != nil && !have.lost {
		m, over = have, m
	}
	c.machines[key] = m
	if over != nil && over != m {
		c.closeMachine(over, false)
	}
	return m
}

func (c *core) closeMachine(m *machine, dismiss bool) {
	if !m.closing {
		m.closing = true
		c.do(closeMachine{m.id, dismiss})
	}
}

func (c *core) machineClosed(e machineClosed) {
	m := c.byID[e.machine]
	if m == nil {
		return
	}
	delete(c.byID, e.machine)
	delete(c.notices, e.machine)
	c.report.due = true
	if e.err != nil && !m.lost { // that of a lost one was told with the processes that it had
		c.warn(e.err.Error())
	}
}

// closesMachine reports whether a connection is being closed.
func (c *core) closesMachine() bool {
	for _, m := range c.byID {
		if m.closing {
			return true
		}
	}
	return false
}

// release closes the connection to a host that the job has left, or that is lost, once nothing of
// the job is there any more.
func (c *core) release(h hosts.Host) {
	key := c.key(h)
	m := c.machines[key]
	if m == nil || key == "" || c.stage != running || !c.want.left(key) && !m.lost && c.notices[m.id] == nil || c.accesses[key] != nil {
		return
	}
	at := func(n *Node) bool { return n.machine == m && !n.ended }
	if slices.ContainsFunc(c.nodes, at) || slices.ContainsFunc(slices.Collect(maps.Values(c.launching)), at) ||
		slices.ContainsFunc(c.arrivals, func(n *Node) bool { return c.key(n.host) == key && n.Role == roleWorker }) {
		return
	}
	delete(c.machines, key)
	c.closeMachine(m, slices.Contains(c.want.dismissed, key) && !m.lost)
}

// sortedKeys are the keys of a map in their order, so that the same events lead to the same
// actions.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

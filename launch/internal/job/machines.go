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
	goal any // *initialConnection, *joiningHost, *replacement or *wantedServer
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

// reach finds the machine of a host: the one that is connected, or else a new one.
func (c *core) reach(h hosts.Host, goal any) {
	k := &connection{key: c.key(h), host: h, goal: goal, old: c.machines[c.key(h)]}
	if c.set.Remote && k.old != nil && !k.old.lost {
		c.reached(k, k.old, false, nil)
		return
	}
	k.id = c.id()
	c.connections[k.id] = k
	if c.set.Remote {
		c.do(connect{k.id, &h})
	} else {
		c.do(checkHost{k.id, h})
	}
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
		c.host(k.host).away = false
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
	c.reached(k, m, fresh, e.err)
}

// reached goes on with what a host was connected to for.
func (c *core) reached(k *connection, m *machine, fresh bool, err error) {
	switch goal := k.goal.(type) {
	case *joiningHost:
		c.joiningHostReached(goal, m, fresh, err)
	case *replacement:
		c.replacementReached(goal, m, err)
	case *wantedServer:
		c.serverHostReached(goal, m, err)
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
	if d := c.departureOf(m); d != nil {
		c.forgetDeparture(d)
	}
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

// release closes the connection to a host once nothing of the job is there any more.
func (c *core) release(h hosts.Host) {
	key := c.key(h)
	m := c.machines[key]
	if m == nil || key == "" || c.stage != running || !c.host(h).leaving && !m.lost {
		return
	}
	for _, n := range c.nodes {
		if n.machine == m && !n.ended {
			return
		}
	}
	for _, n := range c.launching {
		if n.machine == m {
			return
		}
	}
	for _, j := range c.joining {
		if c.key(j.host) == key {
			return
		}
	}
	delete(c.machines, key)
	c.closeMachine(m, c.host(h).dismissed && !m.lost)
}

// sortedKeys are the keys of a map in their order, so that the same events lead to the same
// actions.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// join registers a worker that joins the running job.
func (c *Core) join(request uint64, m *wire.Register) {
	who := fmt.Sprintf("worker on %s", m.Host)
	if !c.set.joins() {
		c.refuse(request, wire.CodeConflict, "%s cannot join: the job is running and its membership cannot change", who)
		return
	}
	if h := c.hosts[m.Host]; h != nil && (h.status == control.RemovalQueued || h.status == control.Removed) {
		c.refuse(request, wire.CodeConflict, "%s cannot join: the host is %s; add it first", who, h.status)
		return
	}
	if n := len(c.living(wire.RoleWorker)) + len(c.living(wire.RoleServer)); n >= cluster.MaxNodes {
		c.refuse(request, wire.CodeConflict, "%s cannot join: the job has %d workers and servers, the maximum", who, n)
		return
	}
	n := c.newNode(m)
	n.Rank, n.State = -1, wire.MemberJoining
	n.joinBy = c.now.Add(c.set.Elastic.JoinTimeout)
	h := c.hosts[m.Host]
	if h == nil || h.status == control.HostFailed {
		c.setHost(m.Host, control.AddQueued, "")
	} else if h.status == control.AddQueued {
		h.by = time.Time{} // from now on it is the node's time that counts
	}
	c.note("node %d registered: %s joins", n.Node, who).Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	c.registered(request, n)
	c.changed()
}

// ready makes a joining worker part of the next change.
func (c *Core) ready(request uint64, m *wire.Ready) {
	n := c.current(request, m.Node, c.generation)
	if n == nil {
		return
	}
	if n.Counts() {
		c.ack(request)
		return
	}
	if n.State == wire.MemberJoining {
		n.State = wire.MemberReady
		c.keep(n)
		c.note("node %d (%v) is ready", n.Node, n).Event = joblog.NodeReady.Of(n.logged(), "node", n.Node)
		c.changed()
		c.endMinimumGrace()
	}
	c.bounds.waits = append(c.bounds.waits, c.newWait(request, n.Node, "ready", m.WaitMillis))
	c.admitReady()
	c.tryCommit()
}

// admitReady begins a change if there is a ready worker that none is pending for.
func (c *Core) admitReady() {
	if n := c.admitted(); len(n) > 0 && c.change.number == 0 && c.phase == wire.PhaseRunning {
		c.begin(fmt.Sprintf("%v (node %d) is ready", n[0], n[0].Node))
		c.changed()
	}
}

// admitted lists the ready workers that would count after a change: those there is room for, of
// lower ID first.
func (c *Core) admitted() (nodes []*node) {
	room, most := len(c.nodes), c.set.mostWorkers()
	if most > 0 {
		room = most - c.staying()
	}
	for _, n := range c.nodes {
		if n.state == living && n.State == wire.MemberReady && len(nodes) < room {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// staying is the number of workers that count and were not asked to leave.
func (c *Core) staying() (n int) {
	for _, x := range c.nodes {
		if x.Role == wire.RoleWorker && x.stays() {
			n++
		}
	}
	return n
}

// drop removes a joining worker.
func (c *Core) drop(n *node, why string) {
	n.state, n.why = lost, why
	c.keep(n)
	c.note("node %d (%v) dropped: %s", n.Node, n, why).Event = joblog.NodeDropped.Of(n.logged(), "node", n.Node, "reason", why)
	for _, w := range c.bounds.remove(func(w wait) bool { return w.node == n.Node }) {
		c.refuse(w.request, wire.CodeUnknownNode, "node %d (%v) was dropped: %s", n.Node, n, why)
	}
	if h := c.hosts[n.Host]; h != nil && h.status == control.AddQueued && !c.hasWorkers(n.Host) {
		c.failHost(n.Host, why)
	}
	c.changed()
	c.admitReady()
	c.tryCommit()
}

// mayBeDropped reports whether the node is dropped when its time to join is over.
func (c *Core) mayBeDropped(n *node) bool {
	if n.state != living || n.joinBy.IsZero() {
		return false
	}
	return n.State == wire.MemberJoining || n.State == wire.MemberReady && c.change.number == 0
}

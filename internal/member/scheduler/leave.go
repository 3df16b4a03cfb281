package scheduler

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// askLeave grants a worker's request to leave if the job can go on without it, as the removal of
// its host would. A worker that counts leaves when the pending change is committed, a joining one
// at once.
func (c *Core) askLeave(request uint64, m *wire.AskLeave) {
	n := c.current(request, m.Node, c.generation)
	switch {
	case n == nil:
		return
	case n.Role != wire.RoleWorker:
		c.refuse(request, wire.CodeUnsupported, "%v cannot ask to leave: want a worker", n)
		return
	case n.State == wire.MemberLeaving: // the answer was lost, or its host is being removed
		c.ack(request)
		return
	}
	if why := c.needs(n); why != "" {
		if !c.set.Elastic.Enabled || c.stopping { // all end, as after Ctrl-C: the worker says so itself
			c.refuse(request, wire.CodeConflict, "%v cannot leave: %s", n, why)
			return
		}
		c.note("%v asks to leave%s; refused: %s", n, because(m.Reason), why).Event = joblog.LeaveRefused.Of(n.logged(), "node", n.Node, "reason", why)
		c.refuse(request, wire.CodeConflict, "%v cannot leave: %s", n, why)
		return
	}
	c.ack(request)
	why := fmt.Sprintf("%v asks to leave%s", n, because(m.Reason))
	c.scaleLost(why)
	c.grantLeave(n, why)
}

// needs says why the job cannot go on without a worker; empty: it can.
func (c *Core) needs(n *node) string {
	if !n.Counts() {
		return ""
	}
	stay := c.staying() - 1
	ready := 0
	for _, x := range c.nodes {
		if x.state == living && x.State == wire.MemberReady {
			ready++
		}
	}
	if most := c.set.mostWorkers(); most > 0 {
		ready = min(ready, most-stay) // its own place becomes free
	}
	switch least := c.set.Elastic.MinWorkers; {
	case !c.set.Elastic.Enabled:
		return "the job's members cannot change: it was not started with --elastic-training-enabled"
	case c.stopping:
		return "the whole job is being stopped"
	case stay == 0: // those who are ready know nothing of how far training is
		return "no other member would be left"
	case stay+ready < least:
		return fmt.Sprintf("it would leave %d, want at least %s", stay+ready, plural.Of(least, "worker"))
	}
	return ""
}

// grantLeave marks a worker as leaving, and its host as being removed if no worker stays there.
func (c *Core) grantLeave(n *node, why string) {
	if n.Counts() {
		n.State = wire.MemberLeaving
		c.change.want = max(0, c.change.want-1) // no replacement is wanted
		c.begin(why)
	} else {
		c.removeJoining(n)
	}
	c.keep(n)
	stays := func(x *node) bool {
		return x.state == living && x.Role == wire.RoleWorker && x.Host == n.Host && x.State != wire.MemberLeaving
	}
	if slices.ContainsFunc(c.nodes, stays) {
		c.tellEvent(control.Event{Action: control.Leaving, Host: n.Host, Role: roleName(n.Role), PID: n.PID, Process: n.process, Reason: why})
		if n.state == removed {
			c.noteLeft(n)
		}
	} else {
		c.setHost(n.Host, control.RemovalQueued, "")
		c.event(control.RemovalQueued, n.Host, why)
		c.hostLeft(n.Host)
	}
	c.changed()
	c.admitReady()
	c.tryCommit()
}

// removeJoining removes a worker that does not count yet.
func (c *Core) removeJoining(n *node) {
	n.state = removed
	c.keep(n)
	for _, w := range c.bounds.remove(func(w wait) bool { return w.node == n.Node }) {
		c.refuse(w.request, wire.CodeRemoved, "%v was removed from the job", n)
	}
}

// noteLeft updates host and events when a worker that was asked to leave has left.
func (c *Core) noteLeft(n *node) {
	h := c.hosts[n.Host]
	switch {
	case h == nil:
	case h.status == control.RemovalQueued:
		c.hostLeft(n.Host)
	default:
		c.tellEvent(control.Event{Action: control.Left, Host: n.Host, Role: roleName(n.Role), PID: n.PID, Process: n.process})
		if h.status == control.Added && !c.hasWorkers(n.Host) { // those who were to stay were lost meanwhile
			c.setHost(n.Host, control.HostFailed, "its workers were lost or have left")
		}
	}
}

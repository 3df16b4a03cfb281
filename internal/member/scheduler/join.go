package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// join registers a worker that joins the running job.
func (m *membership) join(out *output, request uint64, r *wire.Register) {
	who := fmt.Sprintf("worker on %s", r.Host)
	if !m.set.joins() {
		out.refuse(request, wire.CodeConflict, "%s cannot join: the job is running and its membership cannot change", who)
		return
	}
	if status := m.hosts.status(r.Host); status == control.RemovalQueued || status == control.Removed {
		out.refuse(request, wire.CodeConflict, "%s cannot join: the host is %s; add it first", who, status)
		return
	}
	if m.fleet.unwanted(r.Process) {
		out.refuse(request, wire.CodeConflict, "%s cannot join: it is not wanted any more", who)
		return
	}
	if n := m.roster.size(); n >= cluster.MaxNodes {
		out.refuse(request, wire.CodeConflict, "%s cannot join: the job has %d workers and servers, the maximum", who, n)
		return
	}
	n := m.newNode(out, r)
	n.Rank, n.State = -1, wire.MemberJoining
	n.joinBy = out.now.Add(m.set.Elastic.JoinTimeout)
	m.hosts.joins(out, r.Host)
	out.note("node %d registered: %s joins", n.Node, who).Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	m.leases.grant(out, request, n)
	m.changed(out)
}

// ready makes a joining worker part of the next change.
func (m *membership) ready(out *output, request uint64, n *node, r *wire.Ready) {
	if n.Counts() {
		out.ack(request)
		return
	}
	if n.State == wire.MemberJoining {
		n.State = wire.MemberReady
		m.roster.mark(n)
		out.note("node %d (%v) is ready", n.Node, n).Event = joblog.NodeReady.Of(n.logged(), "node", n.Node)
		m.changed(out)
		m.leases.endMinimum(out, &m.roster)
	}
	m.changeWaits.waits.add(newWait(out.now, request, n.Node, "ready", r.WaitMillis))
	m.admitReady(out)
	m.tryCommit(out)
}

// admitReady begins a change if there is a ready worker that none is pending for.
func (m *membership) admitReady(out *output) {
	if n := m.policy.admitted(&m.roster); len(n) > 0 && !m.change.isPending() && m.job.running() {
		m.change.begin(out, fmt.Sprintf("%v (node %d) is ready", n[0], n[0].Node))
		m.changed(out)
	}
}

// drop removes a joining worker.
func (m *membership) drop(out *output, n *node, why string) {
	n.why = why
	m.roster.setLife(n, lost)
	out.note("node %d (%v) dropped: %s", n.Node, n, why).Event = joblog.NodeDropped.Of(n.logged(), "node", n.Node, "reason", why)
	m.changeWaits.dropped(out, n, why)
	switch status := m.hosts.status(n.Host); {
	case m.roster.hasWorkers(n.Host):
	case status == control.Added: // those that counted were lost while it joined
		m.hosts.set(out, n.Host, control.HostFailed, why)
	case status == control.AddQueued && len(m.fleet.workersOn(n.Host)) == 0:
		m.failHost(out, n.Host, why)
	}
	m.changed(out)
	m.admitReady(out)
	m.tryCommit(out)
}

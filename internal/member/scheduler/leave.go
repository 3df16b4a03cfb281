package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Three things have to do with leaving. A worker asks whether it may go (AskLeave: askLeave), and the
// answer grants it, or the job wants it to go (grantLeave): it then counts until the change is
// committed. A node that has gone in order says so (Leave: takeLeave). What is lost says nothing.

// takeLeave takes the Leave of a node, its last word.
func (m *membership) takeLeave(out *output, n *node, l *wire.Leave) {
	was := n.life
	m.roster.setLife(n, left)
	switch {
	case !m.job.open():
	case was == removed:
		out.note("removed node %d on %s left", n.Node, n.Host).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
	case m.job.phase == wire.PhaseForming:
		if !l.OK {
			m.fail(out, n.failed(l.Reason))
			return
		}
		out.note("node %d left while the job was forming", n.Node).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
		out.presence(n, false)
	case !n.Counts():
		m.drop(out, n, cmp.Or(l.Reason, "it left before it was a member"))
		n.life = left
	case n.Role == wire.RoleServer:
		m.serverLeft(out, n, l)
	case l.OK:
		m.workerLeft(out, n)
	case m.set.Elastic.OnWorkerLoss != cluster.LossFail:
		m.loseWorker(out, n, control.Cause{Kind: control.CauseError, Text: l.Reason})
		n.life = left
	default:
		m.fail(out, n.failed(l.Reason))
	}
}

// serverLeft handles the Leave of a server. Without backups the job does not survive it.
func (m *membership) serverLeft(out *output, n *node, l *wire.Leave) {
	switch {
	case m.places.plan.backups:
		m.replaceServer(out, n, control.Cause{Kind: control.CauseLeft, Text: l.Reason})
	case !l.OK:
		m.fail(out, n.failed(l.Reason))
	default:
		f := n.loss(control.Cause{Kind: control.CauseLeft})
		f.Code = control.NodeLeft
		m.fail(out, f)
	}
}

// workerLeft handles a worker that has done all its work. The job is done with the last one.
func (m *membership) workerLeft(out *output, n *node) {
	if len(m.roster.workers()) == 0 {
		out.note("%v left: the job has finished", n).Event = joblog.JobFinished.With()
		m.end(out, nil)
		return
	}
	out.note("%v left", n).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
	if n.State == wire.MemberLeaving {
		m.noteLeft(out, n)
	}
	m.change.oneFewerMustCount()
	m.changed(out)
	m.barriers.check(out, m.roster.workers())
	m.admitReady(out)
	m.tryCommit(out)
}

// askLeave grants a worker's request to leave if the job can go on without it, as the removal of
// its host would. A worker that counts leaves when the pending change is committed, a joining one
// at once.
func (m *membership) askLeave(out *output, request uint64, n *node, a *wire.AskLeave) {
	switch {
	case n.Role != wire.RoleWorker:
		out.refuse(request, wire.CodeUnsupported, "%v cannot ask to leave: want a worker", n)
		return
	case n.State == wire.MemberLeaving:
		// The answer was lost, or its host is being removed.
		out.ack(request)
		return
	}
	if why := m.policy.needs(n, &m.roster, &m.job); why != "" {
		// Where all end, as after Ctrl-C, the worker says so itself.
		if m.set.Elastic.Enabled && m.job.stop == notStopping {
			out.note("%v asks to leave%s; refused: %s", n, because(a.Reason), why).Event = joblog.LeaveRefused.Of(n.logged(), "node", n.Node, "reason", why)
		}
		out.refuse(request, wire.CodeConflict, "%v cannot leave: %s", n, why)
		return
	}
	out.ack(request)
	why := fmt.Sprintf("%v asks to leave%s", n, because(a.Reason))
	m.scale.lost(why)
	m.grantLeave(out, n, why)
	if m.hosts.leaves(n.Host) {
		// Nobody is started there any more unless the host is asked for.
		m.sites.withdraw(n.Host)
	}
}

// grantLeave marks a worker as leaving, and its host as being removed if no worker stays there.
func (m *membership) grantLeave(out *output, n *node, why string) {
	if n.Counts() {
		n.State = wire.MemberLeaving
		m.roster.mark(n)
		m.change.oneFewerMustCount()
		m.change.begin(out, why)
	} else {
		m.removeJoining(out, n)
	}
	if p := m.fleet.of(n.process); p != nil {
		m.fleet.aim(p, control.GoalLeave, 0)
	}
	if slices.ContainsFunc(m.roster.on(n.Host), func(x *node) bool { return x.State != wire.MemberLeaving }) {
		out.event(n.event(control.Leaving, why))
		if n.life == removed {
			m.noteLeft(out, n)
		}
	} else {
		m.hosts.set(out, n.Host, control.RemovalQueued, "")
		m.sites.list(n.Host, 0)
		out.event(control.Event{Action: control.RemovalQueued, Host: n.Host, Reason: why})
		m.hosts.emptied(out, n.Host, &m.roster)
	}
	m.changed(out)
	m.admitReady(out)
	m.tryCommit(out)
}

// removeJoining removes a worker that does not count yet.
func (m *membership) removeJoining(out *output, n *node) {
	m.roster.setLife(n, removed)
	m.changeWaits.removed(out, n)
}

// noteLeft updates the host when a worker that was asked to leave has left.
func (m *membership) noteLeft(out *output, n *node) {
	if m.hosts.status(n.Host) != "" {
		m.cameOrWent = out.now
	}
	m.hosts.left(out, n, &m.roster)
}

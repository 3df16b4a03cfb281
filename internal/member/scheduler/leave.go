package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// depart handles a Leave.
func (m *membership) depart(out *output, n *node, l *wire.Leave) {
	was := n.state
	m.roster.setState(n, left)
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
		n.state = left
	case n.Role == wire.RoleServer:
		m.serverLeft(out, n, l)
	case l.OK:
		m.workerLeft(out, n)
	case m.set.Elastic.OnWorkerLoss != cluster.LossFail:
		m.loseWorker(out, n, control.Cause{Kind: control.CauseError, Text: l.Reason})
		n.state = left
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
		m.finish(out)
		return
	}
	out.note("%v left", n).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
	if n.State == wire.MemberLeaving {
		m.noteLeft(out, n)
	}
	m.change.wantFewer()
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
	if why := m.needs(n); why != "" {
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
}

// needs says why the job cannot go on without a worker; empty: it can.
func (m *membership) needs(n *node) string {
	if !n.Counts() {
		return ""
	}
	stay, ready := m.roster.staying()-1, m.roster.ready()
	if most := m.set.mostWorkers(); most > 0 {
		// Its own place becomes free.
		ready = min(ready, most-stay)
	}
	switch least := m.set.Elastic.MinWorkers; {
	case !m.set.Elastic.Enabled:
		return "the job's members cannot change: it was not started with --elastic-training-enabled"
	case m.job.stop != notStopping:
		return "the whole job is being stopped"
	case stay == 0:
		// Those who are ready know nothing of how far training is.
		return "no other member would be left"
	case stay+ready < least:
		return fmt.Sprintf("it would leave %d, want at least %s", stay+ready, plural.Of(least, "worker"))
	}
	return ""
}

// grantLeave marks a worker as leaving, and its host as being removed if no worker stays there.
func (m *membership) grantLeave(out *output, n *node, why string) {
	if n.Counts() {
		n.State = wire.MemberLeaving
		m.roster.mark(n)
		m.change.wantFewer()
		m.change.begin(out, why)
	} else {
		m.removeJoining(out, n)
	}
	if slices.ContainsFunc(m.roster.on(n.Host), func(x *node) bool { return x.State != wire.MemberLeaving }) {
		out.event(n.event(control.Leaving, why))
		if n.state == removed {
			m.noteLeft(out, n)
		}
	} else {
		m.hosts.set(out, n.Host, control.RemovalQueued, "")
		out.event(control.Event{Action: control.RemovalQueued, Host: n.Host, Reason: why})
		m.hostLeft(out, n.Host)
	}
	m.changed(out)
	m.admitReady(out)
	m.tryCommit(out)
}

// removeJoining removes a worker that does not count yet.
func (m *membership) removeJoining(out *output, n *node) {
	m.roster.setState(n, removed)
	m.changeWaits.removed(out, n)
}

// hostLeft notes that a worker has left its host as asked; with the last one the host is removed.
func (m *membership) hostLeft(out *output, name string) {
	if !m.roster.hasWorkers(name) {
		m.hosts.emptied(out, name)
	}
}

// noteLeft updates host and events when a worker that was asked to leave has left.
func (m *membership) noteLeft(out *output, n *node) {
	switch status := m.hosts.status(n.Host); status {
	case "":
	case control.RemovalQueued:
		m.hostLeft(out, n.Host)
	default:
		out.event(n.event(control.Left, ""))
		if status == control.Added && !m.roster.hasWorkers(n.Host) {
			// Those who were to stay were lost meanwhile.
			m.hosts.set(out, n.Host, control.HostFailed, "its workers were lost or have left")
		}
	}
}

package scheduler

import (
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// lose declares a node lost. While the job is forming another process may take its place.
func (m *membership) lose(out *output, n *node, cause control.Cause) {
	why := cause.String()
	n.why = why
	switch {
	case m.job.phase == wire.PhaseForming:
		m.roster.setLife(n, lost)
		out.presence(n, false)
		out.note("node %d (%s on %s) lost while the job was forming: %s", n.Node, roleName(n.Role), n.Host, why).Event = n.loggedLoss(why, m.job.generation)
	case n.Role == wire.RoleServer:
		m.loseServer(out, n, cause)
	case n.Counts():
		m.loseWorker(out, n, cause)
	default:
		m.drop(out, n, why)
	}
}

// loseWorker goes on without a worker that counted, or fails the job, as the policy says. The other
// workers wait in rounds that need the lost one, so the generation goes up at once; ranks and
// division follow with the change, when all workers are at the same step.
func (m *membership) loseWorker(out *output, n *node, cause control.Cause) {
	n.why = cause.String()
	m.roster.setLife(n, lost)
	loss := n.loss(cause)
	text := loss.String()
	if f := m.policy.fatal(n, loss, &m.roster, &m.job); f != nil {
		m.fail(out, *f)
		return
	}
	m.change.workerLost(out, n, &loss, m.policy.mustCountWithout(n, &m.roster, &m.job))
	m.job.regenerate()
	m.scale.lost(text)
	m.noteRanks(out)
	out.loss(n, text)
	m.cameOrWent = out.now
	// Where the judge has set the fate of the process already (workerEnded), nothing is left to do.
	if p := m.fleet.of(n.process); p != nil && p.Judged == 0 && n.State != wire.MemberLeaving {
		m.judge(out).lostFirst(p, cause)
	}
	m.hosts.lost(out, n, text, &m.roster)
	m.changed(out)
	m.barriers.check(out, m.roster.workers())
	m.signals.senderLost(out, n, text)
	m.tryCommit(out)
}

// loseServer handles the loss of a server of a running job. Without backups its shards are lost,
// and the job fails.
func (m *membership) loseServer(out *output, n *node, cause control.Cause) {
	m.roster.setLife(n, lost)
	if m.places.plan.backups {
		m.replaceServer(out, n, cause)
		return
	}
	m.fail(out, n.loss(cause))
}

// replaceServer goes on without a server: the backups of its shards become primaries.
func (m *membership) replaceServer(out *output, n *node, cause control.Cause) {
	loss := n.loss(cause)
	keys, err := m.places.lose(uint32(n.Rank))
	if err != nil {
		loss.Code, loss.Text = control.NoBackup, err.Error()
		m.fail(out, loss)
		return
	}
	text := loss.String()
	m.change.placedAnew(out.now)
	m.job.regenerate()
	out.note("%s: generation %d, placement %d: backups become primaries of %s", text, m.job.generation, m.places.number, plural.Of(keys, "key")).
		Event = joblog.Placed.With("placement", m.places.number, "keys", keys, "generation", m.job.generation)
	if n.life != removed {
		out.loss(n, text)
		if p := m.fleet.of(n.process); p != nil { // should it live, it has nothing left to do in order
			m.fleet.aim(p, control.GoalKill, lostEndTime)
		}
	}
	m.places.sayBare(out)
	m.changed(out)
	m.barriers.check(out, m.roster.workers())
	m.tryCommit(out)
}

package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// addServer wants one more server. It gets the rank of a removed server, or a new one. It returns
// why that is not possible.
func (m *membership) addServer(out *output, host string) (rank uint32, refusal string) {
	switch {
	case m.job.phase == wire.PhaseForming:
		return 0, m.forming(out.now)
	case !m.job.running():
		return 0, m.job.over()
	case !m.places.plan.backups:
		return 0, "servers can be added only where shards have backups: start the job with --backups 1"
	}
	rank = m.servers.free(&m.roster, &m.places)
	if rank >= maxServers {
		return 0, fmt.Sprintf("the job has had %d servers, the most there may be", rank)
	}
	m.servers.expect(out, rank, host)
	if m.fleet.Adopted {
		m.startServer(out, rank, host)
	}
	return rank, ""
}

// serverFailed drops a server that was asked for.
func (m *membership) serverFailed(out *output, rank int, reason string) {
	if host, ok := m.servers.failed(out, rank, reason); ok {
		m.fleet.endServer(uint32(rank), control.FateRefused, "could not be added: "+reason)
		m.departing.serverNotAdded(out, m.departingEnv(out), uint32(rank), host, reason)
	}
}

// growTo adds vacant ranks of servers up to a number.
func (m *membership) growTo(ranks int) {
	if ranks > m.servers.ranks {
		m.servers.growTo(ranks)
		m.places.grow(ranks)
	}
}

// enterServer adds a server that registered while the job runs.
func (m *membership) enterServer(out *output, request uint64, r *wire.Register, rank uint32) {
	n := m.newNode(out, r)
	n.Rank = int32(rank)
	keys := m.places.enter(rank)
	m.change.placedAnew(out.now)
	out.note("node %d registered: server %d on %s joins, placement %d: it gets backups of %s", n.Node, rank, n.Host, m.places.number, plural.Of(keys, "key")).
		Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	m.leases.grant(out, request, n)
	if m.servers.came(rank) {
		m.servers.tell(out, control.ServerAdded, n.Host, rank, n, "")
	}
	m.places.sayBare(out)
	m.changed(out)
	m.moveShards(out)
}

// moveShards does the next step of moving shards, if there is one.
func (m *membership) moveShards(out *output) {
	if m.job.running() && m.places.even(out) {
		m.change.placedAnew(out.now)
		m.changed(out)
	}
}

// filled takes the report of a primary that backups have its shards.
func (m *membership) filled(out *output, request uint64, n *node, f *wire.Filled) {
	if m.places.filled(out, request, n, f, &m.roster) {
		m.moveShards(out)
	}
}

// removeServer removes a living server: the backups of its shards become primaries, and it ends
// without an error. It returns why that is not possible, and whether it may be a moment later.
func (m *membership) removeServer(out *output, rank int) (refusal string, again bool) {
	switch {
	case !m.job.running():
		return m.job.over(), false
	case !m.places.plan.backups:
		return "servers can be removed only where shards have backups: start the job with --backups 1", false
	case rank >= 0 && rank < maxServers && m.servers.comes(int32(rank)):
		m.servers.came(uint32(rank))
		m.servers.tell(out, control.ServerRemoved, "", uint32(rank), nil, "it was removed before it joined")
		m.fleet.endServer(uint32(rank), control.FateRemoved, "had to be stopped")
		return "", false
	case m.places.isVacant(rank):
		return fmt.Sprintf("there is no server %d", rank), false
	case m.places.plan.living() < 2:
		return fmt.Sprintf("server %d is the last one", rank), false
	}
	if name := m.places.plan.depends(uint32(rank)); name != "" {
		return fmt.Sprintf("server %d has the only complete copy of %s", rank, name), true
	}
	n := m.roster.server(uint32(rank))
	m.roster.setLife(n, removed)
	m.places.unsteady = true
	m.fleet.endServer(uint32(rank), control.FateRemoved, "had to be stopped")
	m.replaceServer(out, n, control.Cause{Kind: control.CauseRemoved})
	m.servers.tell(out, control.ServerRemoved, n.Host, uint32(rank), n, "")
	return "", false
}

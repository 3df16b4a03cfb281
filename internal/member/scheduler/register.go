package scheduler

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// register takes the registration of a process: of one that is known already, of a worker that
// joins, of a server that takes a vacant rank, or of a node of a job that is forming.
func (m *membership) register(out *output, request uint64, r *wire.Register) {
	id := r.Node
	if known := m.roster.registered(r); id == 0 && known != nil {
		id = known.Node
	}
	if id != 0 {
		if n := m.find(out, request, id); n != nil {
			m.registerAgain(out, request, n, r)
		}
		return
	}
	who := fmt.Sprintf("%s on %s", roleName(r.Role), r.Host)
	if r.Rank >= 0 {
		who = fmt.Sprintf("%s %d on %s", roleName(r.Role), r.Rank, r.Host)
	}
	if m.refused(out, request, r, who) {
		return
	}
	if m.joins(r) {
		m.join(out, request, r)
		return
	}
	m.makeRoom(out, r)
	here := m.roster.living(r.Role)
	for _, n := range here {
		if n.wantedRank >= 0 && n.wantedRank == r.Rank {
			out.refuse(request, wire.CodeConflict, "%s: rank %d is taken by node %d on %s", who, r.Rank, n.Node, n.Host)
			return
		}
	}
	if r.Role == wire.RoleServer && m.job.running() && m.places.plan.backups {
		if m.servers.comes(r.Rank) {
			m.growTo(int(r.Rank) + 1)
		}
		if rank, ok := m.places.vacant(r.Rank); ok {
			m.enterServer(out, request, r, rank)
			return
		}
	}
	if count := m.ranks(r.Role); m.job.running() || len(here) == count {
		out.refuse(request, wire.CodeConflict, "%s: all %d %ss have registered%s", who, count, roleName(r.Role), m.insteadOf(r))
		return
	}
	n := m.newNode(out, r)
	out.note("node %d registered: %s", n.Node, who).Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	out.presence(n, true)
	m.leases.grant(out, request, n)
	if len(m.roster.living(wire.RoleWorker)) == m.set.Workers && len(m.roster.living(wire.RoleServer)) == m.set.Servers {
		m.form(out)
	}
}

// joins reports whether the registration is that of a worker that joins the running job.
func (m *membership) joins(r *wire.Register) bool {
	return r.Joining && r.Role == wire.RoleWorker && m.job.running()
}

// insteadOf says what to do in place of a registration for which there is no room.
func (m *membership) insteadOf(r *wire.Register) string {
	if r.Role != wire.RoleWorker || !m.job.running() || !m.set.joins() {
		return ""
	}
	return "; a process that is started again, such as a notebook's kernel, cannot take its old place: launch ctl add starts a new worker"
}

// ranks is how many ranks a role has.
func (m *membership) ranks(role uint8) int {
	if role == wire.RoleServer {
		return m.servers.ranks
	}
	return m.set.Workers
}

// refused refuses a registration that cannot be of this job.
func (m *membership) refused(out *output, request uint64, r *wire.Register, who string) bool {
	count := m.ranks(r.Role)
	switch {
	case !m.job.open():
		out.refuse(request, wire.CodeUnavailable, "the job has ended: %s", cmp.Or(m.job.reason, "all workers left"))
	case r.Role != wire.RoleServer && r.Role != wire.RoleWorker:
		out.refuse(request, wire.CodeMalformed, "role %d cannot register", r.Role)
	case r.Job != m.set.Job:
		out.refuse(request, wire.CodeConflict, "%s belongs to job %q, this is job %q", who, r.Job, m.set.Job)
	case m.joins(r):
		return false
	case int(r.Workers) != m.set.Workers || int(r.Servers) != m.set.Servers:
		out.refuse(request, wire.CodeConflict, "%s was started for %d workers and %d servers, the scheduler for %d and %d",
			who, r.Workers, r.Servers, m.set.Workers, m.set.Servers)
	case r.Role == wire.RoleServer && r.Addr == "":
		out.refuse(request, wire.CodeMalformed, "%s gave no address", who)
	case r.Rank < -1 || int(r.Rank) >= count && !(r.Role == wire.RoleServer && m.servers.comes(r.Rank)):
		out.refuse(request, wire.CodeConflict, "%s: ranks go from 0 to %d", who, count-1)
	default:
		return false
	}
	return true
}

// makeRoom drops a node of a forming job whose connection is gone when another process registers in
// its place.
func (m *membership) makeRoom(out *output, r *wire.Register) {
	if m.job.phase != wire.PhaseForming {
		return
	}
	here := m.roster.living(r.Role)
	for _, n := range here {
		if !n.lease.cut.IsZero() && n.wantedRank == r.Rank && (r.Rank >= 0 || len(here) == m.ranks(r.Role) && n.Host == r.Host) {
			m.lose(out, n, control.Cause{Kind: control.CauseOther})
			return
		}
	}
}

func (m *membership) newNode(out *output, r *wire.Register) *node {
	n := m.roster.add(r)
	m.leases.begin(n, out.now)
	m.forgetGone(out)
	return n
}

// registerAgain handles the registration of a known node: after a lost answer, or from a new
// address.
func (m *membership) registerAgain(out *output, request uint64, n *node, r *wire.Register) {
	if r.Role != n.Role {
		out.refuse(request, wire.CodeConflict, "node %d is a %s, not a %s", n.Node, roleName(n.Role), roleName(r.Role))
		return
	}
	if n.Addr != r.Addr || n.Host != r.Host || n.PID != r.PID {
		n.Addr, n.Host, n.PID = r.Addr, r.Host, r.PID
		m.roster.mark(n)
		m.changed(out)
	}
	m.leases.grant(out, request, n)
}

// form begins the run: the living nodes get their ranks in the first generation.
func (m *membership) form(out *output) {
	m.roster.assign(m.set)
	m.job.formed()
	workers := m.roster.living(wire.RoleWorker)
	m.change.begins(workers)
	for _, n := range workers {
		m.hosts.set(out, n.Host, control.Added, "")
	}
	for _, n := range m.roster.nodes {
		m.roster.mark(n)
	}
	m.noteRanks(out)
	m.changed(out)
}

// noteRanks notes who has which rank in a new generation.
func (m *membership) noteRanks(out *output) {
	workers, servers := m.roster.workers(), m.roster.counting(wire.RoleServer)
	out.note("generation %d: servers:%s", m.job.generation, ranks(servers))
	out.note("generation %d: workers:%s", m.job.generation, ranks(workers)).
		Event = joblog.Generation.With("generation", m.job.generation, "workers", len(workers), "servers", len(servers))
}

func ranks(nodes []*node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, ", %d is node %d on %s", n.Rank, n.Node, n.Host)
	}
	return strings.TrimPrefix(b.String(), ",")
}

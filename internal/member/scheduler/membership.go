package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is the sum of the machines that say who is in the job, and where its shards are.
// Each machine owns its state; the membership's own methods are the procedures that need several of
// them, such as what follows when a worker is lost, written as a list of steps.
//
// Every procedure leaves these true: what a wire.Membership says has changed only together with its
// revision; nodes that count have a rank, and the pending change is committed as soon as nothing is
// missing.
type membership struct {
	set    *Settings
	policy policy
	job    jobState
	roster roster
	leases leases
	change changer

	hosts hostTable
	// The wanted state: where processes may run, and which should.
	sites     sites
	fleet     fleet
	departing departingHosts
	scale     scaler
	wish      wish
	// cameOrWent is when a worker came or went last.
	cameOrWent time.Time
	// reconciled is the revision of the fleet at which reconcile looked last.
	reconciled uint64
	servers    serverTable
	places     shardPlacement

	watches     watches
	barriers    barriers
	signals     signals
	changeWaits changeWaits
	launchers   wantedWatches
	scaleWaits  scaleWaits
}

func newMembership(set *Settings, now time.Time) membership {
	return membership{
		set: set, policy: policy{set}, job: newJobState(set, now), leases: leases{set: set}, change: newChanger(set),
		hosts: newHostTable(set.Elastic.JoinTimeout), scale: scaler{set: set}, servers: newServerTable(set), places: newShardPlacement(set),
		watches: newWatches(), barriers: newBarriers(), signals: newSignals(),
	}
}

// find finds a living node, or one that a change has removed, and renews its lease. For any other
// it refuses the request and returns nil.
func (m *membership) find(out *output, request, id uint64) *node {
	if id == 0 || id > m.roster.last() {
		out.refuse(request, wire.CodeUnknownNode, "node %d never registered", id)
		return nil
	}
	n := m.roster.node(id)
	if n == nil {
		out.refuse(request, wire.CodeUnknownNode, "node %d left the job, or was lost, long ago", id)
		return nil
	}
	switch n.life {
	case lost:
		how := "declared lost"
		if !n.Counts() {
			how = "dropped"
		}
		out.refuse(request, wire.CodeUnknownNode, "node %d (%v) was %s%s", id, n, how, because(n.why))
		return nil
	case left:
		out.refuse(request, wire.CodeUnknownNode, "node %d (%v) has left", id, n)
		return nil
	}
	m.leases.renew(out, n, &m.roster)
	return n
}

// current is find for requests that belong to a running job and its generation.
func (m *membership) current(out *output, request, id, generation uint64) *node {
	n := m.find(out, request, id)
	if n == nil {
		return nil
	}
	switch {
	case m.job.phase == wire.PhaseFailed:
		out.refuse(request, wire.CodeUnavailable, "the job failed: %s", m.job.reason)
	case m.job.phase == wire.PhaseFinished:
		out.refuse(request, wire.CodeUnavailable, "the job has finished")
	case m.job.phase == wire.PhaseForming:
		out.refuse(request, wire.CodeUnavailable, "%s", m.forming(out.now))
	case n.life == removed:
		out.refuse(request, wire.CodeRemoved, "%v was removed from the job", n)
	case generation != m.job.generation:
		out.refuse(request, wire.CodeStaleGeneration, "yours %d, ours %d", generation, m.job.generation)
	default:
		return n
	}
	return nil
}

// missing names the nodes that the job waits for while it is forming.
func (m *membership) missing(now time.Time) []string {
	return m.roster.missing(m.set, now.Sub(m.job.start))
}

// forming says whom a forming job waits for.
func (m *membership) forming(now time.Time) string {
	return "the job is forming: waiting for " + strings.Join(m.missing(now), ", ")
}

// changed makes a new revision and answers the watches.
func (m *membership) changed(out *output) {
	m.job.revise()
	m.watches.wake(out, func() *wire.Membership { return m.message(out.now) })
}

// message is the membership as the nodes are told of it.
func (m *membership) message(now time.Time) *wire.Membership {
	x := &wire.Membership{
		Generation: m.job.generation, Revision: m.job.revision, Phase: m.job.phase,
		Workers: uint32(m.change.workers()), Servers: uint32(m.servers.ranks), Reason: m.job.reason,
		Change: m.change.pending.number, Placement: m.places.number, Backups: uint32(m.set.Elastic.Backups), Division: m.change.parts.division,
		Stopping: m.job.stop == stoppingWithCheckpoint,
	}
	if m.change.pending.asked {
		x.LostToCount = m.change.lostWorkers()
	}
	if m.job.phase == wire.PhaseForming {
		x.Waiting = m.missing(now)
	}
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range m.roster.living(role) {
			x.Nodes = append(x.Nodes, n.Member)
		}
	}
	return x
}

// fail ends the job, which has failed.
func (m *membership) fail(out *output, f control.Failure) { m.end(out, &f) }

// end ends the job and with it every wait. f says why it failed; nil: it is done.
func (m *membership) end(out *output, f *control.Failure) {
	m.job.finish(out, f)
	m.changed(out)
	m.barriers.end(out)
	m.signals.end(out)
	m.changeWaits.end(out)
	out.events.tell(out)
}

// pass acts on the deadlines of the members, on leases up to read: requests that came later have
// not been seen.
func (m *membership) pass(out *output, read time.Time) {
	if by := m.job.next(true); !by.IsZero() && !out.now.Before(by) {
		m.fail(out, control.Failure{Code: control.StartTimeout, Rank: -1, WaitedNS: int64(m.set.StartTimeout), Waiting: m.missing(out.now)})
	}
	for _, n := range m.roster.nodes {
		if m.job.open() && !read.Before(n.lease.deadline) {
			m.leaseExpired(out, n)
		}
	}
	for _, n := range m.roster.nodes {
		if m.job.running() && m.policy.mayBeDropped(n, &m.change) && !out.now.Before(n.joinBy) {
			m.drop(out, n, m.policy.tooSlow(n, &m.roster))
		}
	}
	if m.job.running() {
		for _, name := range m.hosts.late(out.now) {
			m.failHost(out, name, fmt.Sprintf("no worker joined from it within %v", m.set.Elastic.JoinTimeout))
		}
		for _, rank := range m.servers.late(out.now) {
			m.serverFailed(out, int(rank), fmt.Sprintf("it has not come within %v", m.set.Elastic.JoinTimeout))
		}
		if f := m.change.late(&m.roster, out.now); f != nil {
			m.fail(out, *f)
		}
	}
}

// leaseExpired acts on a lease that has run out.
func (m *membership) leaseExpired(out *output, n *node) {
	switch n.life {
	case living:
		if cause, isLost := m.leases.expired(out, n, &m.roster); isLost {
			m.lose(out, n, cause)
		}
	case removed:
		out.note("removed node %d on %s disconnected without acknowledging", n.Node, n.Host).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
		m.roster.setLife(n, left)
	}
}

// renew renews all leases and deadlines, after the scheduler was paused.
func (m *membership) renew(now time.Time) {
	m.leases.renewAll(&m.roster, now)
	for _, n := range m.roster.nodes {
		if !n.joinBy.IsZero() {
			n.joinBy = now.Add(m.set.Elastic.JoinTimeout)
		}
	}
	m.hosts.renew(now)
	m.servers.renew(now)
	m.change.renew(now)
}

// next is the first deadline of a member.
func (m *membership) next(open bool) (t time.Time) {
	if !open {
		return t
	}
	for _, n := range m.roster.nodes {
		if m.policy.mayBeDropped(n, &m.change) {
			t = sooner(t, n.joinBy)
		}
	}
	return sooner(t, m.leases.next(&m.roster))
}

// forgetGone forgets the nodes that have been gone for longest, but for those that are needed: of
// the division, of loss reports, and the last server of each rank.
func (m *membership) forgetGone(out *output) {
	m.roster.forgetGone(out, func() map[uint64]bool {
		needed := m.change.needs()
		for rank := range m.servers.ranks {
			if n := m.roster.newestServer(uint32(rank)); n != nil {
				needed[n.Node] = true
			}
		}
		return needed
	})
}

package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A commit is the end of a pending change of the membership (change.go). Records are made durable
// elsewhere (journalwriter.go).

// arrive takes a worker's Arrive: it is at the boundary of the pending change.
func (m *membership) arrive(out *output, request uint64, n *node, a *wire.Arrive) {
	if m.change.arrive(out, request, n, a) {
		m.changeWaits.waits.add(newWait(out.now, request, n.Node, fmt.Sprintf("change %d", a.Change), a.WaitMillis))
		m.tryCommit(out)
	}
}

// lostExamples takes what a server has counted of a lost worker.
func (m *membership) lostExamples(out *output, request uint64, n *node, x *wire.LostExamples) {
	if n.Role != wire.RoleServer {
		out.refuse(request, wire.CodeUnsupported, "counted: %v is not a server", n)
		return
	}
	m.change.takeReport(n, x, m.places.number, &m.roster)
	out.ack(request)
	m.tryCommit(out)
}

// tryCommit takes the next step of the pending change: it asks the servers for their reports once
// all workers have arrived, and commits once nothing is missing.
func (m *membership) tryCommit(out *output) {
	if m.change.ask(out, &m.roster) {
		m.changed(out)
	}
	if m.change.complete(out, &m.roster) {
		m.commit(out)
	}
}

// commit makes the pending change: those who leave are removed, those who are ready count, ranks
// are dense again, and what is left of the epoch is divided.
func (m *membership) commit(out *output) {
	enter := m.policy.admitted(&m.roster)
	used, failure := m.change.divide(out, &m.roster)
	if failure != nil {
		m.fail(out, *failure)
		return
	}
	gone, stay := m.roster.leavers()
	for _, n := range gone {
		m.roster.setLife(n, removed)
	}
	for _, n := range enter {
		n.State, n.joinBy = wire.MemberCounts, time.Time{}
	}
	stay = append(stay, enter...)
	moved := m.roster.rank(stay)
	m.job.regenerate()
	made := m.change.commit(stay, used)
	took, d := out.now.Sub(made.since), m.change.parts.division
	out.note("change %d committed after %s: generation %d has %s from step %d, epoch %d, on", made.number, control.Seconds(took), m.job.generation, plural.Of(len(stay), "worker"), d.Steps, d.Epoch).
		Event = joblog.ChangeMade.With("change", made.number, "took", took, "generation", m.job.generation, "workers", len(stay), "steps", d.Steps, "epoch", d.Epoch)
	m.noteRanks(out)
	m.tellCommitted(out, gone, enter, moved)
	m.cameOrWent = out.now
	m.fleetCommitted(gone, enter)
	m.scale.check(out, m.roster.workers())
	m.changed(out)
	m.changeWaits.committed(out, &m.roster)
	m.barriers.check(out, m.roster.workers())
	m.admitReady(out)
}

// fleetCommitted brings the fleet up to a change that was committed.
func (m *membership) fleetCommitted(gone, enter []*node) {
	for _, n := range gone {
		if p := m.fleet.of(n.process); p != nil {
			m.fleet.endAs(p, control.GoalEnd, leaveTime, control.FateRemoved, "had to be stopped", "")
		}
	}
	m.fleet.takeRanks(&m.roster, m.job.running())
	if m.scale.newest.Number > 0 {
		for _, n := range enter {
			m.sites.listMembers(&m.fleet, n.Host)
		}
	}
}

// tellCommitted tells the events of a change that was committed.
func (m *membership) tellCommitted(out *output, gone, enter []*node, moved bool) {
	if moved {
		out.event(control.Event{Action: control.Ranks})
	}
	for _, n := range gone {
		m.noteLeft(out, n)
	}
	for _, n := range enter {
		m.hosts.entered(out, n.Host)
		out.event(n.event(control.Added, ""))
	}
}

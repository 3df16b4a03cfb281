package scheduler

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// cannotChange says why workers cannot come and go as asked; empty: they can.
func (m *membership) cannotChange(out *output) string {
	switch {
	case !m.set.Elastic.Enabled:
		return "the job's hosts cannot change: it was not started with --elastic-training-enabled"
	case !m.job.open():
		return m.job.over()
	case m.job.phase == wire.PhaseForming:
		return m.forming(out.now)
	}
	return ""
}

// changeHost does what a request asks of a host, or returns why that is not possible.
func (m *membership) changeHost(out *output, r control.Request) string {
	if why := m.cannotChange(out); why != "" {
		return why
	}
	if m.job.stop != notStopping {
		return "the whole job is being stopped"
	}
	refusal := ""
	if r.Op == control.OpAdd {
		refusal = m.addHost(out, r)
	} else if refusal = m.removeHost(out, r.Host); refusal != "" {
		m.sites.keeps(r.Host)
	}
	if refusal == "" {
		m.scale.end()
	}
	return refusal
}

// addHost wants workers on a host. It returns why that is not possible.
func (m *membership) addHost(out *output, r control.Request) string {
	name, slots := r.Host, r.Slots
	if m.departing.has(name) {
		return fmt.Sprintf("host %s cannot be added: it is being taken away", name)
	}
	if why := m.hosts.cannotAdd(name); why != "" {
		return why
	}
	coming := m.roster.joining() + m.hosts.awaited(m.roster.hasWorkers)
	if most := m.set.mostWorkers(); most > 0 && m.roster.staying()+coming >= most {
		return fmt.Sprintf("host %s cannot be added: the job has %s and %d are coming, want at most %d in all", name, plural.Of(m.roster.staying(), "worker"), coming, most)
	}
	if n := m.roster.size(); n+max(slots, 1) > cluster.MaxNodes {
		return fmt.Sprintf("host %s cannot be added with slots=%d: the job has %d workers and servers, want at most %d in all", name, max(slots, 1), n, cluster.MaxNodes)
	}
	m.hosts.expect(out, name)
	out.event(control.Event{Action: control.AddQueued, Host: name, Slots: slots, GPUs: r.GPUs, CPUs: r.CPUs})
	if _, err := m.sites.enrol(name, slots, r.GPUs, r.CPUs); err != nil {
		m.failHost(out, name, err.Error())
		return ""
	}
	m.sites.list(name, max(slots, 1))
	m.fleet.dropDelayed(name)
	if m.fleet.Adopted {
		m.sites.start(&m.fleet, name, max(slots, 1), true)
	}
	return ""
}

// removeHost asks the workers on a host to leave. It returns why that is not possible.
func (m *membership) removeHost(out *output, name string) string {
	if why := m.hosts.cannotRemove(name); why != "" {
		return why
	}
	counts := slices.ContainsFunc(m.roster.on(name), (*node).takesPart)
	stay := m.roster.count(func(n *node) bool { return n.worker() && n.stays() && n.Host != name })
	if counts && stay < m.set.Elastic.MinWorkers {
		return fmt.Sprintf("host %s cannot be removed: it would leave %d, want at least %s", name, stay, plural.Of(m.set.Elastic.MinWorkers, "worker"))
	}
	m.sites.withdraw(name)
	m.vacate(out, name)
	m.hosts.dismiss(out, name)
	return ""
}

// vacate asks all workers on a host to leave, and wants no others there.
func (m *membership) vacate(out *output, name string) {
	m.hosts.tell(out, name, control.RemovalQueued, "")
	m.sites.list(name, 0)
	m.fleet.dropDelayed(name)
	for _, p := range m.fleet.workersOn(name) {
		if p.Joined {
			m.fleet.aim(p, control.GoalLeave, 0)
		} else {
			m.fleet.endAs(p, control.GoalEnd, 0, control.FateRemoved, "before it had joined", "")
		}
	}
	count := 0
	for _, n := range m.roster.on(name) {
		if !n.Counts() {
			m.removeJoining(out, n)
			continue
		}
		count++
		n.State = wire.MemberLeaving
		m.roster.mark(n)
		m.change.oneFewerMustCount()
	}
	if count > 0 {
		m.change.begin(out, fmt.Sprintf("host %s is to be removed", name))
	}
	m.hosts.emptied(out, name, &m.roster)
	m.changed(out)
	m.tryCommit(out)
}

// hostFailed gives a host up on which no worker can be started, unless others of it are in the job.
func (m *membership) hostFailed(out *output, name, why string) {
	if ignored := m.hosts.cannotFail(name); ignored != "" {
		out.warn("host %s: %s (%s)", name, why, ignored)
		m.startsMissing(out, name, why)
		return
	}
	m.failHost(out, name, why)
	for _, n := range m.roster.on(name) {
		if !n.Counts() {
			m.drop(out, n, why)
		}
	}
}

// failHost notes that a host could not be added. Its workers that have not joined end.
func (m *membership) failHost(out *output, name, why string) {
	m.hosts.tell(out, name, control.HostFailed, why)
	for _, p := range m.fleet.workersOn(name) {
		if !p.Joined {
			m.fleet.endAs(p, control.GoalEnd, 0, control.FateRefused, "could not join: "+why, why)
		}
	}
	m.startsMissing(out, name, why)
}

// stopAll handles the launcher's notice that it stops the whole job: from now on no single worker
// may leave, so that all stop together. A change that waits for another worker waits no longer: the
// workers agree to stop after the step behind it. It returns why the notice is ignored.
func (m *membership) stopAll(out *output) string {
	if !m.job.open() {
		return m.job.over()
	}
	m.job.stopAll(out)
	m.change.anyNumberMayCount()
	m.tryCommit(out)
	return ""
}

// stopWithCheckpoint makes all workers write a checkpoint after a step that they agree on, and
// leave. The membership tells them.
func (m *membership) stopWithCheckpoint(out *output, reason string) (refusal string, again bool) {
	switch {
	case !m.job.open():
		return m.job.over(), false
	case m.job.phase == wire.PhaseForming:
		return m.forming(out.now), true
	}
	m.beginStop(out, reason)
	return "", false
}

// beginStop is stopWithCheckpoint also while the job is forming. Then the workers are told when it is
// complete: they begin, or resume, and write a checkpoint after the first step.
func (m *membership) beginStop(out *output, reason string) {
	if !m.job.stopWithCheckpoint(out, reason) {
		return
	}
	for _, p := range slices.Clone(m.fleet.list) {
		if p.isWorker() && p.stays() && !p.Early && p.unstarted() {
			m.fleet.drop(p) // it could not join any more
		}
	}
	m.change.anyNumberMayCount()
	m.changed(out)
	m.tryCommit(out)
}

package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
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
	if r.Op == control.OpFailed {
		return m.hostFailed(out, r.Host, r.Reason)
	}
	if m.job.stop != notStopping {
		return "the whole job is being stopped"
	}
	refusal := ""
	if r.Op == control.OpAdd {
		refusal = m.addHost(out, r)
	} else {
		refusal = m.removeHost(out, r.Host)
	}
	if refusal == "" && r.Scale == 0 {
		m.scale.end(out, fmt.Sprintf("a newer request replaces it: %s host %s", r.Op, r.Host))
	}
	return refusal
}

// addHost asks for workers on a host, which the launcher starts when it gets the event. It returns
// why that is not possible.
func (m *membership) addHost(out *output, r control.Request) string {
	name, slots := r.Host, r.Slots
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
	return ""
}

// removeHost asks the workers on a host to leave. It returns why that is not possible.
func (m *membership) removeHost(out *output, name string) string {
	if why := m.hosts.cannotRemove(name); why != "" {
		return why
	}
	here, count := m.roster.on(name), 0
	for _, n := range here {
		if n.Counts() {
			count++
		}
	}
	stay := m.roster.count(func(n *node) bool { return n.worker() && n.stays() && n.Host != name })
	if count > 0 && stay < m.set.Elastic.MinWorkers {
		return fmt.Sprintf("host %s cannot be removed: it would leave %d, want at least %s", name, stay, plural.Of(m.set.Elastic.MinWorkers, "worker"))
	}
	m.hosts.tell(out, name, control.RemovalQueued, "")
	for _, n := range here {
		if !n.Counts() {
			m.removeJoining(out, n)
			continue
		}
		n.State = wire.MemberLeaving
		m.roster.mark(n)
		m.change.wantFewer()
	}
	if count > 0 {
		m.change.begin(out, fmt.Sprintf("host %s is to be removed", name))
	}
	m.hosts.emptied(out, name, &m.roster)
	m.changed(out)
	m.tryCommit(out)
	return ""
}

// hostFailed handles the launcher's report that it could not start a worker on a host. It returns
// why that is ignored.
func (m *membership) hostFailed(out *output, name, why string) string {
	if ignored := m.hosts.cannotFail(name); ignored != "" {
		return ignored
	}
	m.hosts.tell(out, name, control.HostFailed, why)
	for _, n := range m.roster.on(name) {
		if !n.Counts() {
			m.drop(out, n, why)
		}
	}
	return ""
}

// askScale takes a request for a number of workers.
func (m *membership) askScale(out *output, request uint64, r control.Request) {
	why := m.cannotChange(out)
	if why == "" && m.job.stop != notStopping {
		why = "cannot scale to " + control.ScaleText(r.Wanted(), r.Placement) + ": the whole job is being stopped"
	}
	if why == "" {
		why = m.scale.cannot(r, len(m.roster.living(wire.RoleServer)))
	}
	if why != "" {
		out.report(request, &control.Done{Error: why})
		return
	}
	m.scale.ask(out, request, r, m.roster.staying())
}

// grow lets workers of a host join that the launcher is about to start. It returns why they may
// not, and whether they may a moment later.
func (m *membership) grow(out *output, name string, workers int) (refusal string, again bool) {
	if why := m.cannotChange(out); why != "" {
		return why, false
	}
	nodes := m.roster.size()
	switch status := m.hosts.status(name); {
	case nodes+workers > cluster.MaxNodes:
		return fmt.Sprintf("the job has %d workers and servers, want at most %d", nodes, cluster.MaxNodes), false
	case status == control.RemovalQueued:
		return fmt.Sprintf("host %s is being removed", name), true
	case status == "" || status == control.Removed || status == control.HostFailed:
		m.hosts.expect(out, name)
		out.note("host %s: workers will join from it", name).Event = joblog.HostChanged.With("action", control.AddQueued, "node_host", name)
	}
	return "", false
}

// release lets a worker leave that a scaling does not need. It returns why it may not, and whether
// it may a moment later.
func (m *membership) release(out *output, process uint32) (refusal string, again bool) {
	if why := m.cannotChange(out); why != "" {
		return why, false
	}
	n := m.roster.ofProcess(process)
	switch {
	case n == nil || n.Role != wire.RoleWorker:
		return fmt.Sprintf("no live worker has process number %d", process), false
	case n.State == wire.MemberLeaving:
		return "", false
	}
	if why := m.policy.needs(n, &m.roster, &m.job); why != "" {
		return fmt.Sprintf("%v cannot leave: %s", n, why), true
	}
	m.grantLeave(out, n, "the job scales to "+control.ScaleText(m.scale.taken.Workers, m.scale.taken.Placement))
	return "", false
}

// stopAll handles the launcher's notice that it stops the whole job: from now on no single worker
// may leave, so that all stop together. It returns why that is ignored.
func (m *membership) stopAll(out *output) string {
	if !m.job.open() {
		return m.job.over()
	}
	m.job.stopAll(out)
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
	if m.job.stopWithCheckpoint(out, reason) {
		m.change.wantAny()
		m.changed(out)
		m.tryCommit(out)
	}
	return "", false
}

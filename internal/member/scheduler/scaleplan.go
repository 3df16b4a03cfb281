package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/hostname"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// askScale takes a request for a number of workers.
func (m *membership) askScale(out *output, r control.Request) *control.Done {
	why := m.cannotChange(out)
	if why == "" && m.job.stop != notStopping {
		why = "cannot scale to " + control.ScaleText(r.Wanted(), r.Placement) + ": the whole job is being stopped"
	}
	if why == "" {
		why = m.scale.cannot(r, len(m.roster.living(wire.RoleServer)))
	}
	switch t := &m.scale.newest; {
	case why != "":
		return &control.Done{Error: why}
	case !m.fleet.heard():
		return &control.Done{Error: "launch has not reported yet which hosts the job has", Again: true}
	case t.Number > 0 && t.same(r) && m.scale.state(m.roster.staying()) != control.ScaleTooFew:
		return &control.Done{Scale: t.Number}
	}
	if refusal := m.beginScale(out, r.Wanted(), r.Placement); refusal != "" {
		out.note("scale refused: %s", refusal).Event = joblog.Scale.With("action", "refused", "reason", refusal)
		return &control.Done{Error: refusal}
	}
	return &control.Done{Scale: m.scale.newest.Number}
}

// A scalePlan is how a number of workers can be reached.
type scalePlan struct {
	scaling
	// cancelled are workers that are not started after all.
	cancelled []*wantedProcess
}

// beginScale plans for a number of workers, and begins to carry it out. It returns why that is not
// possible.
func (m *membership) beginScale(out *output, workers int, placement []control.WorkersOnHost) (refusal string) {
	s := scalePlan{scaling: scaling{Workers: workers}}
	if len(placement) > 0 {
		refusal = m.planPlacement(&s, placement)
	} else {
		refusal = m.planNumber(&s)
	}
	if refusal != "" {
		return refusal
	}
	m.wish = wish{}
	for _, p := range slices.Clone(m.fleet.list) { // those are among the ones that the plan starts
		if p.isWorker() && p.delayed() {
			m.fleet.drop(p)
		}
	}
	out.events.clearScale(out, m.scale.newest.Number)
	said := placement
	if len(s.Placement) > 0 {
		said = s.Placement
	}
	plan := m.planText(&s)
	s.Number = out.events.last + 1
	m.scale.newest, m.scale.dirty = s.scaling, true
	out.event(control.Event{Action: control.Scaling, Workers: workers, Placement: said, Reason: plan})
	for _, p := range s.cancelled {
		m.fleet.drop(p)
	}
	for _, p := range s.cancelled {
		m.leaveHost(out, p.Host)
	}
	m.scale.check(out, m.roster.workers())
	m.goOnScaling(out)
	return ""
}

// planText says what a scaling does, for people.
func (m *membership) planText(s *scalePlan) string {
	var parts []string
	for _, g := range s.Starts {
		parts = append(parts, fmt.Sprintf("%d more on %s", g.Workers, g.Host))
	}
	fewer := make(map[string]int)
	for _, p := range s.cancelled {
		fewer[p.Host]++
	}
	for _, host := range slices.Sorted(maps.Keys(fewer)) {
		parts = append(parts, fmt.Sprintf("%d of those about to start on %s are cancelled", fewer[host], host))
	}
	for _, number := range s.Releases {
		p := m.fleet.of(number)
		parts = append(parts, fmt.Sprintf("%s on %s leaves", p.name(), p.Host))
	}
	if len(parts) == 0 {
		return "all of them are running or starting"
	}
	return strings.Join(parts, ", ")
}

// workersOn is how many workers of a host stay, with those that are on their way. Those that would
// be started again after a while do not count: a number of workers is another reason to start them.
func (m *membership) workersOn(host string) int { return len(m.stayingOn(host)) }

func (m *membership) stayingOn(host string) []*wantedProcess {
	return slices.DeleteFunc(m.fleet.workers(func(h string) bool { return h == host }), (*wantedProcess).delayed)
}

// occupied are all hosts with workers that stay: those of the roster in its order.
func (m *membership) occupied() (list []string) {
	for _, p := range m.sites.all {
		if m.workersOn(p.Name) > 0 {
			list = append(list, p.Name)
		}
	}
	return list
}

// workersInAll is how many workers stay, with those that are on their way.
func (m *membership) workersInAll() (n int) {
	for _, host := range m.occupied() {
		n += m.workersOn(host)
	}
	return n
}

// planPlacement plans for workers on hosts that were named. It returns why that is not possible.
func (m *membership) planPlacement(s *scalePlan, placement []control.WorkersOnHost) (refusal string) {
	var named []string
	moves := false
	for _, x := range placement {
		h, err := hostname.Parse(x.Host)
		if err != nil {
			return err.Error()
		}
		host := h.String()
		p := m.sites.of(host)
		if p != nil {
			host = p.Name
		}
		have, known := m.workersOn(host), p != nil && p.Workers
		named = append(named, host)
		s.Placement = append(s.Placement, control.WorkersOnHost{Host: host, Workers: x.Workers})
		switch {
		case m.departing(host) && x.Workers > 0:
			return fmt.Sprintf("host %s is being taken away", host)
		case !known && (x.Workers > have || have == 0):
			return fmt.Sprintf("host %s is not one of the job's hosts: name one of its hosts file, or add it first with launch ctl add", host)
		case !known:
		case p.Slots > 0 && x.Workers > p.Slots:
			return fmt.Sprintf("host %s has no free slot: %d workers are wanted, and it has slots=%d", host, x.Workers, p.Slots)
		case x.Workers > have:
			s.Starts = append(s.Starts, starts{host, x.Workers - have})
		}
		moves = moves || x.Workers > have
		m.planReleases(s, []string{host}, have-x.Workers)
	}
	for _, host := range m.occupied() {
		if !slices.Contains(named, host) {
			m.planReleases(s, []string{host}, m.workersOn(host))
		}
	}
	if m.set.Elastic.MaxWorkers == 1 && moves && len(s.Releases) > 0 {
		return "a job of at most 1 worker (--max-workers) cannot move it to another host: the new one joins before the old one leaves"
	}
	return ""
}

// planNumber plans for a number of workers, on hosts with free slots. It returns why that is not
// possible.
func (m *membership) planNumber(s *scalePlan) (refusal string) {
	have := m.workersInAll()
	missing := s.Workers - have
	if missing <= 0 {
		m.planReleases(s, m.occupied(), -missing)
		return ""
	}
	more, placed := m.sites.room(missing, m.workersOn, s.Failed)
	if placed < missing {
		return fmt.Sprintf("no free slot for %d of %s: the hosts have %s", missing-placed, plural.Of(s.Workers, "worker"), m.sites.text(m.workersOn))
	}
	s.Starts = more
	return ""
}

// planReleases plans that so many workers of some hosts leave: those that are not started yet, then
// those that have not joined, then the highest ranks.
func (m *membership) planReleases(s *scalePlan, on []string, count int) {
	var all []*wantedProcess
	for _, host := range on {
		for _, p := range slices.Backward(m.stayingOn(host)) {
			begun := p.Seen != "" && p.Seen != control.StateWaiting || m.roster.ofProcess(p.Process) != nil
			if count > 0 && !begun {
				s.cancelled = append(s.cancelled, p)
				count--
				continue
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *wantedProcess) int {
		switch {
		case a.Joined != b.Joined && b.Joined:
			return -1
		case a.Joined != b.Joined:
			return 1
		}
		return cmp.Or(cmp.Compare(b.known(), a.known()), cmp.Compare(b.Process, a.Process))
	})
	for _, p := range all[:max(min(count, len(all)), 0)] {
		s.Releases = append(s.Releases, p.Process)
	}
}

// goOnScaling does what can be done now for the scaling.
func (m *membership) goOnScaling(out *output) {
	s := &m.scale.newest
	if s.Number == 0 || !m.job.running() || m.job.stop != notStopping || len(s.Starts)+len(s.Releases) == 0 {
		return
	}
	for _, g := range slices.Clone(s.Starts) {
		if !m.vacating(g.Host) {
			s.Starts = slices.DeleteFunc(s.Starts, func(o starts) bool { return o == g })
			m.scale.dirty = true
			m.grow(out, g)
		}
	}
	all := m.workersInAll()
	coming := len(s.Starts) > 0 || slices.ContainsFunc(m.fleet.list, func(p *wantedProcess) bool {
		return p.isWorker() && p.stays() && !p.Joined && !slices.Contains(s.Releases, p.Process)
	})
	for _, g := range s.Starts {
		all += g.Workers
	}
	for _, number := range slices.Clone(s.Releases) {
		p := m.fleet.of(number)
		done := p == nil || !p.stays()
		if !done && (!p.Joined || !coming || m.set.Elastic.MaxWorkers > 0 && all > m.set.Elastic.MaxWorkers) {
			all--
			done = m.release(out, p)
		}
		if done {
			s.Releases = slices.DeleteFunc(s.Releases, func(n uint32) bool { return n == number })
			m.scale.dirty = true
		}
	}
}

// vacating reports whether workers are leaving a host: what is started there before they have left
// would be taken for one of them.
func (m *membership) vacating(host string) bool {
	return m.hosts.status(host) == control.RemovalQueued || slices.ContainsFunc(m.roster.nodes, func(n *node) bool {
		return n.Role == wire.RoleWorker && n.Host == host && n.life == living && n.State == wire.MemberLeaving
	})
}

// grow starts workers on a host.
func (m *membership) grow(out *output, g starts) {
	nodes := m.roster.size()
	switch {
	case m.departing(g.Host):
		m.startsMissing(out, g.Host, "the host is being taken away")
		return
	case nodes+g.Workers > cluster.MaxNodes:
		m.startsMissing(out, g.Host, fmt.Sprintf("the job has %d workers and servers, want at most %d", nodes, cluster.MaxNodes))
		return
	}
	if status := m.hosts.status(g.Host); status == "" || status == control.Removed || status == control.HostFailed {
		m.hosts.expect(out, g.Host)
		out.note("host %s: workers will join from it", g.Host).Event = joblog.HostChanged.With("action", control.AddQueued, "node_host", g.Host)
	}
	m.startOn(g.Host, g.Workers, m.workersOn(g.Host) == 0)
}

// startOn wants more workers on a host.
func (m *membership) startOn(host string, workers int, prepare bool) {
	x := control.WantedProcess{Role: control.Worker, Host: host, Prepare: prepare, Slots: workers}
	if p := m.sites.of(host); p != nil {
		p.Withdrawn, m.sites.dirty = false, true
		x.GPUs, x.CPUs, x.Slots = p.GPUs, p.CPUs, max(p.Slots, workers)
	}
	for range workers {
		m.fleet.want(x)
	}
}

// release ends a worker that is not wanted any more: one that is in the job leaves at the next
// step. False: it cannot leave yet.
func (m *membership) release(out *output, p *wantedProcess) bool {
	n, why := m.roster.ofProcess(p.Process), "the job scales to "+m.scale.newest.text()
	if !p.Joined || n == nil {
		m.fleet.endAs(p, control.GoalEnd, 0, control.FateRemoved, "before it had joined", "")
		if n != nil {
			m.grantLeave(out, n, why)
		}
		m.leaveHost(out, p.Host)
		return true
	}
	if refusal := m.policy.needs(n, &m.roster, &m.job); refusal != "" {
		if !m.fleet.arriving() && len(m.scale.newest.Starts) == 0 {
			m.scale.tooFew(out, fmt.Sprintf("%v cannot leave: %s", n, refusal)) // nobody comes after whom it could leave
		}
		return false
	}
	m.grantLeave(out, n, why)
	m.listMembers(p.Host)
	return true
}

// listMembers lets host_worker list as many workers on a host as are in the job and stay, so that a
// job that is started again has them, too.
func (m *membership) listMembers(host string) {
	members := 0
	for _, p := range m.stayingOn(host) {
		if p.Joined {
			members++
		}
	}
	if members > 0 {
		m.sites.list(host, members)
	}
}

// leaveHost removes a host on which no worker is wanted, and none is in the job. It stays in the
// roster.
func (m *membership) leaveHost(out *output, host string) {
	if status := m.hosts.status(host); status == "" || status == control.Removed || m.workersOn(host) > 0 || m.roster.hasWorkers(host) {
		return
	}
	m.vacate(out, host)
}

// startsMissing takes note of workers that could not be started on a host. Others are started in
// their place where there are free slots, unless it was said on which hosts they are wanted.
func (m *membership) startsMissing(out *output, host, why string) {
	s := &m.scale.newest
	if s.Number == 0 || s.Reached || !m.job.running() {
		return
	}
	s.Failed = append(s.Failed, host)
	m.scale.dirty = true
	if len(s.Placement) > 0 {
		m.scale.tooFew(out, fmt.Sprintf("host %s: %s", host, why))
		return
	}
	have := m.workersInAll()
	for _, g := range s.Starts {
		have += g.Workers
	}
	for _, p := range m.fleet.list {
		if p.isWorker() && p.delayed() && p.stays() {
			have++
		}
	}
	missing := s.Workers - have
	if missing <= 0 {
		return
	}
	more, placed := m.sites.room(missing, m.workersOn, s.Failed)
	s.Starts = append(s.Starts, more...)
	if placed < missing {
		m.scale.tooFew(out, fmt.Sprintf("host %s: %s; no other host has a free slot", host, why))
	}
}

package scheduler

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// askScale takes a request for a number of workers, of launch ctl scale or of passWish. One that is
// begun takes the place of what rank 0 wishes for.
func (m *membership) askScale(out *output, r control.Request) *control.Done {
	if why := m.cannotChange(out); why != "" {
		return &control.Done{Error: why}
	}
	done, begun := m.scale.ask(out, m.scaleEnv(out), r)
	if begun {
		m.wish = wish{}
	}
	return done
}

// startsMissing takes note of workers that could not be started on a host.
func (m *membership) startsMissing(out *output, host, why string) {
	m.scale.startsMissing(out, m.scaleEnv(out), host, why)
}

// scaleEnv is what a scaler needs of the job: its machines, and what the membership does for it.
type scaleEnv struct {
	set       *Settings
	job       *jobState
	policy    policy
	roster    *roster
	hosts     *hostTable
	sites     *sites
	fleet     *fleet
	departing *departingHosts

	// grantLeave lets a worker leave.
	grantLeave func(n *node, why string)
	// vacate asks all workers on a host to leave, and wants no others there.
	vacate func(host string)
}

// scaleEnv is what the scaler needs of this membership.
func (m *membership) scaleEnv(out *output) scaleEnv {
	return scaleEnv{
		set: m.set, job: &m.job, policy: m.policy, roster: &m.roster, hosts: &m.hosts, sites: &m.sites, fleet: &m.fleet, departing: &m.departing,
		grantLeave: func(n *node, why string) { m.grantLeave(out, n, why) },
		vacate:     func(host string) { m.vacate(out, host) },
	}
}

// ask takes a request for a number of workers, which workers may come and go for. It reports whether
// it was begun.
func (sc *scaler) ask(out *output, env scaleEnv, r control.Request) (done *control.Done, begun bool) {
	why := ""
	if env.job.stop != notStopping {
		why = "cannot scale to " + control.ScaleText(r.Wanted(), r.Placement) + ": the whole job is being stopped"
	} else {
		why = sc.cannot(r, len(env.roster.living(wire.RoleServer)))
	}
	switch t := &sc.newest; {
	case why != "":
		return &control.Done{Error: why}, false
	case !env.fleet.heard():
		// After a restart scaleWaits has waited for the report in vain; a new job has had none.
		return &control.Done{Error: "launch has not reported yet which hosts the job has", Again: true}, false
	case t.Number > 0 && t.same(r) && sc.state(env.roster.staying()) != control.ScaleTooFew:
		return &control.Done{Scale: t.Number}, false
	}
	if refusal := sc.begin(out, env, r.Wanted(), r.Placement); refusal != "" {
		out.note("scale refused: %s", refusal).Event = joblog.Scale.With("action", "refused", "reason", refusal)
		return &control.Done{Error: refusal}, false
	}
	return &control.Done{Scale: sc.newest.Number}, true
}

// begin plans for a number of workers, and begins to carry it out. It returns why that is not
// possible.
func (sc *scaler) begin(out *output, env scaleEnv, workers int, placement []control.WorkersOnHost) (refusal string) {
	s := scalePlan{scaling: scaling{Workers: workers}}
	if len(placement) > 0 {
		refusal = s.planPlacement(env, placement)
	} else {
		refusal = s.planNumber(env)
	}
	if refusal != "" {
		return refusal
	}
	// A worker whose start is delayed is dropped: the plan starts it among the others.
	for _, p := range slices.Clone(env.fleet.list) {
		if p.isWorker() && p.delayed() {
			env.fleet.drop(p)
		}
	}
	out.events.clearScale(out, sc.newest.Number)
	said := placement
	if len(s.Placement) > 0 {
		said = s.Placement
	}
	plan := s.planText(env)
	s.Number = out.events.last + 1
	sc.newest, sc.dirty = s.scaling, true
	out.event(control.Event{Action: control.Scaling, Workers: workers, Placement: said, Reason: plan})
	for _, p := range s.cancelled {
		env.fleet.drop(p)
	}
	for _, p := range s.cancelled {
		sc.leaveHost(out, env, p.Host)
	}
	sc.check(out, env.roster.workers())
	sc.goOn(out, env)
	return ""
}

// goOn does what can be done now for the scaling.
func (sc *scaler) goOn(out *output, env scaleEnv) {
	s := &sc.newest
	if s.Number == 0 || !env.job.running() || env.job.stop != notStopping || len(s.Starts)+len(s.Releases) == 0 {
		return
	}
	for _, g := range slices.Clone(s.Starts) {
		if env.hosts.status(g.Host) != control.RemovalQueued && !env.roster.vacating(g.Host) {
			s.Starts = slices.DeleteFunc(s.Starts, func(o starts) bool { return o == g })
			sc.dirty = true
			sc.grow(out, env, g)
		}
	}
	all := env.sites.inAll(env.fleet.staying)
	// Workers that are released may have to stay while others are coming, so that the job trains
	// meanwhile: only --max-workers makes them leave before.
	coming := len(s.Starts) > 0 || slices.ContainsFunc(env.fleet.list, func(p *wantedProcess) bool {
		return p.isWorker() && p.stays() && !p.Joined && !slices.Contains(s.Releases, p.Process)
	})
	for _, g := range s.Starts {
		all += g.Workers
	}
	for _, number := range slices.Clone(s.Releases) {
		p := env.fleet.of(number)
		done := p == nil || !p.stays()
		if !done && (!p.Joined || !coming || env.set.Elastic.MaxWorkers > 0 && all > env.set.Elastic.MaxWorkers) {
			all--
			done = sc.release(out, env, p)
		}
		if done {
			s.Releases = slices.DeleteFunc(s.Releases, func(n uint32) bool { return n == number })
			sc.dirty = true
		}
	}
}

// grow starts workers on a host.
func (sc *scaler) grow(out *output, env scaleEnv, g starts) {
	nodes := env.roster.size()
	switch {
	case env.departing.has(g.Host):
		sc.startsMissing(out, env, g.Host, "the host is being taken away")
		return
	case nodes+g.Workers > cluster.MaxNodes:
		sc.startsMissing(out, env, g.Host, fmt.Sprintf("the job has %d workers and servers, want at most %d", nodes, cluster.MaxNodes))
		return
	}
	if status := env.hosts.status(g.Host); status == "" || status == control.Removed || status == control.HostFailed {
		env.hosts.expect(out, g.Host)
		out.note("host %s: workers will join from it", g.Host).Event = joblog.HostChanged.With("action", control.AddQueued, "node_host", g.Host)
	}
	env.sites.start(env.fleet, g.Host, g.Workers, env.fleet.staying(g.Host) == 0)
}

// release ends a worker that is not wanted any more: one that is in the job leaves at the next
// step. False: it cannot leave yet.
func (sc *scaler) release(out *output, env scaleEnv, p *wantedProcess) bool {
	n, why := env.roster.ofProcess(p.Process), "the job scales to "+sc.newest.text()
	if !p.Joined || n == nil {
		env.fleet.endAs(p, control.GoalEnd, 0, control.FateRemoved, "before it had joined", "")
		if n != nil {
			env.grantLeave(n, why)
		}
		sc.leaveHost(out, env, p.Host)
		return true
	}
	if refusal := env.policy.needs(n, env.roster, env.job); refusal != "" {
		if !env.fleet.arriving() && len(sc.newest.Starts) == 0 {
			sc.tooFew(out, fmt.Sprintf("%v cannot leave: %s", n, refusal)) // nobody comes after whom it could leave
		}
		return false
	}
	env.grantLeave(n, why)
	env.sites.listMembers(env.fleet, p.Host)
	return true
}

// leaveHost removes a host on which no worker is wanted, and none is in the job. It stays in the
// roster.
func (sc *scaler) leaveHost(out *output, env scaleEnv, host string) {
	if status := env.hosts.status(host); status == "" || status == control.Removed || env.fleet.staying(host) > 0 || env.roster.hasWorkers(host) {
		return
	}
	env.vacate(host)
}

// startsMissing takes note of workers that could not be started on a host. Others are started in
// their place where there are free slots, unless it was said on which hosts they are wanted.
func (sc *scaler) startsMissing(out *output, env scaleEnv, host, why string) {
	s := &sc.newest
	if s.Number == 0 || s.Reached || !env.job.running() {
		return
	}
	s.Failed = append(s.Failed, host)
	sc.dirty = true
	if len(s.Placement) > 0 {
		sc.tooFew(out, fmt.Sprintf("host %s: %s", host, why))
		return
	}
	have := env.sites.inAll(env.fleet.staying)
	for _, g := range s.Starts {
		have += g.Workers
	}
	for _, p := range env.fleet.list {
		if p.isWorker() && p.delayed() && p.stays() {
			have++
		}
	}
	missing := s.Workers - have
	if missing <= 0 {
		return
	}
	more, placed := env.sites.room(missing, env.fleet.staying, s.Failed)
	s.Starts = append(s.Starts, more...)
	if placed < missing {
		sc.tooFew(out, fmt.Sprintf("host %s: %s; no other host has a free slot", host, why))
	}
}

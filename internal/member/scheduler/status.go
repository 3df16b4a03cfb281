package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	// maxStatusNodes bounds the nodes of one Status.
	maxStatusNodes = 2000
	// maxCallsThatWait bounds the answer's size: their texts come from workers.
	maxCallsThatWait = 64
)

func joined(names []string) string { return strings.Join(names, ", ") }

// status answers OpStatus. It is bounded, since an answer must fit a frame: of a large job it names
// the nodes of the lowest ranks and says how many it leaves out.
func (c *Core) status() *control.Status {
	m, now := &c.members, c.out.now
	s := &control.Status{Job: c.set.Job, Phase: phaseNames[m.job.phase], Reason: m.job.reason, Failure: m.job.failure, Generation: m.job.generation, Revision: m.job.revision,
		Workers: len(m.roster.workers()), Elastic: c.set.Elastic.Enabled, Waiting: c.Waiting(), Division: m.change.parts.division,
		Hosts: m.hosts.list(), LastEvent: c.events.last,
		Placement: m.places.number, Servers: m.servers.status(&m.roster, &m.places, &m.job), Scale: m.scale.status(m.roster.staying()), Adaptation: c.adapts.newest, Change: m.change.status(&m.roster, now)}
	if m.job.running() {
		s.Waiting = c.InGrace()
	}
	if text := m.places.bare(&m.job); text != "" {
		s.Warnings = append(s.Warnings, text)
	}
	s.Nodes, s.LeftOut = m.roster.status(now)
	return s
}

// why answers OpWhy: whoever waits, longest first, and whom for. Where a job stands still, the
// cause is whoever the others wait for and who waits for nobody.
func (c *Core) why() *control.Why {
	m, now := &c.members, c.out.now
	w := &control.Why{Waits: []control.Wait{}, Slow: c.jobView().slow}
	w.Waits = append(w.Waits, m.waits(now)...)
	w.Waits = append(w.Waits, m.roster.callsThatWait(now)...)
	slices.SortStableFunc(w.Waits, longerWait)
	w.Behind = m.roster.behind(now)
	if m.job.phase == wire.PhaseForming {
		w.Waits = append(w.Waits, control.Wait{Who: "the job", At: "start", For: joined(m.missing(now)), Seconds: now.Sub(m.job.start).Seconds()})
	}
	return w
}

// longerWait puts the longer wait first.
func longerWait(a, b control.Wait) int { return int(b.Seconds*1000) - int(a.Seconds*1000) }

// waits are the requests that wait at the scheduler, and the silent nodes that are waited for.
func (m *membership) waits(now time.Time) (list []control.Wait) {
	add := func(waits waitList, what func(wait) string, whom func(wait) string) {
		for _, x := range waits {
			if len(list) < maxStatusNodes {
				list = append(list, control.Wait{Who: m.roster.who(x.node), At: what(x), For: whom(x), Seconds: now.Sub(x.since).Seconds()})
			}
		}
	}
	workers := m.roster.workers()
	add(m.barriers.waits, func(x wait) string { return fmt.Sprintf("barrier %s", wire.Shown(x.name)) }, func(x wait) string { return m.barriers.missing(x.name, workers, now) })
	add(m.signals.waits, func(x wait) string { return fmt.Sprintf("signal %s", wire.Shown(x.name)) }, func(x wait) string {
		if n := m.roster.node(x.sender); n != nil {
			return n.describe(now)
		}
		return m.roster.who(x.sender)
	})
	add(m.changeWaits.waits, func(x wait) string { return x.name }, func(x wait) string { return m.change.obstacles(x.node, &m.roster, now) })
	for _, n := range m.leases.inGrace(&m.roster, maxStatusNodes-len(list)) {
		list = append(list, control.Wait{Who: "the job", At: "a silent node", For: m.leases.text(n, now), Seconds: now.Sub(n.lease.graceSince).Seconds()})
	}
	return list
}

// callsThatWait are the workers' calls that have waited for a server, or for another worker of
// their host, longest first.
func (r *roster) callsThatWait(now time.Time) (waits []control.Wait) {
	for _, n := range r.living(wire.RoleWorker) {
		if x := n.said.wait; x.At != "" {
			x.Who, x.Seconds = n.String(), x.Seconds+now.Sub(n.lease.heard).Seconds()
			waits = append(waits, x)
		}
	}
	slices.SortStableFunc(waits, longerWait)
	return waits[:min(len(waits), maxCallsThatWait)]
}

// behind describes the workers that have done fewer steps than others, fewest first.
func (r *roster) behind(now time.Time) (list []string) {
	newest := uint64(0)
	workers := r.workers()
	for _, n := range workers {
		newest = max(newest, n.said.step)
	}
	workers = slices.DeleteFunc(workers, func(n *node) bool { return n.said.step >= newest })
	slices.SortStableFunc(workers, func(a, b *node) int { return int(int64(a.said.step) - int64(b.said.step)) })
	for _, n := range workers[:min(len(workers), maxNamed)] {
		list = append(list, n.describe(now))
	}
	return list
}

package scheduler

import (
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// observe takes a report of the launcher: what it sees of hosts and processes. Each report has all,
// so nothing happens if it comes twice.
func (m *membership) observe(out *output, o *control.Observed) *control.Done {
	f := &m.fleet
	if o.Number > f.reported && m.job.open() {
		f.reported = o.Number
		for _, x := range o.Hosts {
			m.sites.observe(x)
		}
		if !f.Adopted {
			m.adopt(out, o)
			m.fleet.takeRanks(&m.roster, m.job.running())
		}
		for _, x := range o.Processes {
			p := f.of(x.Process)
			if p == nil && m.roster.ofProcess(x.Process) != nil { // it began before the first report, and was not in it
				p = f.adopt(x)
				m.fleet.takeRanks(&m.roster, m.job.running())
			}
			if p != nil && f.saw(p, x.State, out.now.Add(-time.Duration(x.Seconds*float64(time.Second)))) {
				p.lived(x.Seconds, out.now)
				m.judge(out).ended(p, x)
			}
		}
		f.settle(o)
		m.departing.observe(out, m.departingEnv(out), o.Hosts)
	}
	return &control.Done{Phase: phaseNames[m.job.phase]}
}

// adopt takes the processes that the job began with.
func (m *membership) adopt(out *output, o *control.Observed) {
	m.fleet.Adopted, m.fleet.Last, m.fleet.dirty = true, o.Last, true
	for _, x := range o.Processes {
		p := m.fleet.adopt(x)
		if _, err := m.sites.add(x.Host); err != nil {
			out.warn("process %d is on %q: %v", x.Process, x.Host, err)
		}
		if p.isWorker() && m.set.Elastic.Enabled {
			at := m.sites.of(x.Host)
			m.sites.list(x.Host, at.File+1)
		}
	}
	for _, at := range m.sites.all { // what was asked for before
		if m.hosts.status(at.Name) == control.AddQueued && m.fleet.staying(at.Name) == 0 {
			m.sites.start(&m.fleet, at.Name, max(at.File, 1), true)
		}
	}
	for _, x := range m.servers.coming {
		m.startServer(out, x.Rank, x.Host)
	}
}

// startServer wants the server of a rank.
func (m *membership) startServer(out *output, rank uint32, host string) {
	if host == "" {
		host = m.sites.server(m.fleet.serversOn)
	}
	switch {
	case host == "":
		m.serverFailed(out, int(rank), "all hosts of the job are being taken away")
	case m.departing.has(host):
		m.serverFailed(out, int(rank), "the host is being taken away")
	default:
		m.fleet.want(control.WantedProcess{Role: control.Server, Rank: int(rank), Number: int(rank), Host: host})
	}
}

// judge is who says what the end of a process means.
func (m *membership) judge(out *output) *judge {
	return &judge{
		set: m.set, now: out.now, job: &m.job, policy: m.policy, roster: &m.roster, hosts: &m.hosts, sites: &m.sites, fleet: &m.fleet,
		lose:          func(n *node, cause control.Cause) { m.lose(out, n, cause) },
		takeLeave:     func(n *node, l *wire.Leave) { m.takeLeave(out, n, l) },
		hostFailed:    func(host, why string) { m.hostFailed(out, host, why) },
		serverFailed:  func(rank int, why string) { m.serverFailed(out, rank, why) },
		startsMissing: func(host, why string) { m.startsMissing(out, host, why) },
	}
}

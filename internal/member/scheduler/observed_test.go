package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// unreported is the membership of a running job of a worker on w0 and a server on s0, to which no
// launcher has reported yet, and the report of these two.
func unreported() (*output, *membership, *control.Observed) {
	out, r := running(1, 1)
	m := newMembership(settingsOf(1, 1), out.now)
	m.job, m.roster = *out.job, *r
	out.job = &m.job
	o := &control.Observed{Number: 1, Last: 2}
	for i, role := range []string{control.Worker, control.Server} {
		host := r.nodes[i].Host
		o.Processes = append(o.Processes, control.ObservedProcess{Process: uint32(i + 1), Role: role, Host: host, State: control.StateRunning})
		o.Hosts = append(o.Hosts, control.ObservedHost{Host: host, Listed: role == control.Worker, Servers: true, Connection: i + 1})
	}
	return out, &m, o
}

// startsOn are the roles of the processes on a host that were wanted after the first report.
func startsOn(m *membership, host string) (roles []string) {
	for _, p := range m.fleet.list {
		if p.Host == host && p.Process > 2 {
			roles = append(roles, p.Role)
		}
	}
	return roles
}

// A host that was added before the launcher reported gets its workers with the first report, unless
// it has some by then.
func TestTheFirstReportStartsWorkersOnAddedHosts(t *testing.T) {
	for host, want := range map[string][]string{"w9": {control.Worker, control.Worker}, "w0": nil} {
		out, m, o := unreported()
		if _, err := m.sites.enrol(host, 2, 0, 0); err != nil {
			t.Fatal(err)
		}
		m.sites.list(host, 2)
		m.hosts.expect(out, host)
		if m.observe(out, o); !slices.Equal(startsOn(m, host), want) {
			t.Errorf("on %s %q are started, want %q", host, startsOn(m, host), want)
		}
	}
}

// A server that was asked for before the launcher reported is started with the first report, but not
// on a host that is being taken away.
func TestTheFirstReportStartsServersThatWereAskedFor(t *testing.T) {
	out, m, o := unreported()
	m.servers.expect(out, 1, "w0")
	if m.observe(out, o); !slices.Equal(startsOn(m, "w0"), []string{control.Server}) {
		t.Errorf("on w0 %q are started, want a server", startsOn(m, "w0"))
	}
	o.Number++
	o.Hosts[1].Notice = noticeOf(time.Minute)
	m.observe(out, o)
	if m.startServer(out, 2, "s0"); len(startsOn(m, "s0")) > 0 {
		t.Errorf("on s0, which is being taken away, %q are started", startsOn(m, "s0"))
	}
}

// A report that is older than the newest one changes nothing.
func TestAnOlderReportChangesNothing(t *testing.T) {
	out, m, o := unreported()
	o.Number = 2
	m.observe(out, o)
	o.Number, o.Hosts[0].Notice = 1, noticeOf(time.Minute)
	if m.observe(out, o); m.departing.any() {
		t.Error("the notice of an older report is taken")
	}
}

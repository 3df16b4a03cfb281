package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	// stopReserve is how much of the time that is left is kept for a checkpoint of the whole
	// job; half of it if that is less.
	stopReserve = 30 * time.Second
	// lossTime is how long before its host is taken away a worker is killed that cannot leave,
	// in the second half of the time. An agent that got SIGTERM passes it on 3 s before.
	lossTime = 5 * time.Second
	// leaveRetry is when a step that was refused is tried again: shards may be moving.
	leaveRetry = 250 * time.Millisecond
	// leaveTries is how often it is refused, for another reason, before the job stops.
	leaveTries = 4
)

// A departure is a host that is about to be taken away. Its workers leave the job at the next step,
// as those of a removed host do, and its servers are removed once their shards are at others. If
// that is not possible, or takes too long, the whole job stops with a checkpoint.
type departure struct {
	host       string
	connection int
	why        string    // for people
	by         time.Time // when its processes are ended
	// checkpointBy is until when a checkpoint of the job must be complete.
	checkpointBy time.Time
	limit        time.Time // when the rest of the time is needed for a checkpoint
	kill         time.Time // when workers that cannot leave are killed; zero: they are not

	stage   departureStage
	stays   bool      // its workers are lost with it, and the job goes on
	retry   time.Time // no step is tried before
	refused int
	added   int // rank of the server that was added elsewhere, so that one remains; -1: none was
}

// departures are the hosts that are being taken away, in the order of their notices. They are not in
// the journal: the launcher reports its notices again.
type departures struct{ list []*departure }

// A departureStage is how far a departure has come.
type departureStage uint8

const (
	departureSeen  departureStage = iota // the job is forming, or nothing was done yet
	departureBegun                       // workers and servers are leaving
	departureOver                        // nothing of the job depends on the host any more
)

// observeDepartures takes the notices of a report. A host that the report does not have is gone.
func (m *membership) observeDepartures(out *output, all []control.ObservedHost) {
	m.departures.list = slices.DeleteFunc(m.departures.list, func(d *departure) bool {
		return !slices.ContainsFunc(all, func(x control.ObservedHost) bool { return x.Host == d.host })
	})
	for _, x := range all {
		i := slices.IndexFunc(m.departures.list, func(d *departure) bool { return d.host == x.Host })
		switch {
		case i < 0 && x.Notice != nil:
			why := "host " + x.Host + " is being taken away" + because(x.Notice.Text)
			d := &departure{host: x.Host, connection: x.Connection, why: why, added: -1}
			m.departures.list = append(m.departures.list, d)
			d.notice(x.Notice, out.now)
		case i < 0:
		case x.Notice != nil && m.departures.list[i].connection == x.Connection:
			m.departures.list[i].notice(x.Notice, out.now)
		default: // it stays, or the connection of the notice is gone
			d := m.departures.list[i]
			m.departures.list = slices.Delete(m.departures.list, i, i+1)
			if x.Connection == d.connection {
				m.staysAfterAll(out, d)
			}
		}
	}
}

// notice takes how much time is left. A notice that gives more than an earlier one changes nothing,
// nor does one that repeats it, a little later.
func (d *departure) notice(n *control.HostNotice, now time.Time) {
	by := now.Add(n.Left())
	if !d.by.IsZero() && !by.Before(d.by.Add(-time.Second)) {
		return
	}
	d.by, d.checkpointBy = by, now.Add(n.Checkpoint())
	d.limit = by.Add(-min(n.Left()/2, stopReserve))
}

// staysAfterAll forgets a departure whose notice was withdrawn. What has left by then stays away.
func (m *membership) staysAfterAll(out *output, d *departure) {
	text := fmt.Sprintf("host %s is no longer being taken away", d.host)
	if p := m.sites.of(d.host); p != nil && p.Away {
		if p.Away, m.sites.dirty = false, true; !m.leaves(d.host) {
			p.Withdrawn = false
		}
		if p.Withdrawn || !p.Workers {
			text += fmt.Sprintf("; launch ctl add %s lets it join again", d.host)
		}
	}
	m.taken(out, control.Vacated, d, text)
}

// departing reports whether a host is being taken away.
func (m *membership) departing(host string) bool {
	return slices.ContainsFunc(m.departures.list, func(d *departure) bool { return d.host == host })
}

// taken tells what the job does for a host that is being taken away.
func (m *membership) taken(out *output, action string, d *departure, text string) {
	out.eventLogged(control.Event{Action: action, Host: d.host, Reason: text}, joblog.HostNotice.With("node_host", d.host, "reason", text))
}

// next is when something is to be done for a host that is being taken away.
func (l *departures) next(open bool) (next time.Time) {
	if !open {
		return next
	}
	for _, d := range l.list {
		for _, t := range []time.Time{d.limit, d.kill, d.retry} {
			next = sooner(next, t)
		}
	}
	return next
}

// goOnDeparting does what can be done now for the hosts that are being taken away.
func (m *membership) goOnDeparting(out *output) {
	for _, d := range slices.Clone(m.departures.list) {
		m.passDeparture(out, d)
		if out.now.Before(d.retry) {
			continue
		}
		if d.retry = (time.Time{}); !m.job.running() || m.job.stop == stoppingWithCheckpoint || d.stage == departureOver {
			continue
		}
		if d.stage == departureSeen && !m.beginDeparture(out, d) {
			continue
		}
		m.removeDeparting(out, d)
		m.moveServers(out, d)
		if servers, workers := m.leftBehind(d); m.job.stop != stoppingWithCheckpoint && len(servers)+len(workers) == 0 && !d.stays {
			d.stage = departureOver
			m.taken(out, control.Vacated, d, fmt.Sprintf("the job no longer needs host %s, which is being taken away", d.host))
		}
	}
}

// passDeparture acts on the deadlines of a departure.
func (m *membership) passDeparture(out *output, d *departure) {
	if !d.kill.IsZero() && !out.now.Before(d.kill) {
		d.kill = time.Time{}
		for _, p := range m.stayingOn(d.host) {
			if m.job.stop != stoppingWithCheckpoint {
				m.fleet.aim(p, control.GoalKill, 0)
			}
		}
	}
	if d.limit.IsZero() || out.now.Before(d.limit) {
		return
	}
	d.limit = time.Time{}
	if d.stage == departureOver {
		return
	}
	servers, workers := m.leftBehind(d)
	names := strings.Join(append(servers, workers...), ", ")
	switch e := m.set.Elastic; {
	case len(servers) > 0 || len(workers) > 0 && (m.job.phase == wire.PhaseForming || e.OnWorkerLoss == cluster.LossFail):
		m.stopForDeparture(out, d, names+" could not leave in time")
	case len(workers) > 0 && !d.stays && m.job.stop != stoppingWithCheckpoint:
		d.stays = true
		m.taken(out, control.Taken, d, fmt.Sprintf("%s on %s could not leave in time; workers that are still there when the host is taken away are lost, and the job goes on (--on-worker-loss %s)", names, d.host, e.OnWorkerLoss))
	case len(workers) > 0 && !e.Enabled:
		d.kill = maxTime(d.by.Add(-lossTime), out.now)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// leftBehind names what is still on a host that is being taken away, and should have left.
func (m *membership) leftBehind(d *departure) (servers, workers []string) {
	for _, p := range m.fleet.list {
		switch {
		case p.Host != d.host || p.ended():
		case p.isWorker() && (p.stays() || p.Goal == control.GoalLeave):
			workers = append(workers, p.name())
		case !p.isWorker() && p.stays():
			servers = append(servers, p.name())
		}
	}
	return servers, workers
}

// beginDeparture begins to empty a host that is being taken away, or stops the job if that is not possible.
func (m *membership) beginDeparture(out *output, d *departure) bool {
	d.stage = departureBegun
	servers, workers := m.leftBehind(d)
	p, _ := m.sites.add(d.host)
	switch e := m.set.Elastic; {
	case p != nil && p.runs == control.Scheduler:
		m.stopForDeparture(out, d, "the scheduler runs there")
		return false
	case p != nil && p.runs != "":
		m.stopForDeparture(out, d, "launch runs there")
		return false
	case len(servers) > 0 && e.Backups == 0:
		m.stopForDeparture(out, d, "the shards of its servers have no backups (--backups 1), so they cannot move")
		return false
	case len(workers) > 0 && !e.Enabled && e.OnWorkerLoss != cluster.LossShrink:
		m.stopForDeparture(out, d, "its workers cannot leave, because the job was not started with --elastic-training-enabled")
		return false
	case len(workers) > 0 && !e.Enabled:
		d.stays = true
		m.taken(out, control.Taken, d, fmt.Sprintf("the workers on %s cannot leave, because the job was not started with --elastic-training-enabled; they are lost with their host, and the job goes on (--on-worker-loss %s)", d.host, e.OnWorkerLoss))
	}
	if p != nil {
		p.Away, p.AwayFrom, m.sites.dirty = true, d.connection, true
	}
	for _, p := range m.fleet.workers(func(host string) bool { return host == d.host }) {
		if p.delayed() {
			m.fleet.drop(p)
		}
	}
	m.sites.suspend(d.host)
	return true
}

// removeDeparting removes the host, if workers stay there or are on their way.
func (m *membership) removeDeparting(out *output, d *departure) {
	if !m.set.Elastic.Enabled || m.hosts.status(d.host) == control.RemovalQueued || len(m.stayingOn(d.host)) == 0 {
		return
	}
	why := m.changeHost(out, control.Request{Op: control.OpRemove, Host: d.host})
	if why == "" {
		d.refused = 0
		return
	}
	if d.refused++; d.refused >= leaveTries && !m.fleet.arriving() { // those who are starting may make up for them
		m.stopForDeparture(out, d, why)
		return
	}
	d.retry = out.now.Add(leaveRetry)
}

// moveServers removes the servers of a host, one after the other. Where no other one would remain,
// one is added elsewhere first, and the shards move to that.
func (m *membership) moveServers(out *output, d *departure) {
	var next *wantedProcess
	remains := false
	for _, p := range m.fleet.list {
		switch {
		case p.isWorker() || !p.stays():
		case p.Host == d.host:
			next = cmp.Or(next, p)
		default:
			remains = remains || p.Joined && !m.departing(p.Host)
		}
	}
	switch {
	case next == nil || m.job.stop == stoppingWithCheckpoint:
		return
	case !remains:
		m.addServerElsewhere(out, d)
		return
	}
	why, again := m.removeServer(out, next.Rank)
	switch {
	case why == "":
		d.refused = 0
		return
	case again: // its shards are moving
	default:
		if d.refused++; d.refused >= leaveTries {
			m.stopForDeparture(out, d, fmt.Sprintf("%s cannot leave: %s", next.name(), why))
			return
		}
	}
	d.retry = out.now.Add(leaveRetry)
}

// addServerElsewhere adds a server on a host that stays, unless one is on its way.
func (m *membership) addServerElsewhere(out *output, d *departure) {
	if slices.ContainsFunc(m.servers.coming, func(x comingServer) bool { return !m.departing(x.Host) }) {
		return
	}
	host := m.serverHost()
	if host == "" {
		m.stopForDeparture(out, d, "no other host may run a server")
		return
	}
	rank, why := m.addServer(out, host)
	if why != "" {
		m.stopForDeparture(out, d, why)
		return
	}
	d.added = int(rank)
}

// serverNotAdded stops the job if a server could not be added that was to take the shards of a host
// that is being taken away.
func (m *membership) serverNotAdded(out *output, rank uint32, host, reason string) {
	for _, d := range m.departures.list {
		if d.added == int(rank) {
			m.stopForDeparture(out, d, fmt.Sprintf("server %d could not be added on %s: %s", rank, host, reason))
		}
	}
}

// stopForDeparture stops the job with a checkpoint, before a host is taken away.
func (m *membership) stopForDeparture(out *output, d *departure, why string) {
	if m.job.stop == stoppingWithCheckpoint || !m.job.open() {
		return
	}
	m.job.stopWithin = max(d.checkpointBy.Sub(out.now), leastStop).Round(100 * time.Millisecond)
	m.beginStop(out, fmt.Sprintf("%s, and %s", d.why, why))
}

// leastStop is the least time for a checkpoint with which the job stops.
const leastStop = 500 * time.Millisecond

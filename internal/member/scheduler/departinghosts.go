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

// A departingHost is a whole host that is about to be taken away, such as a spot machine, and has
// given notice of it. (What becomes of a worker that was lost is in loss.go, and of one that leaves
// by itself in leave.go.) Its workers leave the job at the next step, as those of a removed host do,
// and its servers are removed once their shards are at others. If that is not possible, or takes too
// long, the whole job stops with a checkpoint.
type departingHost struct {
	host       string
	connection int
	// why is the reason, for people.
	why string
	// by is when its processes are ended.
	by time.Time
	// checkpointBy is until when a checkpoint of the job must be complete.
	checkpointBy time.Time
	// limit is when the rest of the time is needed for a checkpoint.
	limit time.Time
	// kill is when workers that cannot leave are killed. Zero: they are not.
	kill time.Time

	stage departingStage
	// stays says that its workers are lost with it, and the job goes on.
	stays bool
	// retry is the time before which no step is tried, and refused how often one was.
	retry   time.Time
	refused int
	// added is the rank of the server that was added elsewhere, so that one remains. −1: none was.
	added int
}

// departingHosts are the hosts that are being taken away, in the order of their notices. They are not
// in the journal: the launcher reports its notices again.
type departingHosts struct{ list []*departingHost }

// departingEnv is what departingHosts need of the job: its machines, and what the membership does for
// them.
type departingEnv struct {
	set     *Settings
	job     *jobState
	hosts   *hostTable
	servers *serverTable
	sites   *sites
	fleet   *fleet

	// removeHost asks the workers on a host to leave. It returns why that is not possible.
	removeHost func(host string) (refusal string)
	// removeServer removes a server. It returns why that is not possible, and whether it may be a
	// moment later.
	removeServer func(rank int) (refusal string, again bool)
	// addServer wants one more server on a host. It returns why that is not possible.
	addServer func(host string) (rank uint32, refusal string)
	// beginStop stops the job with a checkpoint.
	beginStop func(reason string)
}

// departingEnv is what the machine of departing hosts needs of this membership.
func (m *membership) departingEnv(out *output) departingEnv {
	return departingEnv{
		set: m.set, job: &m.job, hosts: &m.hosts, servers: &m.servers, sites: &m.sites, fleet: &m.fleet,
		removeHost: func(host string) string {
			return m.changeHost(out, control.Request{Op: control.OpRemove, Host: host})
		},
		removeServer: func(rank int) (string, bool) { return m.removeServer(out, rank) },
		addServer:    func(host string) (uint32, string) { return m.addServer(out, host) },
		beginStop:    func(reason string) { m.beginStop(out, reason) },
	}
}

// A departingStage is how far a host is on its way out.
type departingStage uint8

const (
	// departingSeen: the job is forming, or nothing was done yet.
	departingSeen departingStage = iota
	// departingBegun: workers and servers are leaving.
	departingBegun
	// departingOver: nothing of the job depends on the host any more.
	departingOver
)

// observe takes the notices of a report. A host that the report does not have is gone.
func (l *departingHosts) observe(out *output, env departingEnv, all []control.ObservedHost) {
	l.list = slices.DeleteFunc(l.list, func(d *departingHost) bool {
		return !slices.ContainsFunc(all, func(x control.ObservedHost) bool { return x.Host == d.host })
	})
	for _, x := range all {
		i := slices.IndexFunc(l.list, func(d *departingHost) bool { return d.host == x.Host })
		switch {
		case i < 0 && x.Notice != nil:
			why := "host " + x.Host + " is being taken away" + because(x.Notice.Text)
			d := &departingHost{host: x.Host, connection: x.Connection, why: why, added: -1}
			l.list = append(l.list, d)
			d.notice(x.Notice, out.now)
		case i < 0:
		case x.Notice != nil && l.list[i].connection == x.Connection:
			l.list[i].notice(x.Notice, out.now)
		default: // it stays, or the connection of the notice is gone
			d := l.list[i]
			l.list = slices.Delete(l.list, i, i+1)
			if x.Connection == d.connection {
				l.staysAfterAll(out, env, d)
			}
		}
	}
}

// notice takes how much time is left. A notice that gives more than an earlier one changes nothing,
// nor does one that repeats it, a little later.
func (d *departingHost) notice(n *control.HostNotice, now time.Time) {
	by := now.Add(n.Left())
	if !d.by.IsZero() && !by.Before(d.by.Add(-time.Second)) {
		return
	}
	d.by, d.checkpointBy = by, now.Add(n.Checkpoint())
	d.limit = by.Add(-min(n.Left()/2, stopReserve))
}

// staysAfterAll forgets a host whose notice was withdrawn. What has left by then stays away.
func (l *departingHosts) staysAfterAll(out *output, env departingEnv, d *departingHost) {
	text := fmt.Sprintf("host %s is no longer being taken away", d.host)
	if p := env.sites.of(d.host); p != nil && p.Away {
		if p.Away, env.sites.dirty = false, true; !env.hosts.leaves(d.host) {
			p.Withdrawn = false
		}
		if p.Withdrawn || !p.Workers {
			text += fmt.Sprintf("; launch ctl add %s lets it join again", d.host)
		}
	}
	l.taken(out, control.Vacated, d, text)
}

// has reports whether a host is being taken away.
func (l *departingHosts) has(host string) bool {
	return slices.ContainsFunc(l.list, func(d *departingHost) bool { return d.host == host })
}

// any reports whether a host is being taken away.
func (l *departingHosts) any() bool { return len(l.list) > 0 }

// taken tells what the job does for a host that is being taken away.
func (l *departingHosts) taken(out *output, action string, d *departingHost, text string) {
	out.eventLogged(control.Event{Action: action, Host: d.host, Reason: text}, joblog.HostNotice.With("node_host", d.host, "reason", text))
}

// next is when something is to be done for a host that is being taken away.
func (l *departingHosts) next(open bool) (next time.Time) {
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

// goOn does what can be done now for the hosts that are being taken away.
func (l *departingHosts) goOn(out *output, env departingEnv) {
	for _, d := range slices.Clone(l.list) {
		l.pass(out, env, d)
		if out.now.Before(d.retry) {
			continue
		}
		if d.retry = (time.Time{}); !env.job.running() || env.job.stop == stoppingWithCheckpoint || d.stage == departingOver {
			continue
		}
		if d.stage == departingSeen && !l.begin(out, env, d) {
			continue
		}
		l.removeHost(out, env, d)
		l.moveServers(out, env, d)
		if servers, workers := d.leftBehind(env.fleet); env.job.stop != stoppingWithCheckpoint && len(servers)+len(workers) == 0 && !d.stays {
			d.stage = departingOver
			l.taken(out, control.Vacated, d, fmt.Sprintf("the job no longer needs host %s, which is being taken away", d.host))
		}
	}
}

// pass acts on the deadlines of a departing host.
func (l *departingHosts) pass(out *output, env departingEnv, d *departingHost) {
	if !d.kill.IsZero() && !out.now.Before(d.kill) {
		d.kill = time.Time{}
		for _, p := range env.fleet.stayingOn(d.host) {
			if env.job.stop != stoppingWithCheckpoint {
				env.fleet.aim(p, control.GoalKill, 0)
			}
		}
	}
	if d.limit.IsZero() || out.now.Before(d.limit) {
		return
	}
	d.limit = time.Time{}
	if d.stage == departingOver {
		return
	}
	servers, workers := d.leftBehind(env.fleet)
	names := strings.Join(append(servers, workers...), ", ")
	switch e := env.set.Elastic; {
	case len(servers) > 0 || len(workers) > 0 && (env.job.phase == wire.PhaseForming || e.OnWorkerLoss == cluster.LossFail):
		l.stop(out, env, d, names+" could not leave in time")
	case len(workers) > 0 && !d.stays && env.job.stop != stoppingWithCheckpoint:
		d.stays = true
		l.taken(out, control.Taken, d, fmt.Sprintf("%s on %s could not leave in time; workers that are still there when the host is taken away are lost, and the job goes on (--on-worker-loss %s)", names, d.host, e.OnWorkerLoss))
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
func (d *departingHost) leftBehind(f *fleet) (servers, workers []string) {
	for _, p := range f.list {
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

// begin begins to empty a host that is being taken away, or stops the job if that is not possible.
func (l *departingHosts) begin(out *output, env departingEnv, d *departingHost) bool {
	d.stage = departingBegun
	servers, workers := d.leftBehind(env.fleet)
	p, _ := env.sites.add(d.host)
	switch e := env.set.Elastic; {
	case p != nil && p.runs == control.Scheduler:
		l.stop(out, env, d, "the scheduler runs there")
		return false
	case p != nil && p.runs != "":
		l.stop(out, env, d, "launch runs there")
		return false
	case len(servers) > 0 && e.Backups == 0:
		l.stop(out, env, d, "the shards of its servers have no backups (--backups 1), so they cannot move")
		return false
	case len(workers) > 0 && !e.Enabled && e.OnWorkerLoss != cluster.LossShrink:
		l.stop(out, env, d, "its workers cannot leave, because the job was not started with --elastic-training-enabled")
		return false
	case len(workers) > 0 && !e.Enabled:
		d.stays = true
		l.taken(out, control.Taken, d, fmt.Sprintf("the workers on %s cannot leave, because the job was not started with --elastic-training-enabled; they are lost with their host, and the job goes on (--on-worker-loss %s)", d.host, e.OnWorkerLoss))
	}
	if p != nil {
		p.Away, p.AwayFrom, env.sites.dirty = true, d.connection, true
	}
	env.fleet.dropDelayed(d.host)
	env.sites.suspend(d.host)
	return true
}

// removeHost removes the host, if workers stay there or are on their way.
func (l *departingHosts) removeHost(out *output, env departingEnv, d *departingHost) {
	if !env.set.Elastic.Enabled || env.hosts.status(d.host) == control.RemovalQueued || len(env.fleet.stayingOn(d.host)) == 0 {
		return
	}
	why := env.removeHost(d.host)
	if why == "" {
		d.refused = 0
		return
	}
	if d.refused++; d.refused >= leaveTries && !env.fleet.arriving() { // those who are starting may make up for them
		l.stop(out, env, d, why)
		return
	}
	d.retry = out.now.Add(leaveRetry)
}

// moveServers removes the servers of a host, one after the other. Where no other one would remain,
// one is added elsewhere first, and the shards move to that.
func (l *departingHosts) moveServers(out *output, env departingEnv, d *departingHost) {
	var next *wantedProcess
	remains := false
	for _, p := range env.fleet.list {
		switch {
		case p.isWorker() || !p.stays():
		case p.Host == d.host:
			next = cmp.Or(next, p)
		default:
			remains = remains || p.Joined && !l.has(p.Host)
		}
	}
	switch {
	case next == nil || env.job.stop == stoppingWithCheckpoint:
		return
	case !remains:
		l.addServerElsewhere(out, env, d)
		return
	}
	why, again := env.removeServer(next.Rank)
	switch {
	case why == "":
		d.refused = 0
		return
	case again: // its shards are moving
	default:
		if d.refused++; d.refused >= leaveTries {
			l.stop(out, env, d, fmt.Sprintf("%s cannot leave: %s", next.name(), why))
			return
		}
	}
	d.retry = out.now.Add(leaveRetry)
}

// addServerElsewhere adds a server on a host that stays, unless one is on its way.
func (l *departingHosts) addServerElsewhere(out *output, env departingEnv, d *departingHost) {
	if slices.ContainsFunc(env.servers.coming, func(x comingServer) bool { return !l.has(x.Host) }) {
		return
	}
	host := env.sites.server(env.fleet.serversOn)
	if host == "" {
		l.stop(out, env, d, "no other host may run a server")
		return
	}
	rank, why := env.addServer(host)
	if why != "" {
		l.stop(out, env, d, why)
		return
	}
	d.added = int(rank)
}

// serverNotAdded stops the job if a server could not be added that was to take the shards of a host
// that is being taken away.
func (l *departingHosts) serverNotAdded(out *output, env departingEnv, rank uint32, host, reason string) {
	for _, d := range l.list {
		if d.added == int(rank) {
			l.stop(out, env, d, fmt.Sprintf("server %d could not be added on %s: %s", rank, host, reason))
		}
	}
}

// stop stops the job with a checkpoint, before a host is taken away.
func (l *departingHosts) stop(out *output, env departingEnv, d *departingHost, why string) {
	if env.job.stop == stoppingWithCheckpoint || !env.job.open() {
		return
	}
	env.job.stopWithin = max(d.checkpointBy.Sub(out.now), leastStop).Round(100 * time.Millisecond)
	env.beginStop(fmt.Sprintf("%s, and %s", d.why, why))
}

// leastStop is the least time for a checkpoint with which the job stops.
const leastStop = 500 * time.Millisecond

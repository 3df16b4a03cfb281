package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	firstBackOff = time.Second // before a process is started again; doubled each time
	lastBackOff  = 30 * time.Second
	longLife     = time.Minute // a process that lived so long was no failed attempt
	// maxRestarts bounds how often a server is started again in a row.
	maxRestarts = 8
	// leaveTime is how long a worker or a server that was removed has to end by itself once it
	// has left the job.
	leaveTime = 15 * time.Second
	// lostEndTime is how long a process that was declared lost has to end by itself.
	lostEndTime = 5 * time.Second
)

// stoppedCode is the exit code of a worker that stops with a checkpoint, and has no better one than that of
// SIGTERM.
const stoppedCode = 128 + 15

// backOff is how long to wait before the attempt, from 1 on.
func backOff(attempt int) time.Duration {
	return min(firstBackOff<<min(attempt-1, 10), lastBackOff)
}

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
			m.follow()
		}
		for _, x := range o.Processes {
			p := f.of(x.Process)
			if p == nil && m.roster.ofProcess(x.Process) != nil { // it began before the first report, and was not in it
				p = f.adopt(x)
				m.follow()
			}
			if p != nil && f.saw(p, x.State, out.now.Add(-time.Duration(x.Seconds*float64(time.Second)))) {
				p.lived(x.Seconds, out.now)
				m.processEnded(out, p, x)
			}
		}
		f.settle(o)
		m.observeDepartures(out, o.Hosts)
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
		if m.hosts.status(at.Name) == control.AddQueued && m.workersOn(at.Name) == 0 {
			m.startOn(at.Name, max(at.File, 1), true)
		}
	}
	for _, x := range m.servers.coming {
		m.startServer(out, x.Rank, x.Host)
	}
}

// startServer wants the server of a rank.
func (m *membership) startServer(out *output, rank uint32, host string) {
	if host == "" {
		host = m.serverHost()
	}
	switch {
	case host == "":
		m.serverFailed(out, int(rank), "all hosts of the job are being taken away")
	case m.departing(host):
		m.serverFailed(out, int(rank), "the host is being taken away")
	default:
		m.fleet.want(control.WantedProcess{Role: control.Server, Rank: int(rank), Number: int(rank), Host: host})
	}
}

// follow takes into the fleet what became of the nodes: their ranks, and who has joined.
func (m *membership) follow() {
	for _, n := range m.roster.nodes {
		p := m.fleet.of(n.process)
		if p == nil || n.life != living {
			continue
		}
		joined := p.Joined || m.job.running() && n.Counts()
		if rank := int(n.Rank); joined != p.Joined || joined && rank >= 0 && rank != p.Rank {
			p.Joined, p.Rank = joined, max(rank, p.Rank)
			if rank >= 0 {
				p.Rank = rank
			}
			m.fleet.touch(p)
		}
	}
}

// processEnded says what the end of a process means for the job.
func (m *membership) processEnded(out *output, p *wantedProcess, x control.ObservedProcess) {
	n := m.roster.ofProcess(p.Process)
	switch {
	case p.Judged > 0 || p.Goal == control.GoalLeave:
		m.fleet.judge(p, control.FateRemoved, "", "")
		switch { // it may have ended before it had left the job
		case n == nil:
		case x.OK():
			m.lose(out, n, control.Cause{Kind: control.CauseUnsaid})
		default:
			m.lose(out, n, x.Cause)
		}
	case x.OK():
		m.endedWell(out, p, n)
	case !m.job.open() || m.job.stop != notStopping && p.isWorker() && (m.job.stop != stoppingWithCheckpoint || x.Cause.Exit == stoppedCode):
	case m.job.phase == wire.PhaseForming:
		m.endedEarly(out, p, x)
	case !p.isWorker():
		m.serverEnded(out, p, x)
	case !p.Joined:
		m.neverJoined(out, p, x)
	default:
		m.loseProcess(out, p, n, x.Cause, x.Outside)
	}
	m.fleet.judge(p, "", "", "")
	m.fleet.aim(p, control.GoalOver, 0)
}

// endedWell takes note of a process that ended with code 0. A worker that ended well without a
// Leave has done all its work. If others go on it is declared lost nevertheless, because a division
// would take all of its share for used, and the servers report what it used.
func (m *membership) endedWell(out *output, p *wantedProcess, n *node) {
	switch {
	case n == nil || n.Role != wire.RoleWorker || !m.job.open():
	case m.job.phase == wire.PhaseForming:
		m.depart(out, n, &wire.Leave{Node: n.Node, OK: true})
	case m.set.joins() && n.Counts() && len(m.roster.workers()) > 1:
		m.lose(out, n, control.Cause{Kind: control.CauseUnsaid})
	default:
		m.depart(out, n, &wire.Leave{Node: n.Node, OK: true})
	}
}

// attempts is how often a process that ended before the job was complete is started again.
func (m *membership) attempts(p *wantedProcess) int {
	switch e := m.set.Elastic; {
	case !p.isWorker() && e.Backups > 0:
		return maxRestarts
	case e.OnWorkerLoss == cluster.LossFail:
		return 0
	default:
		return e.Rejoin
	}
}

// endedEarly wants another process in the place of one that ended before the job was complete, if
// the job survives losses. It is the same one for the others: it has done nothing that they know
// of, and they wait for it.
func (m *membership) endedEarly(out *output, p *wantedProcess, x control.ObservedProcess) {
	if n := m.roster.ofProcess(p.Process); n != nil {
		m.lose(out, n, x.Cause)
	}
	attempt := p.Attempt + 1
	if x.Seconds >= longLife.Seconds() {
		attempt = 1
	}
	if attempt > m.attempts(p) || x.Outside {
		m.fleet.judge(p, control.FateFailed, "", "")
		return
	}
	m.fleet.judge(p, control.FateRestarted, "", "")
	again := p.WantedProcess
	again.Early, again.Attempt = true, attempt
	m.wantAgain(again)
}

// wantAgain wants another process like one that ended, after a while.
func (m *membership) wantAgain(x control.WantedProcess) {
	x.DelayMillis, x.GraceMillis = backOff(x.Attempt).Milliseconds(), 0
	x.Prepare, x.Joined, x.Fate, x.Note, x.Reason = false, false, "", "", ""
	m.fleet.want(x)
}

// neverJoined takes note of a worker that ended before it had joined the running job.
func (m *membership) neverJoined(out *output, p *wantedProcess, x control.ObservedProcess) {
	if n := m.roster.ofProcess(p.Process); n != nil {
		defer m.lose(out, n, x.Cause)
	}
	why := fmt.Sprintf("%s ended: %s", p.name(), x.Cause)
	switch x.Cause.Kind {
	case control.CauseStart: // it did not start: so would no other one
		m.fleet.judge(p, control.FateNotStarted, "", x.Cause.Text)
		if p.Attempt == 0 {
			m.hostFailed(out, p.Host, x.Cause.Text)
			return
		}
		why = x.Cause.Text
	case control.CauseExit, control.CauseSignal, control.CauseMachine:
		m.fleet.judge(p, control.FateNotJoined, m.exhausted(p, p.Attempt+1), "")
	default: // no restart can mend it
		m.fleet.judge(p, control.FateNotJoined, "not started again", "")
		m.hostFailed(out, p.Host, fmt.Sprintf("%s ended: %s", p.name(), x.Cause.Text))
		return
	}
	m.joinAgain(out, p, p.Attempt+1, why)
}

// exhausted says of a process that it is not started again, if that is so.
func (m *membership) exhausted(p *wantedProcess, attempt int) string {
	if most := m.set.Elastic.Rejoin; most > 0 && attempt > most {
		return fmt.Sprintf("not started again after %d attempts", most)
	}
	return ""
}

// loseProcess judges the process of a worker that was in the job, and that the job goes on without.
// Another one takes its place, unless somebody else sent it SIGTERM, who wants no replacement; the
// others may be about to end, too.
func (m *membership) loseProcess(out *output, p *wantedProcess, n *node, cause control.Cause, outside bool) {
	if p.Judged > 0 {
		return
	}
	why := cause.String()
	attempt := p.Attempt + 1
	if !p.Began.IsZero() && out.now.Sub(p.Began) >= longLife {
		attempt = 1
	}
	m.fleet.judge(p, control.FateLost, m.exhausted(p, attempt), why)
	if m.fleet.aim(p, control.GoalEnd, lostEndTime); n != nil {
		m.lose(out, n, cause)
	}
	if !outside {
		m.joinAgain(out, p, attempt, fmt.Sprintf("%s ended: %s", p.name(), why))
	}
}

// joinAgain wants another worker where one has ended, because of why. After the last attempt the
// host has failed, unless the worker had joined.
func (m *membership) joinAgain(out *output, p *wantedProcess, attempt int, why string) {
	at := m.sites.of(p.Host)
	if m.job.stop != notStopping || !m.job.running() || at != nil && (at.Away || at.Withdrawn) || m.leaves(p.Host) {
		return
	}
	switch {
	case attempt <= m.set.Elastic.Rejoin:
		again := p.WantedProcess
		again.Early, again.Attempt = false, attempt
		m.wantAgain(again)
	case p.Joined:
		m.startsMissing(out, p.Host, why)
	default:
		m.hostFailed(out, p.Host, why)
	}
}

// leaves reports whether a host is being removed, or was.
func (m *membership) leaves(host string) bool {
	status := m.hosts.status(host)
	return status == control.RemovalQueued || status == control.Removed
}

// serverEnded takes note of a server that was lost. Another one takes its place.
func (m *membership) serverEnded(out *output, p *wantedProcess, x control.ObservedProcess) {
	if n := m.roster.ofProcess(p.Process); n != nil {
		m.lose(out, n, x.Cause)
	}
	if m.set.Elastic.Backups == 0 || !m.job.open() {
		m.fleet.judge(p, control.FateFailed, "", "")
		return
	}
	attempt := p.Attempt + 1
	if x.Seconds >= longLife.Seconds() {
		attempt = 1
	}
	fate, note := control.FateLost, ""
	if !p.Joined {
		fate = control.FateNotJoined
	}
	host := p.Host
	if at := m.sites.of(host); at != nil && at.Away {
		host = m.serverHost()
	}
	switch {
	case attempt > maxRestarts:
		note = fmt.Sprintf("not started again after %d attempts", maxRestarts)
	case x.Cause.Kind == control.CauseStart && p.Attempt == 0: // it was asked for, and does not start
		fate = control.FateNotStarted
	case host == "":
		note = "not started again: no other host may run a server"
	}
	m.fleet.judge(p, fate, note, x.Cause.String())
	switch {
	case fate == control.FateNotStarted, note != "" && !p.Joined:
		m.serverFailed(out, p.Rank, x.Cause.String())
	case note == "" && (m.job.stop == notStopping || m.job.stop == stoppingWithCheckpoint):
		again := p.WantedProcess
		again.Host, again.Attempt, again.Early = host, attempt, false
		m.wantAgain(again)
	}
}

// serverHost chooses where one more server runs; empty: all hosts are away.
func (m *membership) serverHost() string {
	return m.sites.server(func(host string) (n int) {
		for _, p := range m.fleet.list {
			if !p.isWorker() && p.stays() && p.Host == host {
				n++
			}
		}
		return n
	})
}

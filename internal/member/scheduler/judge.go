package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	// firstBackOff is how long to wait before a process is started again. It is doubled each time,
	// up to lastBackOff.
	firstBackOff = time.Second
	lastBackOff  = 30 * time.Second
	// longLife is how long a process must have lived to be no failed attempt.
	longLife = time.Minute
	// maxRestarts bounds how often a server is started again in a row.
	maxRestarts = 8
	// leaveTime is how long a worker or a server that was removed has to end by itself once it
	// has left the job.
	leaveTime = 15 * time.Second
	// lostEndTime is how long a process that was declared lost has to end by itself.
	lostEndTime = 5 * time.Second
)

// stoppedCode is the exit code of a worker that stops with a checkpoint, and has no better one than
// that of SIGTERM.
const stoppedCode = 128 + 15

// backOff is how long to wait before the attempt, from 1 on.
func backOff(attempt int) time.Duration {
	return min(firstBackOff<<min(attempt-1, 10), lastBackOff)
}

// A judge says what the ends of processes mean for the job: whether it goes on, whether another
// process takes their place, and what people are told. It has no state. It changes what is wanted,
// and the membership does for it what concerns nodes and hosts.
type judge struct {
	set    *Settings
	now    time.Time
	job    *jobState
	policy policy
	roster *roster
	hosts  *hostTable
	sites  *sites
	fleet  *fleet

	// lose declares a node lost.
	lose func(n *node, cause control.Cause)
	// takeLeave lets a node leave that has done all its work.
	takeLeave func(n *node, l *wire.Leave)
	// hostFailed gives a host up on which no worker can be started.
	hostFailed func(host, why string)
	// serverFailed drops a server that was asked for.
	serverFailed func(rank int, why string)
	// startsMissing says that a worker that was asked for does not come.
	startsMissing func(host, why string)
}

// ended says what the end of a process means for the job.
func (j *judge) ended(p *wantedProcess, x control.ObservedProcess) {
	n := j.roster.ofProcess(p.Process)
	switch {
	case p.Judged > 0 || p.Goal == control.GoalLeave:
		j.fleet.setFate(p, control.FateRemoved, "", "")
		switch { // it may have ended before it had left the job
		case n == nil:
		case x.OK():
			j.lose(n, control.Cause{Kind: control.CauseUnsaid})
		default:
			j.lose(n, x.Cause)
		}
	case x.OK():
		j.endedWell(p, n)
	case !j.job.open() || j.job.stop != notStopping && p.isWorker() && (j.job.stop != stoppingWithCheckpoint || x.Cause.Exit == stoppedCode):
	case j.job.phase == wire.PhaseForming:
		j.endedEarly(p, x)
	case !p.isWorker():
		j.serverEnded(p, x)
	case !p.Joined:
		j.neverJoined(p, x)
	default:
		j.workerEnded(p, n, x.Cause, x.Outside)
	}
	j.fleet.setFate(p, "", "", "")
	j.fleet.aim(p, control.GoalOver, 0)
}

// endedWell takes note of a process that ended with code 0. A worker that ended well without a
// Leave has done all its work. If others go on it is declared lost nevertheless, because a division
// would take all of its share for used, and the servers report what it used.
func (j *judge) endedWell(p *wantedProcess, n *node) {
	switch {
	case n == nil || n.Role != wire.RoleWorker || !j.job.open():
	case j.job.phase == wire.PhaseForming:
		j.takeLeave(n, &wire.Leave{Node: n.Node, OK: true})
	case j.set.joins() && n.Counts() && len(j.roster.workers()) > 1:
		j.lose(n, control.Cause{Kind: control.CauseUnsaid})
	default:
		j.takeLeave(n, &wire.Leave{Node: n.Node, OK: true})
	}
}

// endedEarly wants another process in the place of one that ended before the job was complete, if
// the job survives losses. It is the same one for the others: it has done nothing that they know
// of, and they wait for it.
func (j *judge) endedEarly(p *wantedProcess, x control.ObservedProcess) {
	if n := j.roster.ofProcess(p.Process); n != nil {
		j.lose(n, x.Cause)
	}
	attempt := p.Attempt + 1
	if x.Seconds >= longLife.Seconds() {
		attempt = 1
	}
	if attempt > j.policy.attempts(p) || x.Outside {
		j.fleet.setFate(p, control.FateFailed, "", "")
		return
	}
	j.fleet.setFate(p, control.FateRestarted, "", "")
	again := p.WantedProcess
	again.Early, again.Attempt = true, attempt
	j.fleet.wantAgain(again)
}

// neverJoined takes note of a worker that ended before it had joined the running job.
func (j *judge) neverJoined(p *wantedProcess, x control.ObservedProcess) {
	if n := j.roster.ofProcess(p.Process); n != nil {
		defer j.lose(n, x.Cause)
	}
	why := fmt.Sprintf("%s ended: %s", p.name(), x.Cause)
	switch x.Cause.Kind {
	case control.CauseStart: // it did not start: so would no other one
		j.fleet.setFate(p, control.FateNotStarted, "", x.Cause.Text)
		if p.Attempt == 0 {
			j.hostFailed(p.Host, x.Cause.Text)
			return
		}
		why = x.Cause.Text
	case control.CauseExit, control.CauseSignal, control.CauseMachine:
		j.fleet.setFate(p, control.FateNotJoined, j.policy.exhausted(p.Attempt+1), "")
	default: // no restart can mend it
		j.fleet.setFate(p, control.FateNotJoined, "not started again", "")
		j.hostFailed(p.Host, fmt.Sprintf("%s ended: %s", p.name(), x.Cause.Text))
		return
	}
	j.joinAgain(p, p.Attempt+1, why)
}

// workerEnded takes note of a worker that was in the job and has ended, and that the job goes on
// without. Another one takes its place, unless somebody else sent it SIGTERM, who wants no
// replacement; the others may be about to end, too.
//
// The fate of its process is set before the node is lost: loseWorker then leaves the process
// alone. Where the node is lost first, loseWorker calls lostFirst, which does not call back.
func (j *judge) workerEnded(p *wantedProcess, n *node, cause control.Cause, outside bool) {
	attempt := j.setLost(p, cause)
	if n != nil {
		j.lose(n, cause)
	}
	if !outside {
		j.replaceLost(p, attempt, cause)
	}
}

// lostFirst ends the process of a worker whose node was lost before the fate of the process was set:
// its lease expired, it left with an error, or it ended with code 0 and had not left. Should it live,
// it is of no use any more; another one is wanted.
func (j *judge) lostFirst(p *wantedProcess, cause control.Cause) {
	j.replaceLost(p, j.setLost(p, cause), cause)
}

// setLost sets the fate of a lost worker's process, and ends it. It returns which attempt another
// process in its place would be.
func (j *judge) setLost(p *wantedProcess, cause control.Cause) (attempt int) {
	attempt = p.Attempt + 1
	if !p.Began.IsZero() && j.now.Sub(p.Began) >= longLife {
		attempt = 1
	}
	j.fleet.setFate(p, control.FateLost, j.policy.exhausted(attempt), cause.String())
	j.fleet.aim(p, control.GoalEnd, lostEndTime)
	return attempt
}

// replaceLost wants another worker in the place of a lost one. It joins later, as any other; the
// change that the loss made does not wait for it unless mustCountWithout says so.
func (j *judge) replaceLost(p *wantedProcess, attempt int, cause control.Cause) {
	j.joinAgain(p, attempt, fmt.Sprintf("%s ended: %s", p.name(), cause))
}

// joinAgain wants another worker where one has ended, because of why. After the last attempt the
// host has failed, unless the worker had joined.
func (j *judge) joinAgain(p *wantedProcess, attempt int, why string) {
	at := j.sites.of(p.Host)
	if j.job.stop != notStopping || !j.job.running() || at != nil && (at.Away || at.Withdrawn) || j.hosts.leaves(p.Host) {
		return
	}
	switch {
	case attempt <= j.set.Elastic.Rejoin:
		again := p.WantedProcess
		again.Early, again.Attempt = false, attempt
		j.fleet.wantAgain(again)
	case p.Joined:
		j.startsMissing(p.Host, why)
	default:
		j.hostFailed(p.Host, why)
	}
}

// serverEnded takes note of a server that was lost. Another one takes its place.
func (j *judge) serverEnded(p *wantedProcess, x control.ObservedProcess) {
	if n := j.roster.ofProcess(p.Process); n != nil {
		j.lose(n, x.Cause)
	}
	if j.set.Elastic.Backups == 0 || !j.job.open() {
		j.fleet.setFate(p, control.FateFailed, "", "")
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
	if at := j.sites.of(host); at != nil && at.Away {
		host = j.sites.server(j.fleet.serversOn)
	}
	switch {
	case attempt > maxRestarts:
		note = fmt.Sprintf("not started again after %d attempts", maxRestarts)
	case x.Cause.Kind == control.CauseStart && p.Attempt == 0: // it was asked for, and does not start
		fate = control.FateNotStarted
	case host == "":
		note = "not started again: no other host may run a server"
	}
	j.fleet.setFate(p, fate, note, x.Cause.String())
	switch {
	case fate == control.FateNotStarted, note != "" && !p.Joined:
		j.serverFailed(p.Rank, x.Cause.String())
	case note == "" && (j.job.stop == notStopping || j.job.stop == stoppingWithCheckpoint):
		again := p.WantedProcess
		again.Host, again.Attempt, again.Early = host, attempt, false
		j.fleet.wantAgain(again)
	}
}

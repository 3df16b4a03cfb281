package job

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	firstBackOff = time.Second // before a process is started again; doubled each time
	lastBackOff  = 30 * time.Second
	longLife     = time.Minute // a process that lived so long was no failed attempt

	// maxRestarts bounds how often a scheduler or a server is started again in a row.
	maxRestarts = 8
	// noWorkerTime is how long a job may have no worker at all before it is given up, whatever
	// its scheduler waits for.
	noWorkerTime = 10 * time.Second
	// lostEndTime is how long a process that the scheduler has declared lost has to end by
	// itself.
	lostEndTime = 5 * time.Second
)

// backOff is how long to wait before the attempt, from 1 on.
func backOff(attempt int) time.Duration {
	return min(firstBackOff<<min(attempt-1, 10), lastBackOff)
}

// endedWell takes note of a process that ended with code 0.
func (c *core) endedWell(n *Node) {
	if n.Role != roleScheduler && n.fate.code == "" && n.leaving {
		n.fate = fate{code: control.FateRemoved}
	}
	if c.stage != running {
		return
	}
	if n.Role == roleWorker && n.member && !n.leaving && c.set.Changes {
		c.reportLeft(n)
	}
	if n.Role == roleWorker && !c.formed {
		c.after(joinedReportTime, unjoinedCheck{})
	}
	if n.Role == roleScheduler && c.formed && c.set.Changes {
		// All workers that were in the job have left it; they may still have work of their
		// own. Nobody admits the others any more.
		c.done = true
		for _, j := range slices.Clone(c.joining) {
			c.cancelJoin(j, "the job is done")
		}
		for _, n := range c.nodes {
			if n.Role == roleWorker && !n.ended && !n.member {
				c.evict(n, fate{code: control.FateUnneeded}, lostEndTime)
			}
		}
	}
}

// goesOn reports whether the job survives a process that failed, and does what there is to do for
// it.
func (c *core) goesOn(n *Node) bool {
	switch {
	case n.lost:
		return true
	case c.stage > running || c.reported != nil:
		return false
	case c.machineKey(n) == "" && n.machine.lost:
		return false // all that ran beside the launcher is gone, and nothing can be started there
	case n.Role == roleScheduler:
		return c.set.State && c.restartScheduler(n)
	case n.Role == roleServer && n.leaving:
		n.fate = fate{code: control.FateRemoved}
		return true
	case !c.formed:
		return c.startAgain(n)
	case n.Role == roleServer:
		return c.set.Backups > 0 && c.restartServer(n)
	case n.leaving:
		n.fate = fate{code: control.FateRemoved}
		c.reportLoss(n) // it may have ended before it had left the job
		return true
	case !n.member:
		c.neverJoined(n)
		return true
	case c.set.OnWorkerLoss == LossFail:
		return false
	}
	c.reportLoss(n)
	c.loseWorker(n, n.Exit.String())
	return true
}

// neverJoined takes note of a worker that ended before it had joined the running job.
func (c *core) neverJoined(n *Node) {
	n.fate = fate{code: control.FateNotJoined}
	if n.Exit.Final() {
		why := causeOf(n.Exit)
		n.fate.note = "not started again"
		c.warn(fmt.Sprintf("%s on %s ended before it had joined: exit %d: %s; no restart can mend this, so it is not started again", n.Name(), n.Host, n.Exit.Code, why.Text),
			joblog.ProcessUnjoined.Of(n.logged(), "exit", n.Exit.String()))
		c.hostFailed(n.host, fmt.Errorf("%s ended: %s", n.Name(), why.Text))
		return
	}
	hint := ""
	if n.Exit.Signal == 0 && n.Exit.Err == "" && !n.asked() {
		hint = "; a worker that joins a running job has to call Ready of its store (kvstore.Elastic) before it takes part, as worker.Fit does"
	}
	c.warn(fmt.Sprintf("%s on %s ended before it had joined: %s%s", n.Name(), n.Host, n.Exit, hint), joblog.ProcessUnjoined.Of(n.logged(), "exit", n.Exit.String()))
	c.replaceWorker(n, n.Exit.String())
}

// loseWorker takes note of a worker that was in the job; the job goes on without it.
func (c *core) loseWorker(n *Node, why string) {
	n.lost, n.fate = true, fate{code: control.FateLost}
	c.lost = n
	if n.asked() { // whoever sent the signal wants no replacement, and the others may be about to end, too
		c.warn(fmt.Sprintf("%s on %s ended: %s: it or another worker %s", n.Name(), n.Host, n.Exit, outside), joblog.WorkerLost.Of(n.logged(), "reason", n.Exit.String()))
		return
	}
	verb := "was lost"
	if n.failedItself() {
		verb = "failed"
	}
	c.warn(fmt.Sprintf("%s on %s %s: %s; the job goes on", n.Name(), n.Host, verb, why), joblog.WorkerLost.Of(n.logged(), "reason", why))
	c.replaceWorker(n, why)
}

// replaceWorker starts a worker again where it was, after a while.
func (c *core) replaceWorker(n *Node, why string) {
	attempt := n.attempt + 1
	if n.member && c.now.Sub(n.started) >= longLife {
		attempt = 1
	}
	if c.set.Rejoin > 0 && attempt > c.set.Rejoin {
		n.fate.note = fmt.Sprintf("not started again after %d attempts", c.set.Rejoin)
	}
	c.joinAgain(n.host, attempt, fmt.Errorf("%s ended: %s", n.Name(), why), n.member)
}

// workerDeclaredLost takes note of a worker that the scheduler has declared lost. Its process may
// live, stopped or cut off: it is of no use any more, and another one takes its place.
func (c *core) workerDeclaredLost(h hosts.Host, e control.Event) {
	n := c.find(e.Process)
	switch {
	case n == nil || n.lost || n.leaving:
	case n.ended: // with 0, and it never left the job
		c.loseWorker(n, e.Reason)
	default: // how it ends says more, if it is ending
		c.after(settleTime, declaredLoss{n, e.Reason})
	}
	living := slices.DeleteFunc(c.workersOn(h), func(o *Node) bool { return !o.member || o.lost || o == n })
	if len(living) == 0 {
		c.setMember(h, false, e)
	}
}

// declaredLoss goes on without a worker that the scheduler has declared lost.
type declaredLoss struct {
	node *Node
	why  string
}

func (l declaredLoss) run(c *core) {
	if l.node.lost || c.stage != running {
		return
	}
	c.loseWorker(l.node, l.why)
	if !l.node.ended {
		c.evict(l.node, fate{}, lostEndTime)
	}
}

// serverDeclaredLost takes note of a server that the scheduler has declared lost. Should its
// process live, stopped say, it is made to end: then another one takes its place.
func (c *core) serverDeclaredLost(e control.Event) {
	if n := c.find(e.Process); n != nil && !n.ended {
		c.after(lostEndTime, kill{n}) // it has nothing left to do in order
	}
}

// noWorker decides what becomes of a job in which no worker runs that is in the job.
func (c *core) noWorker() {
	done := c.anyWorkerDone()
	switch {
	case done && !c.formed && c.anyComing():
		return // a worker that failed is being started again, and how that ends counts
	case done:
		for _, n := range c.nodes {
			if n.Role == roleWorker && !n.ended {
				n.stopped, n.fate = true, fate{code: control.FateUnneeded}
				c.signal(n, syscall.SIGTERM)
			}
		}
		c.enter(finishing)
	case !c.set.Changes, c.checkpoint.asked:
		c.enter(finishing)
	case c.done: // all members have sent a leave request
		c.limitNoWorker(0)
	default: // the scheduler says whether that is the end; others may be about to join
		c.limitNoWorker(noWorkerTime)
	}
}

// anyWorkerDone reports whether a worker that was in the job ended with code 0, and was in it to
// its end.
func (c *core) anyWorkerDone() bool {
	return slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return n.Role == roleWorker && n.ended && n.Exit.OK() && n.member && !n.leaving && !n.lost
	})
}

// limitNoWorker bounds how long the job may be without a worker.
func (c *core) limitNoWorker(d time.Duration) {
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return t.due == due(noWorkerLimit{}) })
	c.after(d, noWorkerLimit{})
}

// noWorkerLimit gives a job up that still has no worker.
type noWorkerLimit struct{}

func (noWorkerLimit) run(c *core) {
	switch {
	case c.stage != running || c.activeWorkers() > 0:
		return
	case !c.done && (len(c.joining) > 0 || c.anyComing()):
		c.limitNoWorker(noWorkerTime)
		return
	}
	for _, n := range c.nodes {
		if n.Role == roleWorker && !n.ended {
			return // the scheduler bounds how long it may take to join
		}
	}
	c.failure, c.first = &control.Failure{Code: control.NoWorkerLeft, Rank: -1}, c.lost
	if c.done && c.lost != nil && c.lost.asked() {
		c.failure.Code = control.StoppedByOthers
	}
	c.error(c.failure.String()+"; stopping servers and scheduler", joblog.JobStopping.With())
	c.enter(stopWorkers)
}

// anyComing reports whether a worker is about to be started again.
func (c *core) anyComing() bool {
	for _, s := range c.hostStates {
		if s.coming+s.restarts > 0 {
			return true
		}
	}
	return false
}

// failedItself reports whether the process ended by itself, with a code other than 0.
func (n *Node) failedItself() bool {
	return n.ended && n.Exit.Signal == 0 && n.Exit.Err == "" && !n.Exit.OK()
}

// asked reports whether a worker ended because somebody other than the launcher sent it SIGTERM, as
// its exit code says.
func (n *Node) asked() bool {
	return n.Role == roleWorker && n.ended && !n.signalled && !n.stopped && n.Exit.Signal == 0 && n.Exit.Code == 128+int(syscall.SIGTERM)
}

package job

import (
	"slices"
	"syscall"
	"time"

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
	if n.Role == roleWorker && !c.formed {
		if c.after(joinedReportTime, unjoinedCheck{}); c.set.Changes {
			c.follow() // the job must not become complete with it
		}
	}
	if n.Role == roleWorker && c.formed && c.set.Changes && !n.stopped && !n.leaving && !n.lost && c.reported == nil && !c.schedulerDone() {
		// It has done all its work, or was let go, which the launcher need not know yet: the
		// scheduler says so.
		c.awaitVerdict(n)
	}
	if n.Role == roleScheduler && !c.formed { // nobody says any more what the others' ends mean
		for _, o := range c.nodes {
			if o.awaited && c.stage == running {
				o.awaited = false
				c.failed(o)
			}
		}
	}
	if n.Role == roleScheduler && c.formed && c.set.Changes && c.stage == running {
		// All workers that were in the job have left it; they may still have work of their
		// own. Nobody admits the others any more.
		c.done = true
		for _, n := range slices.Clone(c.arrivals) {
			c.cancelArrival(n, "the job is done")
		}
		for _, process := range sortedKeys(c.launching) {
			if n := c.launching[process]; n.Role == roleWorker {
				n.unwanted = fate{code: control.FateUnneeded}
				c.do(cancelStart{process, "the job is done"})
			}
		}
		for _, n := range c.nodes {
			if c.takeForLost(n); n.Role == roleWorker && !n.ended && !n.member {
				c.evict(n, fate{code: control.FateUnneeded}, lostEndTime)
			}
		}
	}
}

// takeForLost takes it for given that the scheduler has reported that the job goes on without a process, where it
// will not come any more. One that ended with code 0 has done all its work then.
func (c *core) takeForLost(n *Node) {
	if !n.awaited {
		return
	}
	if n.Exit.OK() {
		n.awaited = false
		return
	}
	if n.awaited, n.lost = false, true; n.Role == roleWorker && !n.member {
		n.fate = fate{code: control.FateNotJoined}
		return
	}
	if n.fate = (fate{code: control.FateLost}); n.Role == roleWorker {
		c.lost = n
	}
	c.tellLost(n, control.WantedProcess{})
}

// goesOn reports whether the job may survive a process that failed. Of a server and of a worker the
// scheduler says so, and what takes its place; until then its end is awaited. A job whose processes
// are fixed does not survive any.
func (c *core) goesOn(n *Node) bool {
	switch {
	case n.lost:
		return true
	case c.stage > running || c.reported != nil:
		return false
	case c.machineKey(n) == "" && n.machine != nil && n.machine.lost:
		return false // all that ran beside the launcher is gone, and nothing can be started there
	case n.Role == roleScheduler:
		return c.set.State && c.restartScheduler(n)
	case n.leaving:
		n.fate = fate{code: control.FateRemoved}
		return true
	case !c.formed:
		if c.attempts(n) == 0 || n.asked() || c.schedulerDone() {
			return false
		}
	case n.Role == roleServer && c.set.Backups == 0, n.Role == roleWorker && n.member && c.set.OnWorkerLoss == LossFail:
		return false
	}
	if c.awaitVerdict(n); c.schedulerDone() {
		c.takeForLost(n)
	}
	return true
}

// schedulerDone reports whether the scheduler has ended with code 0: it says nothing any more.
func (c *core) schedulerDone() bool {
	s := c.scheduler()
	return s.ended && s.Exit.OK()
}

// noWorker decides what becomes of a job in which no worker runs that is in the job.
func (c *core) noWorker() {
	done := c.anyWorkerDone()
	switch {
	case c.anyDoneAwaited():
		return // the scheduler says whether others have taken its place
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

// anyDoneAwaited reports whether the scheduler is still to say what the end of a worker means that
// ended with code 0.
func (c *core) anyDoneAwaited() bool { return slices.ContainsFunc(c.nodes, (*Node).doneAwaited) }

func (n *Node) doneAwaited() bool { return n.Role == roleWorker && n.awaited && n.Exit.OK() }

// doneJudged goes on when the scheduler has said what the ends of workers mean for which it was
// waited.
func (c *core) doneJudged() {
	if c.stage == running && !c.anyDoneAwaited() && c.activeWorkers() == 0 {
		c.noWorker()
	}
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
	case !c.done && c.anyComing():
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

// anyComing reports whether a worker is on its way, or may be: the scheduler has not said yet what
// the end of one means.
func (c *core) anyComing() bool {
	if slices.ContainsFunc(slices.Concat(c.nodes, c.unstarted), func(n *Node) bool { return n.Role == roleWorker && n.awaited }) {
		return true
	}
	return slices.ContainsFunc(c.arrivals, func(n *Node) bool { return n.Role == roleWorker })
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

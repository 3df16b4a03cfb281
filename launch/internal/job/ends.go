package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// noWorkerTime is how long a job may have no worker at all before it is given up, whatever
	// its scheduler waits for.
	noWorkerTime = 10 * time.Second
	// unadmittedEndTime is how long a worker that has not joined has to end by itself, when the
	// scheduler has ended and admits nobody any more.
	unadmittedEndTime = 5 * time.Second
)

// Timers: one warns if no worker has joined, one looks for workers that ended and have not joined,
// one gives a job up that still has no worker.
type (
	noneJoined    struct{}
	unjoinedCheck struct{}
	noWorkerLimit struct{}
)

// processStarted takes note that a process runs. While it was being started the job may have begun
// to end, or may have lost its use for it: it could not be told to end before it ran.
func (c *core) processStarted(e started) {
	n := c.procs.launching[e.process]
	if n == nil {
		return
	}
	delete(c.procs.launching, e.process)
	n.PID = e.pid
	switch {
	case c.stage == starting:
		c.startedAtStart(n, nil)
		return
	case n.Role == rolePrepare:
		if c.stage < closing {
			c.runner.preparationStarted(n)
		}
		return
	}
	c.procs.nodes = append(c.procs.nodes, n)
	// It ends with its machine.
	if c.stage >= closing {
		n.signalled = true
		return
	}
	c.out.changed = true
	if n.owed != 0 {
		c.reaper.signal(n, n.owed)
	}
	switch {
	// The others have been told to end, or will be.
	case c.stage >= stopAll || n.Role == roleWorker && c.stage > running:
		c.reaper.stop(n)
	case n.unwanted.code != "" || n.Role == roleWorker && c.done:
		c.reaper.evict(n, unneeded, 0)
	}
}

// processNotStarted takes note that a process could not be started. At the start it may be started
// again, once all others have been. Of servers and workers of a running job the scheduler says what
// that means.
func (c *core) processNotStarted(e startFailed) {
	n := c.procs.launching[e.process]
	if n == nil {
		return
	}
	delete(c.procs.launching, e.process)
	n.ended = c.stage != starting
	switch {
	case c.stage == starting:
		c.startedAtStart(n, e.err)
	case c.stage >= closing:
	case n.Role == rolePrepare:
		c.runner.preparationOver(n, fmt.Errorf("prepare-data: %w", e.err))
	case n.Role == roleScheduler:
		c.schedulerNotStarted(n, e.err)
	default:
		c.runner.gpus.free(n)
		c.runner.notStarted(n, e.err)
	}
}

// processEnded takes the end of a process. A preparation that was abandoned may still end, and nobody
// waits for it.
func (c *core) processEnded(e ended) {
	if n := c.runner.preparing(e.process); n != nil && c.stage != starting {
		n.finish(e)
		c.runner.preparationEnded(n)
		return
	}
	n := c.procs.find(e.process)
	switch {
	case n == nil || n.ended:
	case c.stage == starting:
		c.endedAtStart(n, e)
	default:
		n.finish(e)
		c.out.changed = true
		if c.stage < closing {
			c.afterEnd(n)
		}
	}
}

// afterEnd says what the end of a process means for the job. Servers and scheduler may end before
// the last worker does, once all have left the job.
//
// The order of the cases says what counts more: an error that no restart can mend counts even when
// the job is being stopped, other failures only until the others have been told to end, and a worker
// that stops with a checkpoint has not failed.
func (c *core) afterEnd(n *Node) {
	switch {
	case n.Exit.OK():
		c.endedWell(n)
	case n.Exit.Final() && n.needed(c.present.complete):
		c.failedFinally(n)
	case c.stage > settling || n.stopped:
	case c.checkpoint.stoppedWell(n):
		n.stopped = true
	case c.goesOn(n):
	default:
		c.failed(n)
	}
	if !c.procs.working(c.stage > running) {
		switch c.stage {
		case running:
			c.noWorker()
		case stopWorkers:
			c.enter(stopAll)
		}
	}
	c.runner.release(n.host)
	if c.procs.forget(c.ending.first, c.ending.culprit, c.ending.lost) {
		c.history.forget(c.procs.nodes)
	}
}

// endedWell takes note of a process that ended with code 0.
func (c *core) endedWell(n *Node) {
	if n.Role != roleScheduler && n.fate.code == "" && n.leaving {
		n.fate = fate{code: control.FateRemoved}
	}
	switch {
	case c.stage != running:
	case n.Role == roleScheduler:
		c.schedulerEndedWell()
	case n.Role != roleWorker:
	case !c.present.complete:
		// The scheduler is told, so that the job does not become complete with it.
		if c.out.after(joinedReportTime, unjoinedCheck{}); c.set.Changes() {
			c.beginExchange()
		}
	case c.set.Changes() && !n.stopped && !n.leaving && !n.lost && c.ending.reported == nil && !c.procs.schedulerDone():
		// It has done all its work, or was let go, which the launcher need not know yet: the
		// scheduler says so.
		n.await(&c.out)
		c.beginExchange()
	}
}

// schedulerEndedWell goes on without a scheduler. Where the job was not complete, nobody says any
// more what the ends of others mean, so they failed. Else all workers that were in the job have left
// it; they may still have work of their own, but nobody admits others.
func (c *core) schedulerEndedWell() {
	if !c.present.complete {
		for _, n := range c.procs.nodes {
			if n.awaited && c.stage == running {
				n.awaited = false
				c.failed(n)
			}
		}
		return
	}
	if !c.set.Changes() {
		return
	}
	c.done = true
	c.runner.admitNone("the job is done")
	for _, n := range c.procs.nodes {
		if c.takeForLost(n); n.Role == roleWorker && !n.ended && !n.member {
			c.reaper.evict(n, unneeded, unadmittedEndTime)
		}
	}
}

// takeForLost takes it for given that the scheduler has reported that the job goes on without a
// process, where it will not come any more. One that ended with code 0 has done all its work then.
func (c *core) takeForLost(n *Node) {
	if !n.awaited {
		return
	}
	n.awaited = false
	switch {
	case n.Exit.OK():
	case n.Role == roleWorker && !n.member:
		n.lost, n.fate = true, fate{code: control.FateNotJoined}
	default:
		if n.lost, n.fate = true, (fate{code: control.FateLost}); n.Role == roleWorker {
			c.ending.lost = n
		}
		n.tellLost(&c.out, "", c.want.over)
	}
}

// goesOn reports whether the job may survive a process that failed. Of a server and of a worker the
// scheduler says so, and what takes its place; until then its end is awaited. A job whose processes
// are fixed does not survive any, and the launcher says so at once, without the scheduler: the
// others may hang without the one that is missing.
func (c *core) goesOn(n *Node) bool {
	switch {
	case n.lost:
		return true
	case c.stage > running || c.ending.reported != nil:
		return false
	// All that ran beside the launcher is gone, and nothing can be started there.
	case c.runner.machineKey(n) == "" && n.machine != nil && n.machine.lost:
		return false
	case n.Role == roleScheduler:
		return c.set.State != "" && c.restartScheduler(n)
	// It was to leave, however it ends.
	case n.leaving:
		n.fate = fate{code: control.FateRemoved}
		return true
	case !c.present.complete:
		if c.set.attempts(n) == 0 || n.asked() || c.procs.schedulerDone() {
			return false
		}
	case n.Role == roleServer && c.set.Backups == 0, n.Role == roleWorker && n.member && c.set.OnWorkerLoss == LossFail:
		return false
	}
	if n.await(&c.out); c.procs.schedulerDone() {
		c.takeForLost(n)
	}
	c.beginExchange()
	return true
}

// failed takes note of a process whose failure the job does not survive, and lets others that failed
// for the same reason end before they are told to. After a worker that no restart can mend, the ends
// of others follow from its end.
func (c *core) failed(n *Node) {
	if c.ending.final != nil {
		return
	}
	if c.ending.first == nil {
		c.standstill.failedAt(c.out.now)
	}
	c.ending.failed(&c.out, n, c.procs.nodes, c.present.beforeComplete(n, &c.set))
	c.enter(settling)
}

// failedFinally takes note of a worker that said that no restart can mend its error.
func (c *core) failedFinally(n *Node) {
	if c.ending.final == nil {
		c.ending.failedFinally(&c.out, n, c.stage < settling)
		c.enter(settling)
	}
}

// endUnjoined ends a job that cannot become complete: workers have ended with code 0 and are not in
// it, and others wait for them. If no worker has joined, none of them waits.
func (c *core) endUnjoined() {
	if c.stage != running || c.present.complete {
		return
	}
	names := c.present.unjoined(c.procs.nodes, c.out.now)
	switch {
	case len(names) == 0:
	case c.present.any():
		c.ending.failure = &control.Failure{Code: control.NotJoined, Rank: -1, Waiting: names}
		c.out.error(c.ending.failure.String()+"; stopping them", joblog.JobStopping.With())
		c.enter(stopWorkers)
	default:
		c.present.warn(&c.out, strings.Join(names, ", ")+" ended with exit 0 without joining the job")
	}
}

// noWorker decides what becomes of a job in which no worker runs that is in the job. If one of them
// was done the training is done, for workers are done together. If none was, the job may still get
// others: the scheduler knows, and has a while to say so.
func (c *core) noWorker() {
	done := c.procs.any((*Node).done)
	switch {
	// The scheduler says whether others have taken its place.
	case c.procs.any((*Node).doneAwaited):
	// A worker that failed is being started again, and how that ends counts.
	case done && !c.present.complete && c.procs.anyComing():
	case done:
		for _, n := range c.procs.nodes {
			if n.Role == roleWorker && !n.ended {
				c.reaper.stop(n)
			}
		}
		c.enter(finishing)
	case !c.set.Changes(), c.checkpoint.asked:
		c.enter(finishing)
	// All members have sent a leave request.
	case c.done:
		c.out.afterAnew(0, noWorkerLimit{})
	// The scheduler says whether that is the end; others may be about to join.
	default:
		c.out.afterAnew(noWorkerTime, noWorkerLimit{})
	}
}

// doneJudged goes on when the scheduler has said what the ends of workers mean for which it was
// waited.
func (c *core) doneJudged() {
	if c.stage == running && !c.procs.any((*Node).doneAwaited) && !c.procs.working(c.stage > running) {
		c.noWorker()
	}
}

// noWorkerStill gives a job up that still has no worker. How long one may take to join the scheduler
// bounds.
func (c *core) noWorkerStill() {
	switch {
	case c.procs.working(false):
	case !c.done && c.procs.anyComing():
		c.out.afterAnew(noWorkerTime, noWorkerLimit{})
	case c.procs.any(func(n *Node) bool { return n.Role == roleWorker && !n.ended }):
	default:
		c.ending.noWorkerLeft(&c.out, c.done)
		c.enter(stopWorkers)
	}
}

// schedulerSilent looks whether a job without workers still waits for a scheduler that runs and does
// not answer. While a worker lives or is on its way the wait has no bound, for the job goes on.
// Neither has it one while the scheduler is being started again, for its restarts are counted.
func (c *core) schedulerSilent(v verdictWait) {
	if !c.procs.anyAwaited() {
		return
	}
	s := c.procs.scheduler()
	silent := c.out.now.Sub(c.procs.silentSince(c.scheduler.heard))
	switch {
	case s.ended || c.procs.launching[s.process] != nil || c.procs.anyWorkerLeft():
		c.out.after(verdictTold, verdictWait{})
	case silent >= verdictTime:
		c.withoutVerdict(s, silent)
	case silent >= verdictTold:
		v.tell(&c.out, s, silent)
		c.out.after(verdictTime-silent, verdictWait{told: true})
	default:
		c.out.after(verdictTold-silent, v)
	}
}

// withoutVerdict ends a job whose scheduler stays silent: as failed if a worker that was in the job
// failed, or any process of a job that never was complete; else as done, if a worker was done.
func (c *core) withoutVerdict(s *Node, silent time.Duration) {
	c.out.error(fmt.Sprintf("no worker is left, and the scheduler on %s has not answered for %s", s.Host, silent.Round(time.Second)), joblog.JobStopping.With())
	for _, n := range slices.Concat(c.procs.nodes, c.procs.unstarted) {
		if !n.awaited {
			continue
		}
		if n.awaited = false; !n.Exit.OK() && (n.needed(c.present.complete) || !c.present.complete) {
			c.failed(n)
		}
	}
	c.doneJudged()
}

package job

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A stage is how far the job is on its way to its end; it only grows.
type stage int

const (
	// starting: not all first processes have been started.
	starting stage = iota
	// running: all have, though nodes may have to register yet.
	running
	// finishing: all workers ended well. Servers and scheduler are ending by themselves.
	finishing
	// settling: a process failed. Others are waited for, as one of them may have failed first.
	settling
	// stopWorkers: workers have SIGTERM, while servers still run that they may need for a
	// checkpoint.
	stopWorkers
	// stopAll: everybody has SIGTERM.
	stopAll
	// killing: everybody has SIGKILL.
	killing
	// closing: all connections are being closed.
	closing
	over
)

const (
	// settleTime is how long the launcher waits for further failures after one: the process
	// that failed first may be reported last.
	settleTime = 250 * time.Millisecond
	// killTime is the least time between the last SIGTERM and SIGKILL, and how long killed
	// processes are waited for.
	killTime = 500 * time.Millisecond
	// stopAskTime bounds what a scheduler that is out of reach may take of the time to stop.
	stopAskTime = 300 * time.Millisecond
)

// enter goes on to a later stage.
func (c *core) enter(s stage) {
	if s <= c.stage {
		return
	}
	if c.stage == running {
		c.leaveRunning(s)
	}
	limit := killTime
	switch c.stage = s; s {
	case finishing:
		limit = c.set.FinishTime
	case settling:
		limit = settleTime
	case stopWorkers:
		c.deadline = c.out.now.Add(c.set.StopTimeout)
		if !c.procs.working(true) {
			c.enter(stopAll)
			return
		}
		limit = c.set.StopTimeout
		c.stopTogether()
	case stopAll:
		c.reaper.signalAll(syscall.SIGTERM, roleServer, roleScheduler)
		limit = max(c.deadline.Sub(c.out.now), killTime)
	case killing:
		c.reaper.signalAll(syscall.SIGKILL, roleWorker, roleServer, roleScheduler)
		c.runner.killPreparations()
	}
	c.stageOver = c.out.now.Add(limit)
}

// leaveRunning ends all that would change the job. A worker whose connection was lost cannot say
// itself that it is done, so the scheduler is told once more of a job that is done.
func (c *core) leaveRunning(next stage) {
	if next == finishing && c.procs.any((*Node).done) && c.exchange.begun && c.out.changed && !c.done {
		c.report(c.set.FinishTime)
	}
	const why = "the job is being stopped"
	c.out.timers.settle()
	c.machines.cancel(why)
	c.requests.cancel(why)
	c.runner.freeze(why)
	if next != settling {
		for _, n := range c.procs.nodes {
			c.takeForLost(n)
		}
	}
}

// nextStage goes on to what follows when the time of a stage is over.
func (c *core) nextStage() {
	switch c.stage {
	case finishing:
		if len(c.set.Workers) > 1 && !c.present.complete && !c.present.any() {
			c.present.warn(&c.out, "all workers are done, and none has joined the job")
		}
		text := "all workers are done; stopping servers and scheduler, which did not end by themselves"
		if !c.procs.any(func(n *Node) bool { return n.Role != roleWorker && !n.ended }) {
			text = "all workers of the job are done; stopping those that had not joined it yet"
		}
		c.out.info(text, joblog.JobStopping.With())
		for _, n := range c.procs.nodes {
			n.stopped = n.stopped || !n.ended
		}
		c.deadline = c.out.now.Add(c.set.StopTimeout)
		c.enter(stopAll)
	case settling, stopWorkers, stopAll:
		c.enter(c.stage + 1)
	// Closing the machines ends what is left.
	case killing:
		c.close()
	}
}

// stopTogether sends all workers SIGTERM. The scheduler is told first that all are to stop: in an
// elastic job a worker that gets SIGTERM leaves the job alone, and where a lost worker is waited
// for the others cannot take another step. If it does not answer, the workers agree to stop because
// all of them got the signal.
func (c *core) stopTogether() {
	fixed := !c.set.Enabled && c.set.OnWorkerLoss != LossWait
	if fixed || !c.present.complete || c.done || c.ending.reported != nil {
		c.reaper.signalAll(syscall.SIGTERM, roleWorker)
		return
	}
	c.requests.ask(control.Request{Op: control.OpStop}, stopAskTime, stopRequest{})
}

// signalled takes a signal: the first asks the processes to stop, the second kills them. SIGUSR1
// stops the job with a checkpoint.
func (c *core) signalled(e signalled) {
	switch {
	case c.stage >= closing:
	case e.signal == syscall.SIGUSR1:
		c.stopWithCheckpoint("SIGUSR1", c.set.CheckpointTime)
	case c.ending.interrupt.signal != 0:
		if c.stage > starting {
			c.enter(killing)
		}
	default:
		c.ending.interrupt = e
		if c.stage == starting {
			c.abort(fmt.Errorf("stopped by %s", e.signal))
		} else if c.stage < stopWorkers {
			c.out.warn(fmt.Sprintf("%s: stopping all processes; a second signal kills them", e.signal), joblog.JobStopping.With("signal", int(e.signal)))
			c.enter(stopWorkers)
		}
	}
}

// stopWithCheckpoint begins to stop the job with a checkpoint: within the limit it must be complete,
// else the job is stopped as by SIGTERM. Before the job is complete it waits for that: the workers
// begin, or resume, and write a checkpoint after the first step.
func (c *core) stopWithCheckpoint(why string, limit time.Duration) {
	switch {
	case c.stage > running:
		c.out.info(why + ": the job is ending already")
		return
	case c.checkpoint.requested():
		c.out.info(why + ": the job is being stopped with a checkpoint already")
		c.checkpoint.boundBy(&c.out, c.out.now.Add(limit))
		return
	}
	c.checkpoint.why = why
	for _, n := range c.machines.noticed() {
		limit = max(min(limit, n.checkpointBy.Sub(c.out.now)), 0)
	}
	c.checkpoint.bound(&c.out, limit)
	c.out.warn(fmt.Sprintf("%s: stopping the job with a checkpoint, within %s", why, limit), joblog.JobStopping.With("reason", why))
	c.askCheckpoint()
}

// askCheckpoint tells the scheduler to stop the job with a checkpoint, as soon as the job is
// complete. It is asked until it answers, also while it is being started again.
func (c *core) askCheckpoint() {
	s := &c.checkpoint
	if s.requested() && !s.asked && c.present.complete && c.stage == running {
		s.asked = true
		c.requests.ask(control.Request{Op: control.OpCheckpointStop, Reason: s.why}, 0, checkpointRequest{})
	}
}

// checkpointLate stops a job whose checkpoint takes too long.
func (c *core) checkpointLate() {
	s := &c.checkpoint
	s.late = true
	switch c.stage {
	case starting:
		c.abort(errors.New(s.failure(&c.procs, c.start.err).String()))
	case running:
		c.out.warn(fmt.Sprintf("no checkpoint is complete after %s (--checkpoint-timeout); stopping all processes", s.limit), joblog.JobStopping.With("reason", s.why))
		c.enter(stopWorkers)
	}
}

// cancel stops the job because the context of Run has ended, in the same steps as a signal does.
func (c *core) cancel(e cancelled) {
	if c.stage >= closing {
		return
	}
	c.ending.cancelled = true
	if c.stage == starting {
		c.abort(e.err)
	} else {
		c.enter(stopWorkers)
	}
}

// close closes all connections, which ends what is left. No event has an effect after it but the ends
// of processes, which the table shows.
func (c *core) close() {
	if c.stage >= closing {
		return
	}
	if c.stage > starting {
		c.history.departed(&c.procs)
	}
	// These are ends of a start that failed.
	for _, e := range c.start.early {
		if n := c.procs.find(e.process); n != nil && !n.ended {
			n.finish(e)
		}
	}
	c.stage, c.stageOver, c.runner.open = closing, time.Time{}, false
	c.out.timers.clear()
	for _, n := range c.procs.nodes {
		// Machines that were closed are lost, too.
		n.lostMachine = n.machine != nil && n.machine.lost
		n.signalled = n.signalled || !n.ended && n.PID != 0
	}
	c.out.do(closeAll{})
}

// allClosed ends the job. What is not known to have ended by now runs on a host that was lost; the
// agent there ends it when it gives the launcher up.
func (c *core) allClosed() {
	if c.stage != closing {
		return
	}
	c.stage = over
	for _, n := range c.procs.nodes {
		if !n.ended && n.PID != 0 {
			n.Exit.Err, n.Exit.Code, n.Exit.Lost = "unknown: its host does not answer", 255, true
		}
	}
	c.out.do(end{})
}

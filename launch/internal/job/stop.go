package job

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A stage is how far the job is on its way to its end; it only grows.
type stage int

const (
	starting    stage = iota // not all first processes have been started
	running                  // also while nodes have to register yet
	finishing                // all workers ended well; servers and scheduler are ending by themselves
	settling                 // a process failed; others are waited for, as one of them may have failed first
	stopWorkers              // workers have SIGTERM
	stopAll                  // everybody has SIGTERM
	killing                  // everybody has SIGKILL
	closing                  // all connections are being closed
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
		if s == finishing && c.anyWorkerDone() {
			c.tellLast()
		}
		c.cancelPending()
		for _, n := range c.nodes {
			if s != settling {
				c.takeForLost(n)
			}
		}
	}
	c.stage, c.stageOver = s, time.Time{}
	switch s {
	case finishing:
		c.limitStage(c.set.FinishTime)
	case settling:
		c.limitStage(settleTime)
	case stopWorkers:
		c.deadline = c.now.Add(c.set.StopTimeout)
		if c.activeWorkers() == 0 {
			c.enter(stopAll)
			return
		}
		c.limitStage(c.set.StopTimeout)
		c.stopTogether()
	case stopAll:
		c.signalAll(syscall.SIGTERM, roleServer, roleScheduler)
		c.limitStage(max(c.deadline.Sub(c.now), killTime))
	case killing:
		c.signalAll(syscall.SIGKILL, roleWorker, roleServer, roleScheduler)
		for _, name := range sortedKeys(c.accesses) {
			if n := c.accesses[name].preparation; n != nil && n.PID != 0 {
				c.signal(n, syscall.SIGKILL)
			}
		}
		c.limitStage(killTime)
	}
}

// limitStage bounds the present stage.
func (c *core) limitStage(d time.Duration) { c.stageOver = c.now.Add(d) }

// nextStage goes on to what follows when the time of a stage is over.
func (c *core) nextStage() {
	switch c.stage {
	case finishing:
		if len(c.set.Workers) > 1 && !c.formed && !c.anyWorkerPresent() {
			c.warnOnce("all workers are done, and none has joined the job; " + howToJoin)
		}
		text := "all workers are done; stopping servers and scheduler, which did not end by themselves"
		if !slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Role != roleWorker && !n.ended }) {
			text = "all workers of the job are done; stopping those that had not joined it yet"
		}
		c.info(text, joblog.JobStopping.With())
		for _, n := range c.nodes {
			n.stopped = n.stopped || !n.ended
		}
		c.deadline = c.now.Add(c.set.StopTimeout)
		c.enter(stopAll)
	case settling:
		c.enter(stopWorkers)
	case stopWorkers:
		c.enter(stopAll)
	case stopAll:
		c.enter(killing)
	case killing:
		c.close() // closing the machines ends what is left
	}
}

// stopRequest is the goal of the request that tells the scheduler that all are to stop.
type stopRequest struct{}

// stopTogether sends all workers SIGTERM. In an elastic job a worker that gets SIGTERM leaves the
// job alone, so the scheduler is told first that all are to stop. If it does not answer, the
// workers agree to stop because all of them got the signal.
func (c *core) stopTogether() {
	if !c.set.Elastic || !c.formed || c.done || c.reported != nil {
		c.signalAll(syscall.SIGTERM, roleWorker)
		return
	}
	c.ask(control.Request{Op: control.OpStop}, stopAskTime, stopRequest{})
}

// signalled takes a signal: the first asks the processes to stop, the second kills them. SIGUSR1
// stops the job with a checkpoint.
func (c *core) signalled(e signalled) {
	switch {
	case c.stage >= closing:
	case e.signal == syscall.SIGUSR1:
		c.stopWithCheckpoint("SIGUSR1", c.set.CheckpointTime)
	case c.interrupt.signal != 0:
		if c.stage > starting {
			c.enter(killing)
		}
	default:
		c.interrupt = e
		if c.stage == starting {
			c.abort(fmt.Errorf("stopped by %s", e.signal))
		} else if c.stage < stopWorkers {
			c.warn(fmt.Sprintf("%s: stopping all processes; a second signal kills them", e.signal), joblog.JobStopping.With("signal", int(e.signal)))
			c.enter(stopWorkers)
		}
	}
}

// cancel stops the job because the context of Run has ended.
func (c *core) cancel(e cancelled) {
	if c.stage >= closing {
		return
	}
	c.cancelled = true
	if c.stage == starting {
		c.abort(e.err)
	} else {
		c.enter(stopWorkers)
	}
}

// close closes all connections, which ends what is left.
func (c *core) close() {
	if c.stage >= closing {
		return
	}
	if c.stage > starting {
		c.logDeparted()
	}
	for _, e := range c.start.early { // of a start that failed
		if n := c.find(e.process); n != nil && !n.ended {
			n.finish(e)
		}
	}
	c.stage, c.stageOver, c.timers = closing, time.Time{}, nil
	for _, n := range c.nodes {
		n.lostMachine = n.machine != nil && n.machine.lost // closed ones are lost, too
		n.signalled = n.signalled || !n.ended && n.PID != 0
	}
	c.do(closeAll{})
}

// allClosed ends the job.
func (c *core) allClosed() {
	if c.stage != closing {
		return
	}
	c.stage = over
	for _, n := range c.nodes {
		if !n.ended && n.PID != 0 {
			n.Exit.Err, n.Exit.Code, n.Exit.Lost = "unknown: its host does not answer", 255, true
		}
	}
	c.do(end{})
}

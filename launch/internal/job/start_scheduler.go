package job

import (
	"cmp"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// schedulerAgain starts a scheduler in the place of one that ended. It is a timer, and the goal of a
// connection to its host.
type schedulerAgain struct{ old, new *Node }

// startScheduler starts the first scheduler, which everybody else is told of.
func (c *core) startScheduler() {
	c.start.attempt++
	c.start.scheduler = c.procs.nodes[0]
	c.runner.start(c.procs.nodes[0])
}

// schedulerListens takes the first line of a scheduler's report: it listens on a free port itself,
// so no other process can take the port in between, and two jobs never meet.
func (c *core) schedulerListens(e listening) {
	n := c.procs.find(e.process)
	if n == nil || n.Role != roleScheduler {
		return
	}
	if c.stage != starting {
		c.schedulerListensAgain(n, e.line)
		return
	}
	if n != c.start.scheduler {
		return
	}
	c.start.scheduler = nil
	if err := c.scheduler.listens(n, e.line, c.set.HostIP); err != nil {
		c.failStart(err)
		return
	}
	c.out.do(announce{c.scheduler.address, c.scheduler.port})
}

// schedulerListensAgain takes the first line of a scheduler that was started in the place of
// another one.
func (c *core) schedulerListensAgain(n *Node, line string) {
	if c.stage > running {
		return
	}
	if err := c.scheduler.listensAgain(n, line); err != nil {
		c.out.error(err.Error())
		return
	}
	c.exchange.anew()
	c.scheduler.heard = c.out.now
	c.out.info(fmt.Sprintf("scheduler on %s listens again at %s", n.Host, line), joblog.SchedulerAgain.With("node_host", n.host.Name, "address", line))
}

// endedAtStart takes the end of a process before all are started. A scheduler that is killed before
// it listens is started again, if the job survives its loss; one that ends by itself says why, and
// would end again.
func (c *core) endedAtStart(n *Node, e ended) {
	if n != c.start.scheduler {
		c.start.early = append(c.start.early, e)
		return
	}
	n.finish(e)
	c.start.scheduler = nil
	if c.start.aborted != nil || c.set.State == "" || c.start.attempt > maxRestarts || n.machine.lost || n.Exit.Signal == 0 {
		c.failStart(fmt.Errorf("launch: scheduler on %s ended before it listened: %s", n.Host, n.Exit))
		return
	}
	again := c.runner.another(n, fmt.Sprintf("ended before it listened: %s; starting it again", n.Exit))
	again.machine = n.machine
	c.procs.nodes = append(c.procs.nodes, n)
	// The first one is the scheduler that the others are told of.
	c.procs.nodes[0] = again
	c.ending.reported = nil
	if c.start.attempt > 1 {
		c.out.after(backOff(c.start.attempt-1)/4, schedulerRestart{})
	} else {
		c.startScheduler()
	}
}

// restartScheduler starts the scheduler again, on the same address and with what it has kept, unless
// it ended too often.
func (c *core) restartScheduler(n *Node) bool {
	wait, ok := c.scheduler.again(n.Exit)
	if !ok {
		return false
	}
	again := schedulerAgain{n, c.runner.another(n, fmt.Sprintf("ended: %s; starting it again; training continues meanwhile", n.Exit))}
	if wait == 0 {
		c.runner.restart(again)
	} else {
		c.out.after(wait, again)
	}
	return true
}

// schedulerConnected goes on when the scheduler's host is connected again.
func (c *core) schedulerConnected(s schedulerAgain, m *machine, err error) {
	switch {
	case c.stage != running:
	case err != nil:
		s.new.machine = s.old.machine
		c.schedulerNotStarted(s.new, err)
	default:
		s.new.machine = m
		c.runner.start(s.new)
	}
}

// schedulerNotStarted takes note of a scheduler that could not be started again. It counts as one
// that was started and ended at once.
func (c *core) schedulerNotStarted(n *Node, err error) {
	if c.stage != running {
		return
	}
	n.neverRan(err)
	if c.procs.nodes = append(c.procs.nodes, n); !c.goesOn(n) {
		c.failed(n)
	}
}

// schedulerReports takes what a scheduler reports behind its first line. Reports may repeat what the
// one before it has said. Only the present one can say why the job failed: the pipe of one that was
// killed may still have a line.
func (c *core) schedulerReports(e reported) {
	c.scheduler.heard = c.out.now
	switch {
	case e.Present != nil:
		c.present.nodes[*e.Present] = true
		c.endUnjoined()
	case e.Absent != nil:
		delete(c.present.nodes, *e.Absent)
		c.endUnjoined()
	case e.Running:
		c.completed()
	case e.Adaptation != nil:
		c.history.adaptation = e.Adaptation
	case e.Metrics != "":
		if addr := c.scheduler.serves(e.Metrics); addr != "" {
			c.out.info("metrics for Prometheus: http://" + addr + "/metrics")
		}
	// Someone else may have asked for it.
	case e.Stopping != nil:
		if !c.checkpoint.requested() {
			c.checkpoint.asked = true
			c.stopWithCheckpoint(e.Stopping.Reason, cmp.Or(time.Duration(e.Stopping.LimitMillis)*time.Millisecond, c.set.CheckpointTime))
		}
	case e.Stopped != nil:
		c.checkpoint.stopped = e.Stopped
	case e.Failed != nil:
		if n := c.procs.scheduler(); c.ending.reported == nil && n != nil && n.process == e.process {
			c.ending.reported = e.Failed
		}
	}
}

// completed takes note that the job is complete. From then on it may change, and what was asked of it
// before can be carried out.
func (c *core) completed() {
	if c.present.complete {
		return
	}
	c.present.complete = true
	c.done = c.set.Changes() && c.stage > starting && c.procs.schedulerDone()
	if c.stage == running {
		if c.set.Changes() {
			c.beginExchange()
		}
		c.askCheckpoint()
	}
}

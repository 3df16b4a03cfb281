package job

import (
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// code is the exit code of the job.
func (c *core) code() int {
	switch n := c.culpritNode(); {
	case c.interrupt.signal != 0:
		return SignalCode(c.interrupt.signal)
	case c.checkpoint.complete():
		return control.ExitCheckpointed
	case c.start.err != nil:
		return 1
	case n != nil:
		return n.Exit.Status()
	case c.cancelled, c.finalFailure() != nil:
		return 1
	}
	return 0
}

// culpritNode is the process whose exit decides the code; nil: none does.
func (c *core) culpritNode() *Node {
	if c.first != nil && c.culprit != nil {
		return c.culprit
	}
	return c.first
}

// blames reports whether the process is the one that the scheduler blames, and failed.
func (c *core) blames(n *Node) bool {
	return c.failure != nil && c.failure.Process == n.process && n.ended && !n.Exit.OK()
}

// failed takes note of a process whose failure the job does not survive.
func (c *core) failed(n *Node) {
	if c.final != nil {
		return // its end follows from that one's
	}
	if c.first == nil {
		c.standstill.failedAfter(c.now)
		c.failure = c.reported // it was reported before anybody ended: so this end follows from it
		text := fmt.Sprintf("%s on %s failed: %s%s", n.Name(), n.Host, n.Exit, c.beforeComplete(n))
		c.accused = n.process
		if f := c.failure; f != nil && f.Code == control.NodeError && f.Process != n.process {
			// Another one's error was told before n ended for it.
			text, c.accused = fmt.Sprintf("%s %d on %s failed", f.Role, f.Rank, f.Host), f.Process
		}
		c.error(text+"; stopping the others", joblog.ProcessFailed.Of(n.logged(), "exit", n.Exit.String()))
		c.enter(settling)
		for _, o := range c.nodes { // the culprit may be one without which the job went on at first
			if (o.lost || o.awaited || o.Role == roleServer) && c.blames(o) {
				c.culprit, o.fate = o, fate{}
			}
		}
	}
	if c.first == nil || n.endedAt().Before(c.first.endedAt()) {
		c.first = n
	}
	if c.blames(n) {
		c.culprit = n
	}
}

// jobNeeds reports whether the job cannot go on, or become complete, without what this worker does.
// One that joins a running job is not needed.
func (c *core) jobNeeds(n *Node) bool {
	return n.Role == roleWorker && !n.stopped && !n.leaving && (n.member || !c.formed)
}

// failedFinally takes note of a worker that said that no restart can mend its error. The others'
// ends follow from it, also those that came before.
func (c *core) failedFinally(n *Node) {
	if c.final != nil {
		return
	}
	c.final, c.culprit = n, n
	c.failure = &control.Failure{Code: control.NodeFinal, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: causeOf(n.Exit)}
	if c.first == nil {
		c.first = n
	}
	n.fate = fate{}
	text := fmt.Sprintf("%s on %s failed: exit %d (no restart can mend this)", n.Name(), n.Host, n.Exit.Code)
	switch {
	case c.stage < settling:
		text += "; stopping the others"
	case c.interrupt.signal != 0: // the last line is about the signal
		text = c.failure.String()
	}
	if c.accused != n.process {
		c.error(text, joblog.ProcessFailed.Of(n.logged(), "exit", n.Exit.String()))
	}
	c.enter(settling)
}

// schedulerReports takes what the present scheduler reports behind its first line.
func (c *core) schedulerReports(e reported) {
	c.heard = c.now
	switch {
	case e.Present != nil:
		c.present[*e.Present] = true
		c.endUnjoined()
	case e.Absent != nil:
		delete(c.present, *e.Absent)
		c.endUnjoined()
	case e.Running:
		if !c.formed {
			c.formed = true
			c.done = c.set.Changes && c.stage > starting && c.schedulerDone()
			if c.stage == running {
				if c.set.Changes {
					c.follow()
				}
				c.askCheckpoint()
			}
		}
	case e.Adaptation != nil:
		c.adaptation = e.Adaptation
	case e.Metrics != "":
		if c.metrics != e.Metrics || !c.metricsShown { // once, although the scheduler is started again
			c.info("metrics for Prometheus: http://" + c.reachable(e.Metrics) + "/metrics")
		}
		c.metrics, c.metricsShown = e.Metrics, true
	case e.Stopping != nil:
		c.schedulerStops(*e.Stopping)
	case e.Stopped != nil:
		c.checkpoint.stopped = e.Stopped
	case e.Failed != nil:
		if n := c.scheduler(); c.reported == nil && n != nil && n.process == e.process {
			c.reported = e.Failed
		}
	}
}

// reachable is an address on the scheduler's host, as others reach it.
func (c *core) reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(c.address, port)
	}
	return addr
}

// scheduler is the present one.
func (c *core) scheduler() (newest *Node) {
	for _, n := range c.nodes {
		if n.Role == roleScheduler && (newest == nil || n.process > newest.process) {
			newest = n
		}
	}
	for _, n := range c.launching {
		if n.Role == roleScheduler && (newest == nil || n.process > newest.process) {
			newest = n
		}
	}
	return newest
}

// finalFailure is why the job failed, as it is told: a worker that the scheduler declared lost may
// have ended with code 0.
func (c *core) finalFailure() *control.Failure {
	if c.checkpoint.complete() || c.failure == nil && c.first == nil {
		return c.checkpointFailure()
	}
	if f := c.standstillFailure(); f != nil {
		return f
	}
	if c.failure == nil {
		return nil
	}
	f := *c.failure
	if n := c.find(f.Process); n != nil && n.Role == roleWorker && n.ended && n.Exit.OK() && f.OfLoss() {
		f = control.Failure{Code: control.NotClosed, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: causeOf(n.Exit)}
	}
	return &f
}

// causeOf is how a process ended.
func causeOf(e process.Exit) control.Cause {
	switch {
	case e.Lost:
		return control.Cause{Kind: control.CauseMachine, Exit: e.Code, Text: e.Err}
	case e.Err != "":
		return control.Cause{Kind: control.CauseStart, Exit: e.Code, Text: e.Err}
	case e.Final() && e.Signal == 0:
		return control.Cause{Kind: control.CauseKind(e.Report.Cause), Exit: e.Code, Text: e.Report.Text}
	case e.Signal != 0:
		return control.Cause{Kind: control.CauseSignal, Signal: int(e.Signal)}
	}
	return control.Cause{Kind: control.CauseExit, Exit: e.Code}
}

// outside is what is said of a worker that stopped in order although the launcher had sent it no
// signal.
const outside = "got SIGTERM from outside the launcher"

// savedSteps is after how many steps workers that stopped say that the job has a complete
// checkpoint; 0: none does.
func (c *core) savedSteps() (steps uint64) {
	for _, n := range c.nodes {
		if n.Role == roleWorker && n.Exit.Report.Cause == exitreport.Checkpointed {
			steps = max(steps, n.Exit.Report.Steps)
		}
	}
	return steps
}

// explain is the last line of a job that did not end well: what happened first, not what followed
// from it.
func (c *core) explain() string {
	switch {
	case c.interrupt.signal != 0:
		text := fmt.Sprintf("launch: stopped by %s", c.interrupt.signal)
		if steps := c.savedSteps(); steps > 0 && c.set.ResumeCommand != "" {
			text += fmt.Sprintf(", with a checkpoint after %s; to resume:\n%s", plural.Of(steps, "step"), c.set.ResumeCommand)
		}
		return text
	case c.checkpoint.complete():
		return "launch: " + c.finalFailure().String()
	case c.standstillFailure() != nil:
		return "launch: the job failed: " + c.finalFailure().String()
	case c.failure != nil:
		if c.failure.Code == control.StoppedByOthers {
			return "launch: the job has ended: " + c.failure.String()
		}
		text := "launch: the job failed: " + c.finalFailure().String()
		if n := c.culprit; n != nil && n.asked() {
			text += "; it " + outside
		}
		return text
	case c.first != nil:
		n := c.first
		text := fmt.Sprintf("launch: %s on %s failed: %s%s", n.Name(), n.Host, n.Exit, c.beforeComplete(n))
		last := cut(n.Last, 500)
		switch e := n.Exit; {
		case n.asked():
			text += "; it or another worker " + outside
		case e.Signal == syscall.SIGKILL:
			text += "; if nobody killed it, its host may have run out of memory (see dmesg)"
		case e.Signal == 0 && e.Err == "" && last != "" && !strings.Contains(last, " INFO "):
			text += ": " + last
		}
		return text
	}
	if f := c.checkpointFailure(); f != nil {
		return "launch: the job failed: " + f.String()
	}
	return ""
}

package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// An earlyLoss is a process that ended before the launcher knew that the job was complete. The
// scheduler is asked whether it is.
type earlyLoss struct {
	node    *Node
	attempt int           // to start it again
	at      time.Time     // its end
	wait    time.Duration // from then to the attempt
}

// startAgain starts a worker or a server that ended before the job was complete again, if the job
// survives losses. It is started as the same one: it has done nothing that others know of, and they
// wait for it. The scheduler is told first: then the job cannot become complete with the process
// that is gone, and if it has, the answer says so.
func (c *core) startAgain(n *Node) bool {
	attempt, most := n.attempt+1, c.attempts(n)
	if n.Exit.Elapsed >= longLife {
		attempt = 1
	}
	if attempt > most || n.asked() {
		return false
	}
	l := &earlyLoss{n, attempt, c.now, backOff(attempt)}
	c.warn(fmt.Sprintf("%s on %s ended before the job was complete: %s; starting it again in %s (attempt %d of %d)",
		n.Name(), n.Host, n.Exit, l.wait, attempt, most),
		joblog.ProcessRestarting.Of(n.logged(), "attempt", attempt, "wait", l.wait))
	c.coming(n, 1)
	c.ask(control.Request{Op: control.OpLost, Process: n.process, Cause: causeOf(n.Exit)}, 0, l)
	return true
}

// earlyLossAnswered goes on when the scheduler has said in which phase the job is; it does so also
// where it refuses, as it does if the process had not registered. Empty: it has not answered.
func (c *core) earlyLossAnswered(l *earlyLoss, phase string) {
	n := l.node
	c.coming(n, -1)
	switch {
	case c.stage != running:
	case phase == control.Forming:
		n.lost, n.fate = true, fate{code: control.FateRestarted}
		again := c.newNode(n.Role, n.Rank, n.host)
		again.early, again.member, again.attempt = true, n.member, l.attempt
		c.replace(n, again, max(0, l.wait-c.now.Sub(l.at)))
	case n.lost: // the scheduler's event came first
	case phase == control.Running && n.Role == roleWorker:
		c.loseWorker(n, n.Exit.String())
	case phase == control.Running && c.set.Backups > 0 && c.restartServer(n):
	default:
		c.failed(n)
	}
}

// attempts is how often a process that ended before the job was complete is started again.
func (c *core) attempts(n *Node) int {
	switch {
	case n.Role == roleServer && c.set.Backups > 0:
		return maxRestarts
	case c.set.OnWorkerLoss == LossFail:
		return 0
	}
	return c.set.Rejoin
}

// beforeComplete says of a process that failed in a job which survives losses why it did not
// survive this one: not all had joined.
func (c *core) beforeComplete(n *Node) string {
	switch {
	case n.Role == roleScheduler || c.formed || !c.set.Changes:
		return ""
	case n.attempt > 0:
		return fmt.Sprintf(", before the job was complete, %d times in a row", n.attempt+1)
	case c.set.OnWorkerLoss != LossFail && c.set.Rejoin == 0 && !n.asked():
		return ", before the job was complete; with --rejoin 1 or more it is started again"
	}
	return ", before the job was complete"
}

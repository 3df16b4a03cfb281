package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A replacement is a process that is to be started in the place of one that ended.
type replacement struct {
	old, new *Node
}

// restartScheduler starts the scheduler again, on the same address and with what it has kept.
func (c *core) restartScheduler(n *Node) bool {
	if c.restarts++; n.Exit.Elapsed >= longLife {
		c.restarts = 1
	}
	if c.restarts > maxRestarts {
		return false
	}
	wait := time.Duration(0) // at once, and later where that did not help
	if c.restarts > 1 {
		wait = backOff(c.restarts-1) / 4
	}
	n.fate = fate{code: control.FateRestarted}
	c.warn(fmt.Sprintf("scheduler on %s ended: %s; starting it again; training continues meanwhile", n.Host, n.Exit),
		joblog.SchedulerLost.Of(n.logged(), "reason", n.Exit.String()))
	c.replace(n, c.newNode(roleScheduler, 0, n.host), wait)
	return true
}

// restartServer starts another server in the place of one that was lost.
func (c *core) restartServer(n *Node) bool {
	attempt := n.attempt + 1
	if n.Exit.Elapsed >= longLife {
		attempt = 1
	}
	joined := c.wanted[n.Rank] == nil
	if joined {
		n.fate = fate{code: control.FateLost}
		c.warn(fmt.Sprintf("%s on %s was lost: %s; the job goes on with the backups of its shards", n.Name(), n.Host, n.Exit),
			joblog.ServerLost.Of(n.logged(), "reason", n.Exit.String()))
	} else {
		n.fate = fate{code: control.FateNotJoined}
		c.warn(fmt.Sprintf("%s on %s ended before it had joined: %s", n.Name(), n.Host, n.Exit),
			joblog.ProcessUnjoined.Of(n.logged(), "exit", n.Exit.String()))
	}
	c.reportLoss(n)
	if attempt > maxRestarts {
		n.fate.note = fmt.Sprintf("not started again after %d attempts", maxRestarts)
		if !joined {
			c.serverFailed(n.Rank, fmt.Errorf("%s", n.Exit))
		}
		return true
	}
	h, ok := n.host, true
	if c.host(h).away {
		h, ok = c.serverHost()
	}
	if !ok {
		n.fate.note = "not started again: no other host may run a server"
		return true
	}
	again := c.newNode(roleServer, n.Rank, h)
	again.joining, again.attempt = true, attempt
	c.info(fmt.Sprintf("starting another server %d on %s in %s", n.Rank, h, backOff(attempt)),
		joblog.ProcessRestarting.Of(n.logged(), "attempt", attempt, "wait", backOff(attempt)))
	c.replace(n, again, backOff(attempt))
	return true
}

// replace starts a process in the place of old, which ended, after a while.
func (c *core) replace(old, again *Node, wait time.Duration) {
	r := &replacement{old, again}
	again.goal = r
	c.coming(again, 1)
	if wait == 0 {
		replacementDue{r}.run(c)
		return
	}
	c.after(wait, replacementDue{r})
}

// replacementDue says that the wait is over.
type replacementDue struct{ *replacement }

func (r replacementDue) run(c *core) {
	if c.machineKey(r.new) == "" && !r.old.machine.lost {
		c.replacementReached(r.replacement, r.old.machine, nil)
		return
	}
	c.reach(r.new.host, r.replacement)
}

// replacementReached starts the process on its machine.
func (c *core) replacementReached(r *replacement, m *machine, err error) {
	if c.stage != running {
		return
	}
	if err == nil && c.departing(r.new.host) {
		err = errTakenAway
	}
	if err != nil {
		c.coming(r.new, -1)
		r.new.machine = r.old.machine
		c.notReplaced(r.new, err)
		return
	}
	r.new.machine = m
	c.startNode(r.new)
}

func (c *core) replacementLaunched(r *replacement, err error) {
	c.coming(r.new, -1)
	if err != nil {
		c.notReplaced(r.new, err)
	}
}

// notReplaced takes note of a process that could not be started again.
func (c *core) notReplaced(n *Node, err error) {
	if c.stage != running {
		return
	}
	n.Exit.Code, n.Exit.Err, n.ended = 127, plainText(err), true
	c.nodes = append(c.nodes, n)
	if !c.goesOn(n) {
		c.failed(n)
	}
}

// coming counts a worker that will be started again on its host, or with -1 is no longer about to
// be. Other processes are not counted.
func (c *core) coming(n *Node, more int) {
	if n.Role == roleWorker {
		c.host(n.host).coming += more
	}
}

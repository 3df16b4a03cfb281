package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// verdictTold is how long the scheduler may be silent before people are told that the job
	// waits for it. A scheduler that runs answers the watch sooner than that, though nothing has
	// changed.
	verdictTold = 20 * time.Second
	// verdictTime is how long the scheduler may be silent when it alone keeps the job from ending.
	verdictTime = time.Minute
)

// A verdictWait bounds how long a job without workers waits for a scheduler that runs and does not
// answer. While a worker lives or is on its way the wait has no bound, for the job goes on. Neither
// has it one while the scheduler is being started again, for its restarts are counted.
type verdictWait struct{ told bool }

// awaitVerdict takes note of a worker or a server whose end the scheduler is to judge.
func (c *core) awaitVerdict(n *Node) {
	n.awaited = true
	if !slices.ContainsFunc(c.timers, isVerdictWait) {
		c.after(verdictTold, verdictWait{})
	}
	c.follow()
}

func isVerdictWait(t timer) bool {
	_, is := t.due.(verdictWait)
	return is
}

func (v verdictWait) run(c *core) {
	if c.stage != running || !c.anyAwaited() {
		return
	}
	s, silent := c.scheduler(), c.schedulerSilent()
	switch {
	case s.ended || c.launching[s.process] != nil || c.anyWorkerLeft():
		c.after(verdictTold, verdictWait{})
	case silent >= verdictTime:
		c.withoutVerdict(s, silent)
	case silent >= verdictTold:
		if !v.told {
			c.warn(fmt.Sprintf("no worker is left, and the scheduler on %s does not say whether the job goes on: it has not answered for %s; the job ends if it stays silent for %s",
				s.Host, silent.Round(time.Second), verdictTime), joblog.JobStopping.With())
		}
		c.after(verdictTime-silent, verdictWait{told: true})
	default:
		c.after(verdictTold-silent, v)
	}
}

// schedulerSilent is how long the scheduler has not answered: since it was heard last, since it was
// started, or since the last end that it is to judge.
func (c *core) schedulerSilent() time.Duration {
	since := c.heard
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	later(c.scheduler().started)
	for _, n := range c.nodes {
		if n.awaited {
			later(n.endedAt())
		}
	}
	return c.now.Sub(since)
}

// anyWorkerLeft reports whether a worker runs or is about to.
func (c *core) anyWorkerLeft() bool {
	lives := func(n *Node) bool { return n.Role == roleWorker && !n.ended }
	if slices.ContainsFunc(slices.Concat(c.nodes, c.arrivals), lives) {
		return true
	}
	for _, n := range c.launching {
		if n.Role == roleWorker {
			return true
		}
	}
	return false
}

// withoutVerdict ends a job whose scheduler stays silent: as failed if a worker that was in the job
// failed, or any process of a job that never was complete; else as done, if a worker was done.
func (c *core) withoutVerdict(s *Node, silent time.Duration) {
	c.error(fmt.Sprintf("no worker is left, and the scheduler on %s has not answered for %s", s.Host, silent.Round(time.Second)), joblog.JobStopping.With())
	for _, n := range slices.Concat(c.nodes, c.unstarted) {
		if !n.awaited {
			continue
		}
		if n.awaited = false; !n.Exit.OK() && (c.jobNeeds(n) || !c.formed) {
			c.failed(n)
		}
	}
	c.doneJudged()
}

package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A startup is how far the start of a job has come: all machines are connected, then the scheduler
// is started, which picks a free port and reports it, then everybody else is started at once. All
// errors are reported, so that one attempt shows all bad hosts.
type startup struct {
	// scheduler is the one that is waited for to listen; nil: none is.
	scheduler *Node
	// attempt is how often a scheduler was started.
	attempt int
	// announced says that the scheduler listens, and that everybody else is being started.
	announced bool
	// early are the ends of processes that came before all were started.
	early []ended

	// unreached are the errors of connections, by their number, failed those of processes.
	unreached map[int]error
	failed    map[uint32]error
	// lostHosts are those that were not reached.
	lostHosts []control.LostHost
	// aborted is why the start is given up; nil: it is not. late says that it took too long.
	aborted error
	late    bool
	// err says at the end why the job was not started.
	err error
}

// Timers of the start: its limit, and the pause before a scheduler is started that never listened.
type (
	startLimit       struct{}
	schedulerRestart struct{}
)

func startTooLong(limit time.Duration) error {
	return fmt.Errorf("gave up after %s (--start-timeout)", limit)
}

// bad reports whether the start has failed or was given up.
func (s *startup) bad() bool {
	return len(s.unreached) > 0 || len(s.failed) > 0 || s.aborted != nil
}

// fail says why the job was not started: for all that went wrong, or else because it was given up.
func (s *startup) fail(nodes []*Node, err error) {
	var errs []error
	for _, id := range sortedKeys(s.unreached) {
		errs = append(errs, s.unreached[id])
	}
	errs = append(errs, err)
	for _, n := range nodes {
		errs = append(errs, s.failed[n.process])
	}
	if s.err = errors.Join(errs...); s.err == nil {
		s.err = fmt.Errorf("launch: %w", s.aborted)
	}
}

// unreach takes note of a host that was not reached. Of a start that was aborted nobody waited for
// it.
func (s *startup) unreach(k *connection, err error) {
	s.unreached[k.id] = err
	if s.aborted == nil || s.late {
		host := k.host
		if k.key == "" {
			host = hosts.Local
		}
		s.lostHosts = append(s.lostHosts, control.LostHost{Host: host.String(), Reason: plainText(err), Unreached: k.key != "" && !errors.Is(err, ErrCopy)})
	}
}

// connected takes the answer to a connect or a checkHost.
func (c *core) connected(e connected) {
	k := c.machines.answered(e.id)
	switch {
	case k == nil:
	case c.stage == starting:
		c.connectedAtStart(k, e)
	default:
		m, fresh, err := c.machines.connected(k, e, c.scheduler.address, c.stage < closing)
		c.out.changed = true
		switch goal := k.goal.(type) {
		case *access:
			c.runner.connected(goal, m, fresh, err)
		case schedulerAgain:
			c.schedulerConnected(goal, m, err)
		}
	}
}

// connectedAtStart goes on when all machines are connected, or could not be: they are closed together.
func (c *core) connectedAtStart(k *connection, e connected) {
	if e.err != nil {
		c.start.unreach(k, e.err)
	} else {
		c.machines.begin(k, e)
	}
	if len(c.machines.calls) > 0 {
		return
	}
	for _, n := range c.procs.nodes {
		n.machine = c.machines.used[c.runner.machineKey(n)]
	}
	if c.startOver() {
		return
	}
	if err := checkAddresses(c.procs.nodes); err != nil {
		c.failStart(err)
		return
	}
	if c.scheduler.address = c.set.HostIP; c.scheduler.address != "" {
		c.startScheduler()
		return
	}
	c.out.do(chooseAddress{c.procs.nodes[0].machine.id})
}

// addressChosen starts the scheduler.
func (c *core) addressChosen(e addressChosen) {
	switch {
	case c.stage != starting || c.scheduler.address != "":
	case e.err != nil:
		c.failStart(e.err)
	case !c.startOver():
		c.scheduler.address = e.address
		c.startScheduler()
	}
}

// announced starts everybody else.
func (c *core) announced(err error) {
	switch {
	case c.stage != starting:
	case err != nil:
		c.failStart(err)
	case !c.startOver():
		c.start.announced = true
		// The table of who runs where comes first.
		c.out.do(holdOutput{})
		for _, n := range c.procs.nodes {
			if n.Role != roleScheduler {
				c.runner.start(n)
			}
		}
	}
}

// startedAtStart goes on when a process was started, or could not be. All of them are waited for, so
// that whatever was started is known when the start is given up.
func (c *core) startedAtStart(n *Node, err error) {
	if err != nil {
		c.start.failed[n.process] = err
	}
	switch {
	case len(c.procs.launching) > 0:
	case c.start.announced:
		c.allStarted()
	// Else the scheduler is waited for to listen.
	default:
		c.startOver()
	}
}

// allStarted begins the job when all first processes have been started. One whose host was lost
// before may be started again, as one that ended before the job was complete. What was put off until
// the job runs happens now: ends that came early, a stop with a checkpoint, notices of hosts.
func (c *core) allStarted() {
	var unstarted []*Node
	for _, n := range c.procs.nodes {
		if err := c.start.failed[n.process]; err != nil && c.start.aborted == nil && n.machine.lost && n.machine.key != "" && c.set.attempts(n) > 0 {
			delete(c.start.failed, n.process)
			n.neverRan(err)
			unstarted = append(unstarted, n)
		}
	}
	if c.startOver() {
		return
	}
	c.stage, c.runner.open = running, true
	c.out.timers.clear()
	c.out.do(showStart{c.scheduler.address, c.scheduler.port, slices.Clone(c.procs.nodes)})
	if c.checkpoint.requested() {
		c.checkpoint.arm(&c.out)
	}
	if c.present.complete && c.set.Changes() || len(c.machines.noticed()) > 0 {
		c.beginExchange()
	}
	c.askCheckpoint()
	for _, n := range unstarted {
		if !c.goesOn(n) {
			c.failed(n)
		}
	}
	// A single worker needs no job.
	if len(c.set.Workers) > 1 {
		c.out.after(joinWarnTime, noneJoined{})
	}
	for _, e := range c.start.early {
		c.processEnded(e)
	}
}

// startOver ends a start that has failed or was given up.
func (c *core) startOver() bool {
	if !c.start.bad() {
		return false
	}
	c.failStart(nil)
	return true
}

// abort ends the start: pending connections and process starts are cancelled, and their errors say
// what they waited for. The last of their answers ends the start; where none is pending it ends here.
func (c *core) abort(why error) {
	if c.start.aborted != nil {
		return
	}
	c.start.aborted = why
	c.machines.cancel(why.Error())
	c.runner.cancelStarts(why.Error())
	n := c.start.scheduler
	switch {
	case len(c.machines.calls) > 0 || len(c.procs.launching) > 0:
	case n != nil:
		c.failStart(fmt.Errorf("launch: wait for the scheduler on %s to listen: %w", n.Host, why))
	default:
		c.failStart(nil)
	}
}

// failStart ends the job before it has begun.
func (c *core) failStart(err error) {
	c.start.fail(c.procs.nodes, err)
	c.close()
}

package job

import (
	"fmt"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// startScheduler starts the scheduler, which everybody else is told of.
func (c *core) startScheduler() {
	c.start.attempt++
	c.start.scheduler = c.nodes[0]
	c.startNode(c.nodes[0])
}

// schedulerListens takes the first line of a scheduler's report: it listens on a free port itself,
// so no other process can take the port in between, and two jobs never meet.
func (c *core) schedulerListens(e listening) {
	n := c.find(e.process)
	if n == nil || n.Role != roleScheduler {
		return
	}
	host, port, err := net.SplitHostPort(e.line)
	if c.stage != starting {
		switch {
		case c.stage > running:
		case err != nil || port != c.port:
			c.error(fmt.Sprintf("launch: scheduler on %s reported %q, want port %s as before", n.Host, e.line, c.port))
		default:
			c.reportAnew()
			c.heard = c.now
			c.info(fmt.Sprintf("scheduler on %s listens again at %s", n.Host, e.line), joblog.SchedulerAgain.With("node_host", n.host.Name, "address", e.line))
		}
		return
	}
	if n != c.start.scheduler {
		return
	}
	c.start.scheduler = nil
	if err != nil || port == "0" {
		c.failStart(fmt.Errorf("launch: scheduler on %s reported %q, want its host:port", n.Host, e.line))
		return
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && c.set.HostIP == "" {
		c.address = host
	}
	c.port = port
	c.do(announce{c.address, c.port})
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
	if c.start.aborted != nil || !c.set.State || c.start.attempt > maxRestarts || n.machine.lost || n.Exit.Signal == 0 {
		c.failStart(fmt.Errorf("launch: scheduler on %s ended before it listened: %s", n.Host, n.Exit))
		return
	}
	n.fate = fate{code: control.FateRestarted}
	c.warn(fmt.Sprintf("scheduler on %s ended before it listened: %s; starting it again", n.Host, n.Exit),
		joblog.SchedulerLost.Of(n.logged(), "reason", n.Exit.String()))
	again := c.newNode(c.ownNumber(), roleScheduler, 0, n.host)
	again.machine = n.machine
	c.nodes = append(c.nodes, n)
	c.nodes[0] = again // the first one is the scheduler that the others are told of
	c.reported = nil
	if c.start.attempt > 1 {
		c.after(backOff(c.start.attempt-1)/4, schedulerRestart{})
	} else {
		c.startScheduler()
	}
}

// schedulerRestart starts a scheduler that never listened again.
type schedulerRestart struct{}

func (schedulerRestart) run(c *core) { c.startScheduler() }

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
	again := c.newNode(c.ownNumber(), roleScheduler, 0, n.host)
	if c.restarting = again; wait == 0 {
		schedulerAgain{n, again}.run(c)
	} else {
		c.after(wait, schedulerAgain{n, again})
	}
	return true
}

// schedulerAgain starts a scheduler in the place of one that ended.
type schedulerAgain struct{ old, new *Node }

func (s schedulerAgain) run(c *core) {
	if !s.old.machine.lost {
		s.new.machine = s.old.machine
		c.startNode(s.new)
		return
	}
	k := &connection{id: c.id(), key: c.machineKey(s.new), host: s.new.host, goal: s, old: s.old.machine}
	c.connections[k.id] = k
	c.do(connect{k.id, &k.host})
}

// connected goes on when the scheduler's host is connected again.
func (s schedulerAgain) connected(c *core, m *machine, err error) {
	if c.stage != running {
		return
	}
	if err != nil {
		s.new.machine = s.old.machine
		c.schedulerNotStarted(s.new, err)
		return
	}
	s.new.machine = m
	c.startNode(s.new)
}

// schedulerNotStarted takes note of a scheduler that could not be started again.
func (c *core) schedulerNotStarted(n *Node, err error) {
	if c.stage != running {
		return
	}
	n.Exit.Code, n.Exit.Err, n.ended = 127, plainText(err), true
	if c.nodes = append(c.nodes, n); !c.goesOn(n) {
		c.failed(n)
	}
}

package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A core decides what happens to one job, from its first connection to its end. It takes events,
// one at a time, and answers each with actions, which the shell carries out. It is pure: it has no
// clock (an event comes with its time), starts no goroutine and does no I/O. It must not be used by
// several goroutines at once.
//
// Its parts own the state, and none of them knows the core. The core's own methods are the
// procedures that need several parts, such as what follows when a worker fails.
type core struct {
	set settings
	out output

	stage stage
	// stageOver is when the stage has lasted long enough; zero: it ends by itself.
	stageOver time.Time
	// deadline is that of the processes that were asked to stop.
	deadline time.Time

	start    startup
	procs    processes
	machines machines
	runner   runner
	reaper   reaper

	scheduler endpoint
	requests  requests
	exchange  stateExchange
	want      wantedState
	present   registrations
	history   history
	// done says that the scheduler has ended well: nobody joins any more.
	done bool

	checkpoint checkpointStop
	ending     ending
	standstill standstill
}

// settings are what the core knows of the Config. Functions of Elastic are not for it to call.
type settings struct {
	Places
	Times
	Elastic

	ID   string
	GPUs gpus.Request
	// Remote says that hosts are connected to; else everything runs on the launching machine.
	Remote bool
	// Metrics is the address on which the scheduler serves metrics; empty: none.
	Metrics, HostIP string
	ResumeCommand   string
}

// beganOn reports whether processes of the job began on a host.
func (s *settings) beganOn(h hosts.Host) bool {
	return slices.ContainsFunc(s.Workers, h.Same) || slices.ContainsFunc(s.Servers, h.Same)
}

// prepares reports whether a process waits until its host is prepared.
func (s *settings) prepares(n *Node) bool {
	return s.PrepareData != nil && n.Role == roleWorker && !n.early && n.prepare
}

// newCore returns the core of a job that begins now: it connects to all hosts. The processes that
// the job begins with are numbered in the order of the table at its start: the scheduler is 1, then
// come servers and workers by rank.
func newCore(set settings, now time.Time) *core {
	c := &core{set: set, out: output{now: now}}
	c.start = startup{unreached: make(map[int]error), failed: make(map[uint32]error)}
	c.procs.launching = make(map[uint32]*Node)
	c.machines = newMachines(&c.out, set.Remote)
	c.scheduler = endpoint{port: "0", metrics: set.Metrics}
	c.requests = requests{out: &c.out, asked: make(map[int]any)}
	c.exchange = stateExchange{out: &c.out, requests: &c.requests}
	c.present.nodes = make(map[control.Presence]bool)
	c.history = history{out: &c.out, members: make(map[string]bool)}
	c.reaper = reaper{&c.out, &c.procs, set.StopTimeout}
	c.runner = runner{set: &c.set, out: &c.out, procs: &c.procs, machines: &c.machines, want: &c.want, scheduler: &c.scheduler, reaper: &c.reaper,
		accesses: make(map[string]*access), gpus: newGPUSlots(&set), limits: newHostLimits(&set)}

	// The scheduler is the first node: the start is told of it before it is started.
	scheduler := hosts.Local
	if set.SchedulerHost != nil {
		scheduler = *set.SchedulerHost
	}
	c.runner.expect(roleScheduler, 0, scheduler)
	for i, h := range set.Servers {
		c.runner.expect(roleServer, i, h)
	}
	for i, h := range set.Workers {
		c.runner.expect(roleWorker, i, h)
		c.history.members[h.String()] = true
	}
	c.out.after(set.StartTimeout, startLimit{})
	c.runner.connectAll()
	return c
}

// step takes an event and says what is to be done. Time never runs backwards: an event from before
// the last one is taken to have happened at the same time. A nil event says only that time has
// passed.
func (c *core) step(e event, now time.Time) []action {
	if now.After(c.out.now) {
		if c.stage >= running {
			c.standstill.look(&c.out, now, c.set.HostTimeout)
		}
		c.out.now = now
	}
	// What was due before the event happens before it, as if the shell had woken the core in time.
	c.pass()
	c.take(e)
	// One report tells of all that the event has changed.
	if c.stage == running && !c.done && c.exchange.due() {
		c.report(0)
	}
	c.checkEnd()
	return c.out.take()
}

// next is when the core wants to be stepped again though nothing happens; zero: not at all.
func (c *core) next() time.Time {
	if at := c.out.timers.next(); c.stageOver.IsZero() || !at.IsZero() && at.Before(c.stageOver) {
		return at
	}
	return c.stageOver
}

// pass lets happen what is due, in its order. A stage ends after all else that is due at its end.
func (c *core) pass() {
	for at := c.next(); !at.IsZero() && !at.After(c.out.now); at = c.next() {
		if c.out.timers.next().Equal(at) {
			c.due(c.out.timers.pop())
			continue
		}
		c.stageOver = time.Time{}
		c.nextStage()
	}
}

// take takes an event of the shell.
func (c *core) take(e event) {
	switch e := e.(type) {
	case connected:
		c.connected(e)
	case machineLost:
		c.machines.lost(e.machine)
	case machineClosed:
		c.machines.closed(e)
	case noticed:
		c.noticed(e)
	case addressChosen:
		c.addressChosen(e)
	case announced:
		c.announced(e.err)
	case started:
		c.processStarted(e)
	case startFailed:
		c.processNotStarted(e)
	case ended:
		c.processEnded(e)
	case listening:
		c.schedulerListens(e)
	case reported:
		c.schedulerReports(e)
	case answered:
		c.answered(e)
	case edited:
		if c.stage == running {
			c.requests.edit(e.Change, &c.machines)
		}
	case signalled:
		c.signalled(e)
	case cancelled:
		c.cancel(e)
	case allClosed:
		c.allClosed()
	}
}

// due takes an event of a timer. Those that could change the job are gone when it no longer changes,
// so only a timer that is set earlier, or lasts, has to look at the stage.
func (c *core) due(e event) {
	switch e := e.(type) {
	case startLimit:
		c.start.late = true
		c.abort(startTooLong(c.set.StartTimeout))
	case schedulerRestart:
		c.startScheduler()
	case schedulerAgain:
		c.runner.restart(e)
	case noneJoined:
		if !c.present.complete && !c.present.any() {
			c.present.warn(&c.out, fmt.Sprintf("no worker has joined the job for %s", joinWarnTime))
		}
	case unjoinedCheck:
		c.endUnjoined()
	case arrivalDue:
		c.runner.seek(e.node)
	case arrivalLimit:
		c.runner.tooLate(e.node)
	case againSaid:
		c.runner.sayAgain(e)
	case unstoppable:
		c.runner.abandon(e.preparation)
	case eviction:
		c.reaper.evictNow(e)
	case kill:
		c.reaper.kill(e.node)
	case declaredLoss:
		e.node.tellLost(&c.out, e.reason, c.want.over)
	case watchAgain:
		c.exchange.ask(&c.want)
	case watchLost:
		c.exchange.lost(e.err)
	case checkpointLimit:
		c.checkpointLate()
	case noWorkerLimit:
		c.noWorkerStill()
	case verdictWait:
		c.schedulerSilent(e)
	}
}

// checkEnd closes all connections when no process is left and nothing is pending. While the job runs
// a timer that may start a process is pending, too, and so is what the scheduler has to say of a
// process that ended.
func (c *core) checkEnd() {
	switch {
	case c.stage < running || c.stage >= closing || c.procs.alive() > 0:
	case c.requests.busy() || c.machines.busy() || c.runner.busy():
	case c.stage == running && (c.out.timers.any(meansWork) || c.procs.anyAwaited()):
	default:
		c.close()
	}
}

// meansWork reports whether a timer may lead to something, so that the job is not over before.
func meansWork(what event) bool {
	switch what.(type) {
	case watchAgain, verdictWait:
		return false
	}
	return true
}

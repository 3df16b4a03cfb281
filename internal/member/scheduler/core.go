package scheduler

import (
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Core is the state of a job's scheduler: the sum of the machines of which the package's comment
// tells. It is not for use by several goroutines.
type Core struct {
	set Settings
	// out collects the effects of the event that is being handled. Its time is that of the last
	// event.
	out     output
	events  eventLog
	members membership

	meters meters
	slow   slowWatch
	trace  tracer
	adapts adaptations

	// timed are the machines that have deadlines, waiters those that hold requests (but for the
	// watches, whose end says more), and keepers those that mark what is to be recorded; the
	// others record it at once.
	timed   []timed
	waiters []waiter
	keepers []keeper
}

// A timed machine wants to be passed at a deadline although nothing happens.
type timed interface {
	// next is the first deadline; zero: there is none. open says that the job has not ended;
	// what only matters for its membership has no deadline afterwards.
	next(open bool) time.Time
}

// A waiter has requests that are answered later.
type waiter interface {
	// forget drops a request whose sender is gone. It need not be there.
	forget(request uint64)
}

// A keeper has state that outlives the scheduler.
type keeper interface {
	// keep records what has changed since it was called last.
	keep(out *output)
}

// NewCore returns the Core of a job that begins now.
func NewCore(set Settings, now time.Time) *Core {
	c := &Core{set: set.withDefaults()}
	c.members = newMembership(&c.set, now)
	c.meters = newMeters(&c.set, now)
	c.slow.history = c.meters.history
	c.trace.set, c.adapts.set = &c.set, &c.set
	c.out = output{now: now, unkept: set.Unkept, job: &c.members.job, events: &c.events}
	m := &c.members
	c.timed = []timed{m, &m.job, &m.hosts, &m.servers, &m.change, &m.watches, &m.barriers.waits, &m.signals.waits, &m.changeWaits.waits, &m.launchers, &m.scaleWaits, &m.departing, &m.wish, &c.events, &c.trace}
	c.waiters = []waiter{&m.launchers, &m.scaleWaits, &m.barriers.waits, &m.signals.waits, &m.changeWaits.waits, &c.events}
	c.keepers = []keeper{&m.sites, &m.fleet, &m.roster, &m.places, &m.servers, &m.change, &m.scale, &c.adapts, &m.job}
	return c
}

// Step handles one event. Time never runs backwards: an event from before the last one
// counts as simultaneous with it.
func (c *Core) Step(e Event) Output {
	c.out.Output = Output{}
	if e.At.Before(c.out.now) {
		e.At = c.out.now
	}
	if e.Read.IsZero() || e.At.Before(e.Read) {
		e.Read = e.At
	}
	c.pass(e)
	if e.Stop != "" && c.members.job.open() {
		c.stopped(e.Stop)
	}
	switch forming := c.members.job.phase == wire.PhaseForming; {
	case e.Message == nil:
		c.forget(e.Request)
	case forming:
		c.handle(e.Request, e.Message)
		// Who is there when the job begins has not joined it.
		if c.members.job.running() {
			c.meters.begin(&c.members.roster)
		}
	default:
		c.handle(e.Request, e.Message)
	}
	c.members.scaleWaits.tell(&c.out, &c.members)
	c.members.reconcile(&c.out)
	c.adapts.wait(c.members.wish.workers != 0)
	c.record()
	c.members.launchers.tell(&c.out, &c.members)
	return c.out.Output
}

// Next is the next deadline, at which the core must be stepped although nothing happens; zero:
// there is none.
func (c *Core) Next() (next time.Time) {
	open := c.members.job.open()
	for _, m := range c.timed {
		next = sooner(next, m.next(open))
	}
	return next
}

// sooner is the earlier one of two deadlines, of which one or both may be zero: there is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// pass advances the time to that of an event and acts on every deadline up to then.
func (c *Core) pass(e Event) {
	m, out := &c.members, &c.out
	// If something was due long ago, the scheduler was paused, not the nodes: all leases are
	// renewed.
	slept := e.Stalled
	if due := c.Next(); !due.IsZero() {
		slept = max(slept, e.At.Sub(due))
	}
	switch {
	case slept > c.set.Heartbeat:
		out.note("the scheduler was paused for %s: all leases are renewed", control.Seconds(slept))
		m.renew(e.At)
	case e.Stalled > 0:
		m.leases.prolong(&m.roster, e.At, e.Stalled)
	}
	out.now = e.At
	m.pass(out, e.Read)
	c.trace.pass(out.now, &m.roster)
	m.watches.pass(out, func() *wire.Membership { return m.message(out.now) })
	m.barriers.pass(out, m.roster.workers)
	m.changeWaits.pass(out, func(asker uint64) string { return m.change.obstacles(asker, &m.roster, out.now) })
	c.events.pass(out)
	m.signals.pass(out)
}

// stopped ends the job because the scheduler was stopped. If no worker has joined, nothing is lost.
func (c *Core) stopped(why string) {
	m := &c.members
	if m.job.phase == wire.PhaseForming && len(m.roster.living(wire.RoleWorker)) == 0 {
		c.out.note("%s; no worker had joined, so nothing is lost", why).Event = joblog.JobStopping.With()
		m.end(&c.out, nil)
		return
	}
	m.fail(&c.out, control.Failure{Code: control.SchedulerEnded, Rank: -1, Text: why})
}

// forget drops the wait of a request whose sender is gone. If it was the only watch of a node, the
// node's connection broke.
func (c *Core) forget(request uint64) {
	if n := c.members.watches.cut(request); n != nil {
		c.members.leases.cut(n, c.out.now)
	}
	for _, m := range c.waiters {
		m.forget(request)
	}
}

// record counts what became of the nodes that have changed, and adds the records of the event.
func (c *Core) record() {
	m, out := &c.members, &c.out
	for _, n := range m.roster.changed {
		c.meters.account(out, n)
		c.slow.gone(out, n, &m.roster)
	}
	m.hosts.forgetGone(out, m.roster.hasWorkers)
	for _, k := range c.keepers {
		k.keep(out)
	}
}

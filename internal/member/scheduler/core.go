package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Core is the state of a job's scheduler. It is not for use by several goroutines.
type Core struct {
	set   Settings
	start time.Time
	now   time.Time

	phase      uint8
	generation uint64
	revision   uint64
	reason     string           // why the job failed, for people
	failure    *control.Failure // the same, with fields
	nodes      []*node          // by ID; of those that are gone the newest, see forgetNodes

	workers     int // that the job has: what it waits for while it is forming, later those of the last change
	changes     uint64
	change      change // the pending one
	lossReports map[uint64]*lossReport
	division    wire.Division
	shares      []uint64            // the worker of each part of the division
	before      []uint64            // by part: examples that its worker had used when the division was made, since it counted first
	stopping    bool                // the launcher is about to stop the whole job
	stopsFor    string              // the job stops with a checkpoint, for this reason; empty: it does not
	stopped     *control.Stopped    // what it can go on from; nil: no worker has told
	scale       scaling             // the newest number of workers that was asked for, and that the launcher has taken
	asked       scaling             // a newer one that it has not taken yet
	adaptation  *control.Adaptation // the newest one of rank 0; nil: none came
	reported    string              // rank 0's newest adaptation as it came

	wished          int       // the number of workers that rank 0 wished for when the launcher was told last
	wishedAt        time.Time // when that was
	saidMisreported bool      // the warning that a text cannot be read was logged
	hosts           map[string]*host
	happened        []control.Event
	events          uint64 // number of the last one

	anyGrace bool // some node may have grace

	watches  []watch
	barriers waitTable
	signals  waitTable
	bounds   waitTable // waits for the pending change to be committed
	polls    []poll
	plan     planner

	tracing  *tracing           // nil: no trace is taken. Not in the journal
	traces   uint64             // that were begun
	history  *telemetry.History // what the nodes measure; not in the journal
	slow     telemetry.SlowWatch
	tallied  time.Time // when slow got a tally
	tallyDue bool      // records came since
	slowness slowness
	causes   map[string]uint64 // changes of the membership by cause, as control.Telemetry has them

	placement  uint64         // goes up when shards are placed elsewhere; 0: they never are
	unsteady   bool           // servers were added or removed, and shards may have to move
	saidBare   bool           // the warning that no shard has a backup was logged
	ranks      int            // of servers, with the vacant ones
	newServers []comingServer // that were asked for and have not come

	out   Output
	dirty dirty
}

// A node is a process that has registered, also after it has left.
type node struct {
	wire.Member
	wanted  int32
	process uint32 // the number that the launcher gave its process; 0: it was started by hand
	nonce   uint64
	state   state
	told    bool   // it was sent the end of the job
	member  bool   // it has counted in the running job
	misread bool   // the warning that a record of it cannot be read was logged
	why     string // it was lost or dropped

	gone       time.Time // when it left or was lost, as far as this scheduler has seen it
	heard      time.Time
	deadline   time.Time // lost if not heard of by then
	cut        time.Time // its watch ended, and nothing was heard of it since; zero: not so
	grace      grace     // not noGrace: it is waited for although its lease has expired
	graceSince time.Time
	joinBy     time.Time // dropped if it is not ready by then
	step       uint64
	epoch      uint64
	wait       control.Wait // the longest of its calls, as it said when it was heard last; At is empty: none has waited for long
}

type state uint8

const (
	living  state = iota
	left          // in order
	lost          // silent, or dropped
	removed       // by a change, and has not acknowledged yet
)

// counts reports whether rounds and barriers wait for the node.
func (n *node) counts() bool { return n.state == living && n.Counts() }

// stays reports whether the node counts, and still will after the next change.
func (n *node) stays() bool { return n.state == living && n.State == wire.MemberCounts }

func (n *node) String() string {
	if n.Rank < 0 { // it never counted
		return fmt.Sprintf("%s on %s", roleName(n.Role), n.Host)
	}
	return fmt.Sprintf("%s %d on %s", roleName(n.Role), n.Rank, n.Host)
}

// A watch is a request for the membership beyond a revision.
type watch struct {
	request  uint64
	node     *node
	revision uint64
	deadline time.Time
}

// NewCore returns the Core of a job that begins now.
func NewCore(set Settings, now time.Time) *Core {
	set = set.withDefaults()
	c := &Core{set: set, start: now, now: now, phase: wire.PhaseForming, revision: 1, workers: set.Workers,
		lossReports: make(map[uint64]*lossReport), hosts: make(map[string]*host), history: telemetry.NewHistory(now, set.Heartbeat), causes: make(map[string]uint64)}
	c.barriers.kind, c.signals.kind = "barrier", "signal"
	c.plan, c.ranks = newPlanner(set.Servers), set.Servers
	if c.plan.backups = set.Elastic.Backups > 0; c.plan.backups {
		c.placement = 1
	}
	c.dirty.job = true
	return c
}

// Step handles one event. Time never runs backwards: an event from before the last one
// counts as simultaneous with it.
func (c *Core) Step(e Event) Output {
	c.out = Output{}
	if e.At.Before(c.now) {
		e.At = c.now
	}
	read := e.At
	if !e.Read.IsZero() && e.Read.Before(read) {
		read = e.Read
	}
	c.pass(e.At, read, e.Stalled)
	switch {
	case e.Stop == "" || !c.open():
	case c.phase == wire.PhaseForming && len(c.living(wire.RoleWorker)) == 0: // nobody waits, and nothing is lost
		c.note("%s; no worker had joined, so nothing is lost", e.Stop).Event = joblog.JobStopping.With()
		c.end(wire.PhaseFinished, "")
	default:
		c.fail(control.Failure{Code: control.SchedulerEnded, Rank: -1, Text: e.Stop})
	}
	switch m := e.Message.(type) {
	case nil:
		if e.Request != 0 {
			c.forget(e.Request)
		}
	case *wire.Register:
		c.register(e.Request, m)
	case *wire.Watch:
		c.watch(e.Request, m)
	case *wire.Heartbeat:
		c.heartbeat(e.Request, m)
	case *wire.TraceChunk:
		c.traceChunk(e.Request, m)
	case *wire.Leave:
		c.leave(e.Request, m)
	case *wire.Barrier:
		c.barrier(e.Request, m)
	case *wire.Signal:
		c.signal(e.Request, m)
	case *wire.Await:
		c.await(e.Request, m)
	case *wire.Declare:
		c.declare(e.Request, m)
	case *wire.Ready:
		c.ready(e.Request, m)
	case *wire.Arrive:
		c.arrive(e.Request, m)
	case *wire.Counted:
		c.counted(e.Request, m)
	case *wire.AskLeave:
		c.askLeave(e.Request, m)
	case *wire.Stopped:
		c.workerStopped(e.Request, m)
	case *wire.ReadPlaces:
		c.readPlaces(e.Request, m)
	case *wire.Filled:
		c.filled(e.Request, m)
	case *wire.Control:
		c.control(e.Request, m)
	default:
		c.refuse(e.Request, wire.CodeUnsupported, "the scheduler does not answer a %v", m.Kind())
	}
	c.record()
	return c.out
}

// Next is the next deadline, at which the core must be stepped although nothing happens; zero:
// there is none.
func (c *Core) Next() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if c.phase == wire.PhaseForming {
		sooner(c.start.Add(c.set.StartTimeout))
	}
	if c.open() {
		for _, n := range c.nodes {
			if n.state == living || n.state == removed {
				sooner(n.deadline)
			}
			if c.mayBeDropped(n) {
				sooner(n.joinBy)
			}
		}
		for _, h := range c.hosts { // their order does not matter
			sooner(h.by)
		}
		for _, x := range c.newServers {
			sooner(x.by)
		}
		sooner(c.change.rejoinBy)
		sooner(c.change.reportsBy)
	}
	for _, w := range c.watches {
		sooner(w.deadline)
	}
	sooner(c.barriers.next())
	sooner(c.signals.next())
	sooner(c.bounds.next())
	for _, p := range c.polls {
		sooner(p.deadline)
	}
	for _, w := range c.asked.waits {
		sooner(w.deadline)
	}
	sooner(c.tracing.next())
	if !c.open() && c.tracing.awaited(c.now) {
		sooner(c.tracing.asked.Add(traceAwaited))
	}
	return next
}

// Heartbeat is how often nodes are told to send one.
func (c *Core) Heartbeat() time.Duration { return c.set.Heartbeat }

// Phase is the job's phase and, where it failed, the reason.
func (c *Core) Phase() (phase uint8, reason string) { return c.phase, c.reason }

// Failure says why the job failed; nil: it has not.
func (c *Core) Failure() *control.Failure { return c.failure }

// Waiting names the nodes that are missing while the job is forming.
func (c *Core) Waiting() []string {
	if c.phase != wire.PhaseForming {
		return nil
	}
	return c.missing()
}

// Pending says what the pending change waits for, if it has been pending for so long; else "".
func (c *Core) Pending(least time.Duration) string {
	took := c.now.Sub(c.change.since)
	if c.change.number == 0 || c.phase != wire.PhaseRunning || took < least {
		return ""
	}
	return fmt.Sprintf("change %d (%s) for %s, %s", c.change.number, strings.Join(c.change.causes, "; "), c.obstacles(0), control.Seconds(took))
}

// Settled reports whether the job has ended and every living node knows it, also those that were
// removed and have not acknowledged yet; and nobody waits for a trace.
func (c *Core) Settled() bool {
	if c.open() || c.tracing.awaited(c.now) {
		return false
	}
	for _, n := range c.nodes {
		if (n.state == living || n.state == removed) && !n.told {
			return false
		}
	}
	return true
}

// open reports whether the job has not ended.
func (c *Core) open() bool { return c.phase == wire.PhaseForming || c.phase == wire.PhaseRunning }

func (c *Core) answer(request uint64, m wire.Message) {
	c.out.Answers = append(c.out.Answers, Answer{request, m})
}

func (c *Core) refuse(request uint64, code wire.Code, format string, args ...any) {
	c.answer(request, &wire.Nack{Code: code, Generation: c.generation, Text: fmt.Sprintf(format, args...)})
}

func (c *Core) ack(request uint64) {
	c.answer(request, &wire.Ack{Generation: c.generation, Revision: c.revision})
}

// note adds a note. The caller may add its event, before the next note.
func (c *Core) note(format string, args ...any) *Note {
	c.out.Notes = append(c.out.Notes, Note{Text: fmt.Sprintf(format, args...)})
	return &c.out.Notes[len(c.out.Notes)-1]
}

// warn adds a note at the level of a warning.
func (c *Core) warn(format string, args ...any) *Note {
	c.out.Warnings = append(c.out.Warnings, Note{Text: fmt.Sprintf(format, args...)})
	return &c.out.Warnings[len(c.out.Warnings)-1]
}

// logged is what the log's events say of a node.
func (n *node) logged() joblog.Node {
	return joblog.Node{Role: roleName(n.Role), Rank: int(n.Rank), Host: n.Host, Process: n.process}
}

// pass advances the time to t and acts on every deadline up to then, on leases up to read. The
// scheduler was stalled for so long before.
func (c *Core) pass(t, read time.Time, stalled time.Duration) {
	// If something was due long ago, the scheduler was paused, not the nodes: all leases are
	// renewed.
	slept := stalled
	if due := c.Next(); !due.IsZero() {
		slept = max(slept, t.Sub(due))
	}
	switch {
	case slept > c.set.Heartbeat:
		c.note("the scheduler was paused for %s: all leases are renewed", control.Seconds(slept))
		c.renew(t)
	case stalled > 0:
		c.prolong(t, stalled)
	}
	c.now = t
	if c.phase == wire.PhaseForming && !t.Before(c.start.Add(c.set.StartTimeout)) {
		c.fail(control.Failure{Code: control.StartTimeout, Rank: -1, WaitedNS: int64(c.set.StartTimeout), Waiting: c.missing()})
	}
	for _, n := range c.nodes {
		switch {
		case !c.open() || read.Before(n.deadline):
		case n.state == living:
			c.leaseExpired(n)
		case n.state == removed:
			c.note("removed node %d on %s disconnected without acknowledging", n.Node, n.Host).Event = joblog.NodeLeft.Of(n.logged(), "node", n.Node)
			n.state = left
			c.keep(n)
		}
	}
	c.passChange(t)
	c.passTrace()
	c.watches = slices.DeleteFunc(c.watches, func(w watch) bool {
		over := !t.Before(w.deadline)
		if over {
			c.tell(w.request, w.node)
		}
		return over
	})
	late := c.barriers.late(t)
	for _, w := range late {
		c.refuse(w.request, wire.CodeTimeout, "barrier %s: waited %s for %s", wire.Shown(w.name), control.Seconds(t.Sub(w.since)), c.notAt(w.name))
	}
	for _, w := range late { // they are no longer at the barrier
		delete(c.barriers.at[w.name], w.node)
	}
	for _, w := range c.bounds.late(t) {
		c.refuse(w.request, wire.CodeTimeout, "%s: waited %s for %s", w.name, control.Seconds(t.Sub(w.since)), c.obstacles(w.node))
	}
	c.polls = slices.DeleteFunc(c.polls, func(p poll) bool {
		over := !t.Before(p.deadline)
		if over {
			c.report(p.request, c.eventsAfter(p.after))
		}
		return over
	})
	c.passScale(t)
	for _, w := range c.signals.late(t) {
		c.refuse(w.request, wire.CodeTimeout, "signal %s: waited %s, nobody has sent it", wire.Shown(w.name), control.Seconds(t.Sub(w.since)))
	}
}

// forget drops the wait of a request whose sender is gone. If the request was a node's watch, the
// node has lost its connection or has died: it gets reconnectTime to be heard from again. A node
// that watches through another connection has come back already.
func (c *Core) forget(request uint64) {
	c.watches = slices.DeleteFunc(c.watches, func(w watch) bool {
		if w.request != request {
			return false
		}
		back := slices.ContainsFunc(c.watches, func(x watch) bool { return x.node == w.node && x.request != request })
		if soon := c.now.Add(c.reconnectTime()); !back && soon.Before(w.node.deadline) {
			w.node.deadline, w.node.cut = soon, c.now
		}
		return true
	})
	c.barriers.forget(request)
	c.signals.forget(request)
	c.bounds.forget(request)
	c.polls = slices.DeleteFunc(c.polls, func(p poll) bool { return p.request == request })
	c.asked.waits = slices.DeleteFunc(c.asked.waits, func(w scaleWait) bool { return w.request == request })
}

// prolong moves all leases by the time for which the scheduler was stalled. A node whose requests
// were lost with a connection meanwhile gets the time for a new one.
func (c *Core) prolong(t time.Time, stalled time.Duration) {
	least := t.Add(c.reconnectTime())
	for _, n := range c.nodes {
		if n.deadline = n.deadline.Add(stalled); n.deadline.Before(least) {
			n.deadline = least
		}
	}
}

// renew renews all leases and deadlines.
func (c *Core) renew(t time.Time) {
	e := c.set.Elastic
	for _, n := range c.nodes {
		n.deadline, n.cut, n.grace = t.Add(c.set.Lease), time.Time{}, noGrace
		if !n.joinBy.IsZero() {
			n.joinBy = t.Add(e.JoinTimeout)
		}
	}
	for _, h := range c.hosts {
		if !h.by.IsZero() {
			h.by = t.Add(e.JoinTimeout)
		}
	}
	for i := range c.newServers {
		c.newServers[i].by = t.Add(e.JoinTimeout)
	}
	if !c.change.rejoinBy.IsZero() {
		c.change.rejoinBy = t.Add(e.RejoinTimeout)
	}
	if !c.change.reportsBy.IsZero() {
		c.change.reportsBy = t.Add(e.RejoinTimeout)
	}
}

// member finds a living node, or one that a change has removed, and renews its lease. For any other
// it refuses the request and returns nil.
func (c *Core) member(request, id uint64) *node {
	if id == 0 || id > c.lastNode() {
		c.refuse(request, wire.CodeUnknownNode, "node %d never registered", id)
		return nil
	}
	n := c.node(id)
	if n == nil {
		c.refuse(request, wire.CodeUnknownNode, "node %d left the job, or was lost, long ago", id)
		return nil
	}
	switch n.state {
	case lost:
		how := "declared lost"
		if !n.Counts() {
			how = "dropped"
		}
		c.refuse(request, wire.CodeUnknownNode, "node %d (%v) was %s%s", id, n, how, because(n.why))
		return nil
	case left:
		c.refuse(request, wire.CodeUnknownNode, "node %d (%v) has left", id, n)
		return nil
	}
	c.renewLease(n)
	return n
}

// current is member for requests that belong to a running job and its generation.
func (c *Core) current(request, id, generation uint64) *node {
	n := c.member(request, id)
	if n == nil {
		return nil
	}
	switch {
	case c.phase == wire.PhaseFailed:
		c.refuse(request, wire.CodeUnavailable, "the job failed: %s", c.reason)
	case c.phase == wire.PhaseFinished:
		c.refuse(request, wire.CodeUnavailable, "the job has finished")
	case c.phase == wire.PhaseForming:
		c.refuse(request, wire.CodeUnavailable, "the job is forming: waiting for %s", strings.Join(c.missing(), ", "))
	case n.state == removed:
		c.refuse(request, wire.CodeRemoved, "%v was removed from the job", n)
	case generation != c.generation:
		c.refuse(request, wire.CodeStaleGeneration, "yours %d, ours %d", generation, c.generation)
	default:
		return n
	}
	return nil
}

func (c *Core) heartbeat(request uint64, m *wire.Heartbeat) {
	if n := c.member(request, m.Node); n != nil {
		n.step, n.epoch = m.Step, m.Epoch
		n.wait = control.Wait{At: m.Call, For: m.WaitsFor, Seconds: float64(m.WaitsMillis) / 1000}
		if m.Adaptation != "" && m.Adaptation != c.reported && n.Role == wire.RoleWorker && n.Counts() && n.Rank == 0 {
			c.adapted(n, m.Adaptation)
		}
		if n.Role == wire.RoleWorker && n.Rank == 0 {
			c.tellWish()
		}
		c.measured(n, m.Record)
		c.answer(request, c.beat(n))
	}
}

func (c *Core) declare(request uint64, m *wire.Declare) {
	if n := c.current(request, m.Node, m.Generation); n != nil {
		known := len(c.plan.keys)
		c.answer(request, c.plan.declare(m, n.String(), c.generation))
		if len(c.plan.keys) > known {
			if !c.set.Unkept {
				c.put(fmt.Sprintf("key/%08d", known), keptKey{*m, n.String(), c.ranks, c.plan.hash})
			}
			if c.plan.backups {
				c.keepPlaces(c.plan.keys[m.Name])
			}
		}
	}
}

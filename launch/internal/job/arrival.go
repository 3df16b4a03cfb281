package job

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// errTakenAway is why nothing is started on a host.
var errTakenAway = errors.New("the host is being taken away")

// An access is the way to a host on which processes are to be started: it is connected to, and
// prepared for workers that join. All that are wanted there wait for the same access.
type access struct {
	host    hosts.Host
	waiting []*Node // in their order
	// connecting is the number of the connection under way; 0: none is.
	connecting  int
	preparation *Node // the command that prepares the host; nil: none runs
	machine     *machine
	cancelled   string // why the work ends; empty: it does not
}

// arrive begins to start a process that is wanted.
func (c *core) arrive(p control.WantedProcess) {
	h, err := c.wantedHost(p)
	rank := p.Rank
	if rank < 0 {
		rank = p.Number
	}
	n := c.newNode(p.Process, p.Role, rank, h)
	n.number, n.attempt, n.early, n.joining, n.arriving, n.prepare = p.Number, p.Attempt, p.Early, !p.Early, true, p.Prepare
	n.member = p.Early && p.Role == roleWorker
	c.arrivals = append(c.arrivals, n)
	switch {
	case err != nil:
		c.notStarted(n, err)
		return
	case p.Attempt > 0 && !p.Early && p.Role == roleWorker:
		c.after(settleTime, againSaid{n, p})
	case p.Attempt > 0 && !p.Early:
		c.info(fmt.Sprintf("starting another server %d on %s in %s", p.Rank, h, p.Delay()),
			joblog.ProcessRestarting.Of(n.logged(), "attempt", p.Attempt, "wait", p.Delay()))
	}
	if p.DelayMillis > 0 {
		c.after(p.Delay(), arrivalDue{n})
	} else {
		c.seek(n)
	}
}

// againSaid tells that a worker is started again. How the one before it ended may be seen only
// meanwhile, and may end the job.
type againSaid struct {
	n *Node
	p control.WantedProcess
}

func (x againSaid) run(c *core) {
	if c.stage == running && !x.n.ended {
		wait := x.p.Delay()
		c.info(fmt.Sprintf("starting a worker on %s again in %s (attempt %d of %d)", x.n.host, wait, x.p.Attempt, c.set.Rejoin),
			joblog.ProcessRestarting.Of(joblog.Node{Role: roleWorker, Rank: -1, Host: x.n.host.Name}, "attempt", x.p.Attempt, "wait", wait))
	}
}

// arrivalDue says that a process that is wanted after a while is to be started now.
type arrivalDue struct{ node *Node }

func (d arrivalDue) run(c *core) {
	if d.node.arriving {
		c.seek(d.node)
	}
}

// seek begins to reach the host of a process.
func (c *core) seek(n *Node) {
	if !n.early {
		// The scheduler, too, gives the host up after that time, and would know less to say
		// about it.
		limit := c.set.JoinTimeout
		c.after(limit-min(limit/20, time.Second), arrivalLimit{n})
	}
	name := n.host.String()
	a := c.accesses[name]
	if a == nil {
		a = &access{host: n.host}
		c.accesses[name] = a
	}
	a.waiting = append(a.waiting, n)
	c.advance(a)
}

// arrivalLimit ends what takes too long.
type arrivalLimit struct{ node *Node }

func (l arrivalLimit) run(c *core) {
	if why := fmt.Sprintf("gave up after %s (--join-timeout)", c.set.JoinTimeout); l.node.arriving {
		c.cancelWait(l.node, why)
	} else if c.launching[l.node.process] != nil {
		c.do(cancelStart{l.node.process, why})
	}
}

// advance goes on with an access, as far as nothing that is under way must be over first.
func (c *core) advance(a *access) {
	if a.connecting != 0 || len(a.waiting) == 0 {
		return
	}
	m := c.machines[c.key(a.host)]
	switch {
	case m != nil && !m.lost && (c.set.Remote || c.isHere(a.host)):
		c.reached(a, m, false)
		return
	case a.preparation != nil: // of a connection that is lost: it ends
		return
	}
	k := &connection{id: c.id(), key: c.key(a.host), host: a.host, goal: a, old: m}
	c.connections[k.id], a.connecting = k, k.id
	for _, n := range a.waiting {
		n.try = k.id
	}
	if h := a.host; c.set.Remote {
		c.do(connect{k.id, &h})
	} else {
		c.do(checkHost{k.id, h})
	}
}

// isHere reports whether processes of the job began on a host.
func (c *core) isHere(h hosts.Host) bool {
	return slices.ContainsFunc(c.set.Workers, h.Same) || slices.ContainsFunc(c.set.Servers, h.Same)
}

// accessConnected takes the answer to the connection of an access.
func (c *core) accessConnected(a *access, m *machine, fresh bool, err error) {
	try := a.connecting
	a.connecting = 0
	if err == nil && a.cancelled != "" {
		err = errors.New(a.cancelled)
	}
	a.cancelled = ""
	if err != nil {
		c.accessFailed(a, try, err)
		return
	}
	c.reached(a, m, fresh)
}

// reached starts what waits for a host that is connected. Workers that join wait until it is
// prepared, where it must be.
func (c *core) reached(a *access, m *machine, fresh bool) {
	a.machine = m
	var rest []*Node
	for _, n := range a.waiting {
		if n.prepare = n.prepare || fresh; c.mustPrepare(n) && c.notices[m.id] == nil {
			rest = append(rest, n)
		} else {
			c.begin(n, m)
		}
	}
	if a.waiting = rest; len(rest) == 0 || c.stage != running || a.preparation != nil {
		c.closeAccess(a)
		return
	}
	n := c.newNode(c.ownNumber(), rolePrepare, 0, a.host)
	n.machine, n.goal, a.preparation = m, a, n
	c.startNode(n)
}

// mustPrepare reports whether a process waits until its host is prepared.
func (c *core) mustPrepare(n *Node) bool {
	return c.set.Prepare && n.Role == roleWorker && !n.early && n.prepare
}

// begin starts a process on its machine.
func (c *core) begin(n *Node, m *machine) {
	if c.notices[m.id] != nil {
		c.notStarted(n, errTakenAway)
		return
	}
	c.dropArrival(n)
	switch {
	case n.Role == roleServer && n.attempt == 0:
		c.info(fmt.Sprintf("starting server %d on %s", n.Rank, n.Host))
	case n.Role == roleWorker && !n.early:
		c.do(announceWorker{n.host})
	}
	n.machine = m
	c.startNode(n)
}

// closeAccess forgets an access for which nothing is under way.
func (c *core) closeAccess(a *access) {
	if a.connecting == 0 && a.preparation == nil && len(a.waiting) == 0 {
		delete(c.accesses, a.host.String())
		c.release(a.host)
	}
}

// accessFailed gives up what has waited for a host since this connection was begun. The host may
// have come back meanwhile, so those that came later begin another one.
func (c *core) accessFailed(a *access, try int, err error) {
	waiting := a.waiting
	a.waiting = slices.DeleteFunc(slices.Clone(waiting), func(n *Node) bool { return n.try == try })
	for _, n := range waiting {
		if n.try == try {
			c.notStarted(n, err)
		}
	}
	c.advance(a)
	c.closeAccess(a)
}

// notStarted takes note of a process that could not be started, for the report.
func (c *core) notStarted(n *Node, err error) {
	c.dropArrival(n)
	c.report.due = true
	if n.unwanted.code != "" || c.stage != running || n.leaving {
		c.release(n.host)
		return
	}
	n.Exit.Code, n.Exit.Err, n.ended = 127, plainText(err), true
	c.awaitVerdict(n)
	if c.unstarted = append(c.unstarted, n); n.early || n.Role == roleServer && n.attempt > 0 {
		n.machine = c.machines[c.key(n.host)]
		c.nodes = append(c.nodes, n)
	}
	c.release(n.host)
}

func (c *core) dropArrival(n *Node) {
	n.arriving = false
	c.arrivals = slices.DeleteFunc(c.arrivals, func(o *Node) bool { return o == n })
}

// cancelArrival ends the work that would start a process that is not wanted any more.
func (c *core) cancelArrival(n *Node, why string) {
	n.leaving = true
	c.dropArrival(n)
	a := c.accesses[n.host.String()]
	if a == nil {
		c.release(n.host)
		return
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(o *Node) bool { return o == n })
	if len(a.waiting) == 0 {
		c.cancelAccess(a, why)
	}
	c.closeAccess(a)
}

// cancelWait ends the work that would start a process, since it takes too long. The last one that
// waits for its host is told by the host's answer what it waited for.
func (c *core) cancelWait(n *Node, why string) {
	a := c.accesses[n.host.String()]
	switch {
	case a == nil:
		return
	case a.preparation != nil && c.mustPrepare(n): // which may take long to end
		why = "prepare-data: " + why
	case len(a.waiting) == 1:
		c.cancelAccess(a, why)
		return
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(o *Node) bool { return o == n })
	if c.notStarted(n, errors.New(why)); len(a.waiting) == 0 {
		c.cancelAccess(a, why)
	}
}

// cancelAccess cancels what is under way for a host.
func (c *core) cancelAccess(a *access, why string) {
	if a.cancelled != "" {
		return
	}
	switch {
	case a.connecting != 0:
		a.cancelled = why
		c.do(cancelCall{a.connecting, why})
	case a.preparation != nil:
		a.cancelled = why
		if c.launching[a.preparation.process] != nil {
			c.do(cancelStart{a.preparation.process, why})
		} else {
			c.terminate(a.preparation)
		}
	}
}

// preparationStarted ends a preparation that is no longer wanted.
func (c *core) preparationStarted(n *Node) {
	if a := n.goal; a.cancelled != "" && c.stage < closing {
		c.terminate(n)
	}
}

// terminate sends a preparation SIGTERM, later SIGKILL, and in the end gives it up, also when the
// job no longer changes.
func (c *core) terminate(n *Node) {
	c.signal(n, syscall.SIGTERM)
	c.addTimer(c.set.StopTimeout, kill{n}, true)
	c.addTimer(2*c.set.StopTimeout+killTime, unstoppable{n}, true)
}

type unstoppable struct{ preparation *Node }

func (u unstoppable) run(c *core) {
	if !u.preparation.ended {
		c.preparationOver(u.preparation, errors.New("prepare-data: cannot be stopped"))
	}
}

// preparationEnded goes on when the command that prepares a host has ended.
func (c *core) preparationEnded(n *Node) {
	a, err := n.goal, error(nil)
	switch {
	case a.cancelled != "":
		err = fmt.Errorf("prepare-data: %s", a.cancelled)
	case !n.Exit.OK():
		text := fmt.Sprintf("prepare-data: %s", n.Exit)
		if last := cut(n.Last, 300); last != "" {
			text += ": " + last
		}
		err = errors.New(text)
	}
	c.preparationOver(n, err)
}

// preparationOver starts the workers that waited for it, unless err says why the host is not ready
// for them.
func (c *core) preparationOver(n *Node, err error) {
	a := n.goal
	n.ended, a.preparation, a.cancelled = true, nil, ""
	if err == nil && (a.machine.closing || a.machine.lost) {
		err = fmt.Errorf("connection to %s lost", a.host)
	}
	waiting := a.waiting
	a.waiting = nil
	for _, w := range waiting {
		switch {
		case c.stage != running:
		case !c.mustPrepare(w):
			a.waiting = append(a.waiting, w)
		case err != nil:
			c.notStarted(w, err)
		default:
			c.begin(w, a.machine)
		}
	}
	c.advance(a)
	c.closeAccess(a)
}

package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// leaveTime is how long workers of a removed host have to end by themselves once the scheduler has
// let them go.
const leaveTime = 15 * time.Second

// schedulerEvent carries out what the scheduler has decided.
func (c *core) schedulerEvent(said schedulerSaid) {
	e := said.Event
	if e.OfWorker() { // nothing has come or gone
		return
	}
	kept := e
	if len(e.Placement) > maxPlacement {
		kept.Placement = nil
	}
	if c.changes = append(c.changes, kept); len(c.changes) > maxChanges {
		c.changes = slices.Delete(c.changes, 0, 1)
		c.changesLeftOut++
	}
	switch {
	case e.OfServer():
		c.serverEvent(e)
		return
	case e.Action == control.Ranks:
		c.askRanks()
		return
	case e.Action == control.Scaling:
		c.scale(e)
		return
	case e.Action == control.Scaled:
		c.scaled(e)
		return
	case e.Action == control.Wish:
		c.wishes(e)
		return
	case e.OfJob():
		return
	}
	switch e.Action {
	case control.Added, control.Left, control.Removed, control.Lost:
		c.changed = c.now
	}
	defer c.goOnScaling()
	h, err := hosts.ParseHost(e.Host)
	if err != nil {
		c.error(fmt.Sprintf("launch: %s of a host: %v", e.Action, err))
		return
	}
	h.Slots, h.GPUs, h.CPUs = cmp.Or(e.Slots, said.listed.Slots), cmp.Or(e.GPUs, said.listed.GPUs), cmp.Or(e.CPUs, said.listed.CPUs)
	switch e.Action {
	case control.AddQueued:
		if c.departing(h) {
			c.hostFailed(h, errTakenAway)
			return
		}
		c.do(listHost{h, true})
		if c.stage == running {
			c.scaling = nil
			c.enrol(h)
			c.addHost(h)
		}
	case control.Added:
		if n := c.find(e.Process); n != nil {
			n.joining, n.member = false, true
			if c.scaling != nil {
				c.listSlots(n.host)
			}
		}
		c.askRanks()
		c.say(e, "joined the job")
		c.setMember(h, true, e)
	case control.RemovalQueued:
		c.do(listHost{h, false})
		if !c.removedByScaling(h) {
			if c.withdraw(h); e.Reason == "" { // else its last worker was told to end
				c.scaling, c.host(h).dismissed = nil, true
			}
		}
		if c.host(h).member {
			c.say(e, "leaves the job at its next step")
		}
		c.removeHost(h)
	case control.Removed:
		if c.host(h).member {
			c.say(e, "has left the job")
		} else {
			c.say(e, "was removed; it had no worker in the job")
		}
		c.setMember(h, false, e)
		c.hostRemoved(h)
	case control.Leaving:
		c.say(e, "lets a worker leave at its next step")
		c.workerLeaves(e)
	case control.Left:
		c.say(e, "goes on without a worker that has left")
		n := c.workerLeaves(e)
		if n != nil {
			n.departed = true
		}
		if n != nil && !n.ended {
			c.evict(n, fate{control.FateRemoved, "had to be stopped"}, leaveTime)
		}
	case control.Lost:
		if c.stage > running { // they are lost because the job ends
			return
		}
		if n := c.find(e.Process); n != nil && n.leaving {
			n.departed = true
		}
		if e.Reason != "" { // a sentence that names the process and its host
			c.info(e.Reason, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
		} else {
			c.say(e, "lost a "+e.Role)
		}
		if e.Role == roleServer {
			c.serverDeclaredLost(e)
		} else {
			c.workerDeclaredLost(h, e)
		}
	case control.HostFailed:
		c.error(fmt.Sprintf("host %s could not join: %s; the job goes on without it", e.Host, e.Reason),
			joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
		c.refuseHost(h, e.Reason)
		c.startsMissing(h, e.Reason)
	}
}

// removedByScaling reports whether a host is removed because the scaling wants no worker there.
func (c *core) removedByScaling(h hosts.Host) bool {
	return c.host(h).scaledAway || slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return n.Role == roleWorker && n.host.Same(h) && n.released && !n.departed
	})
}

// workerLeaves takes note of a worker that leaves alone, since somebody told it to, and returns it;
// nil: launch did not start it.
func (c *core) workerLeaves(e control.Event) *Node {
	n := c.find(e.Process)
	if n == nil {
		return nil
	}
	if n.leaving = true; n.ended && n.Exit.OK() && n.fate.code == "" {
		n.fate = fate{code: control.FateRemoved} // it ended before this news came
	}
	return n
}

// setMember writes into host_worker_log that a host has workers in the job, or none any more, if
// that is news.
func (c *core) setMember(h hosts.Host, member bool, e control.Event) {
	s := c.host(h)
	if s.member == member {
		return
	}
	s.member = member
	action := hostworker.Removed
	if member {
		action = hostworker.Added
	}
	c.do(logHost{action, e.Host, e.TimeNS})
}

// logDeparted writes down the hosts that left just before the job ended: the scheduler ends with
// it, and may not have told.
func (c *core) logDeparted() {
	stayed := func(h hosts.Host) bool {
		return slices.ContainsFunc(c.nodes, func(n *Node) bool {
			return n.Role == roleWorker && n.host.Same(h) && (!n.ended || n.member && n.fate.code == "")
		})
	}
	for _, n := range c.nodes {
		if n.Role == roleWorker && n.fate.code == control.FateRemoved && c.host(n.host).member && !stayed(n.host) {
			c.setMember(n.host, false, control.Event{Host: n.host.String(), TimeNS: c.now.UnixNano()})
		}
	}
}

func (c *core) say(e control.Event, what string) {
	text := fmt.Sprintf("host %s %s", e.Host, what)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	c.info(text, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
}

// workersOn are the workers that run on a host.
func (c *core) workersOn(h hosts.Host) (nodes []*Node) {
	for _, n := range c.nodes {
		if n.Role == roleWorker && !n.ended && n.host.Same(h) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// addHost brings an added host up.
func (c *core) addHost(h hosts.Host) {
	s := c.host(h)
	s.leaving, s.removing, s.scaledAway, s.dismissed = false, false, false, false
	s.voidRestarts() // those that were about to be started again are among the new ones
	for _, j := range c.joining {
		if j.host.Same(h) {
			return // it is on its way
		}
	}
	c.join(&joiningHost{host: h, workers: max(h.Slots, 1)})
}

// removeHost ends all that is under way for a host which is being removed, but not its workers that
// are in the job: those leave at a step.
func (c *core) removeHost(h hosts.Host) {
	s := c.host(h)
	s.leaving, s.removing = true, true
	s.voidRestarts()
	c.cancelJoining(h, "the host was removed")
	for _, n := range c.workersOn(h) {
		if n.leaving = true; !n.member {
			c.evict(n, fate{control.FateRemoved, "before it had joined"}, 0)
		}
	}
}

// hostRemoved sees to it that the workers of a removed host end.
func (c *core) hostRemoved(h hosts.Host) {
	c.host(h).removing = false
	for _, n := range c.nodes {
		if n.Role == roleWorker && n.host.Same(h) {
			n.departed = n.departed || n.leaving
		}
		if n.Role == roleWorker && n.host.Same(h) && n.ended && n.Exit.OK() && n.fate.code == "" {
			n.fate = fate{code: control.FateRemoved} // it ended before this news came
		}
	}
	for _, n := range c.workersOn(h) {
		if n.member {
			c.evict(n, fate{control.FateRemoved, "had to be stopped"}, leaveTime)
		}
	}
	c.release(h)
}

// refuseHost ends the workers of a host that could not join.
func (c *core) refuseHost(h hosts.Host, reason string) {
	c.cancelJoining(h, "the scheduler gave up on the host")
	for _, n := range c.workersOn(h) {
		if !n.member {
			c.evict(n, fate{control.FateRefused, "could not join: " + reason}, 0)
		}
	}
}

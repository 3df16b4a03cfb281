package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A grace is the reason why a node is not declared lost although its lease has expired. The node
// keeps its rank, and its lease is renewed when it is heard from. The grace lasts as long as the
// node itself would wait for the scheduler, plus a lease, so that either side has given up when it
// ends; with graceMinimum at least Elastic.RejoinTimeout, since a joining worker may replace the
// node.
type grace uint8

const (
	noGrace         grace = iota
	graceAllSilent        // no node was heard from since: the scheduler may be the one that is cut off
	graceAllWorkers       // no other worker was heard from since: all of them would be lost one after the other
	graceLastWorker       // no worker would be left, and only members know how far training is
	graceMinimum          // fewer workers than Elastic.MinWorkers would be left
)

// graceOf decides whether a node whose lease has expired is waited for. Only jobs whose membership
// may change wait, and not for a node that is known to have ended.
func (c *Core) graceOf(n *node) grace {
	if c.phase != wire.PhaseRunning || !c.set.joins() {
		return noGrace
	}
	others := slices.DeleteFunc(slices.Clone(c.nodes), func(x *node) bool { return x == n || x.state != living })
	workers := slices.DeleteFunc(slices.Clone(others), func(x *node) bool { return x.Role != wire.RoleWorker || !x.Counts() })
	stay := 0
	for _, x := range workers {
		if x.stays() {
			stay++
		}
	}
	heard := func(list []*node) bool {
		return slices.ContainsFunc(list, func(x *node) bool { return x.heard.After(c.silentSince(n)) })
	}
	e := c.set.Elastic
	switch {
	case !heard(others):
		return graceAllSilent
	case n.Role != wire.RoleWorker || !n.Counts():
		return noGrace
	case stay == 0:
		return graceLastWorker
	case !heard(workers):
		return graceAllWorkers
	case e.OnWorkerLoss == cluster.LossShrink && n.State != wire.MemberLeaving && stay+len(c.admitted()) < e.MinWorkers:
		return graceMinimum
	}
	return noGrace
}

// silentSince is the time from which on a message of another node shows that this node alone is
// silent: when its connection broke, or half an interval after its next heartbeat was due. The half
// allows for messages that are delayed differently on their way.
func (c *Core) silentSince(n *node) time.Time {
	if !n.cut.IsZero() {
		return n.cut
	}
	return n.heard.Add(c.set.Heartbeat * 3 / 2)
}

// reconnectTime is how long a node whose connection broke may take to be heard from again: one
// heartbeat and half an interval for delays, and at least a second for a new connection.
func (c *Core) reconnectTime() time.Duration { return max(time.Second, c.set.Heartbeat*3/2) }

// leaseExpired gives a node grace, or declares it lost.
func (c *Core) leaseExpired(n *node) {
	g := c.graceOf(n)
	if n.grace == noGrace {
		n.graceSince = c.now
	}
	least := time.Duration(0)
	if g == graceMinimum {
		least = c.set.Elastic.RejoinTimeout
	}
	until := n.graceSince.Add(max(c.set.Patience+c.set.Lease, least))
	if g == noGrace || !c.now.Before(until) {
		n.grace = noGrace
		c.lose(n, control.Cause{Kind: control.CauseSilence, SilenceNS: int64(c.now.Sub(n.heard))})
		return
	}
	n.deadline = until
	if n.grace != g {
		n.grace, c.anyGrace = g, true
		c.warn("%s: waiting for up to %s", c.graceText(n), control.Seconds(until.Sub(c.now))).Event = joblog.LeaseWait.Of(n.logged(), "node", n.Node, "most", until.Sub(c.now))
	}
}

// graceText names a node with grace, and says why it is waited for.
func (c *Core) graceText(n *node) string {
	why := ""
	switch n.grace {
	case graceAllSilent:
		why = "no node has been heard from since, this scheduler may be cut off"
	case graceAllWorkers:
		why = "no other worker has been heard from since"
	case graceLastWorker:
		why = "no other worker is left that could go on"
	case graceMinimum:
		why = fmt.Sprintf("without it fewer than --min-workers %d would be left", c.set.Elastic.MinWorkers)
	}
	return fmt.Sprintf("%s: %s", c.describe(n), why)
}

// InGrace names the nodes that are waited for although their leases have expired, and says why.
func (c *Core) InGrace() (list []string) {
	if c.phase != wire.PhaseRunning {
		return nil
	}
	for _, n := range c.nodes {
		if n.state == living && n.grace != noGrace && len(list) < maxNamed {
			list = append(list, c.graceText(n))
		}
	}
	return list
}

// renewLease renews a node's lease when it is heard from. Nodes that have grace because all nodes,
// or all workers, were silent get the time that this one was away to come back, too.
func (c *Core) renewLease(n *node) {
	away := c.now.Sub(n.heard)
	n.heard, n.deadline, n.cut = c.now, c.now.Add(c.set.Lease), time.Time{}
	if n.grace != noGrace {
		n.grace = noGrace
		c.warn("%v is back after %s of silence", n, control.Seconds(away)).Event = joblog.NodeBack.Of(n.logged(), "node", n.Node, "silent", away)
	}
	if !c.anyGrace {
		return
	}
	c.anyGrace = false
	for _, x := range c.nodes {
		c.anyGrace = c.anyGrace || x.state == living && x.grace != noGrace
		if x.state == living && (x.grace == graceAllSilent || x.grace == graceAllWorkers && n.Role == wire.RoleWorker) {
			if by := c.now.Add(max(c.reconnectTime(), min(away, c.set.Lease))); by.Before(x.deadline) {
				x.deadline = by
			}
		}
	}
}

// endMinimumGrace ends the grace of nodes that the least number of workers needed, once others have
// joined in their place.
func (c *Core) endMinimumGrace() {
	for _, n := range c.nodes {
		if n.state == living && n.grace == graceMinimum && c.graceOf(n) == noGrace {
			n.deadline = c.now // the next step finds its lease expired
		}
	}
}

package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/wire"
)

// A hold says why a node is not held for lost although its lease is over. It keeps its place, and its lease begins anew when it is heard
// of. It is waited for as long as it would itself wait for the scheduler, and a lease; where another one may take its place, Elastic.RejoinTimeout
// at least.
type hold uint8

const (
	notHeld   hold = iota
	holdAll        // nobody was heard of since: it may be the scheduler that is cut off
	holdTeam       // no other worker was heard of since: then all would be lost, one after the other
	holdLast       // without it no worker would be left, and nobody who knows how far training is
	holdLeast      // without it there would be fewer workers than Elastic.MinWorkers
)

// holding decides whether a node whose lease is over is waited for. That is for jobs whose membership may change; it is not for a node that is
// known to have ended.
func (c *Core) holding(n *node) hold {
	if c.phase != wire.PhaseRunning || !c.set.joins() {
		return notHeld
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
		return slices.ContainsFunc(list, func(x *node) bool { return x.heard.After(c.silentFrom(n)) })
	}
	e := c.set.Elastic
	switch {
	case !heard(others):
		return holdAll
	case n.Role != wire.RoleWorker || !n.Counts():
		return notHeld
	case stay == 0:
		return holdLast
	case !heard(workers):
		return holdTeam
	case e.OnWorkerLoss == cluster.LossShrink && n.State != wire.MemberLeaving && stay+len(c.admitted()) < e.MinWorkers:
		return holdLeast
	}
	return notHeld
}

// silentFrom is the moment from which on a word of another node says that this one alone is silent.
func (c *Core) silentFrom(n *node) time.Time {
	if !n.cut.IsZero() {
		return n.cut
	}
	return n.heard.Add(c.set.Heartbeat * 3 / 2)
}

// soon is how long a node has to be heard of again that may have lost its connection alone.
func (c *Core) soon() time.Duration { return max(time.Second, c.set.Heartbeat*3/2) }

// overdue is for a node whose lease is over: it is waited for, or lost.
func (c *Core) overdue(n *node) {
	h := c.holding(n)
	if n.hold == notHeld {
		n.heldSince = c.now
	}
	least := time.Duration(0)
	if h == holdLeast {
		least = c.set.Elastic.RejoinTimeout
	}
	until := n.heldSince.Add(max(c.set.Patience+c.set.Lease, least))
	if h == notHeld || !c.now.Before(until) {
		n.hold = notHeld
		c.lose(n, control.Cause{Kind: control.CauseSilence, SilenceNS: int64(c.now.Sub(n.heard))})
		return
	}
	n.deadline = until
	if n.hold != h {
		n.hold, c.waitsFor = h, true
		c.warn("%s: waiting for up to %s", c.heldText(n), control.Seconds(until.Sub(c.now)))
	}
}

// heldText says whom the scheduler waits for, and why.
func (c *Core) heldText(n *node) string {
	why := ""
	switch n.hold {
	case holdAll:
		why = "nobody has been heard of since, this scheduler may be cut off"
	case holdTeam:
		why = "no other worker has been heard of since"
	case holdLast:
		why = "no other worker is left that could go on"
	case holdLeast:
		why = fmt.Sprintf("without it there would be fewer than the least %d workers", c.set.Elastic.MinWorkers)
	}
	return fmt.Sprintf("%s: %s", c.describe(n), why)
}

// Held says whom the scheduler waits for although their leases are over.
func (c *Core) Held() (list []string) {
	if c.phase != wire.PhaseRunning {
		return nil
	}
	for _, n := range c.nodes {
		if n.state == living && n.hold != notHeld && len(list) < maxNamed {
			list = append(list, c.heldText(n))
		}
	}
	return list
}

// heardOf takes note that a node is heard of again. Those who were waited for since nobody, or no worker, was heard of have as long as it
// was away to come back, too.
func (c *Core) heardOf(n *node) {
	away := c.now.Sub(n.heard)
	n.heard, n.deadline, n.cut = c.now, c.now.Add(c.set.Lease), time.Time{}
	if n.hold != notHeld {
		n.hold = notHeld
		c.warn("%v is heard of again, after %s", n, control.Seconds(away))
	}
	if !c.waitsFor {
		return
	}
	c.waitsFor = false
	for _, x := range c.nodes {
		c.waitsFor = c.waitsFor || x.state == living && x.hold != notHeld
		if x.state == living && (x.hold == holdAll || x.hold == holdTeam && n.Role == wire.RoleWorker) {
			if by := c.now.Add(max(c.soon(), min(away, c.set.Lease))); by.Before(x.deadline) {
				x.deadline = by
			}
		}
	}
}

// enough gives up those who were waited for since there would be too few workers without them, where others have come.
func (c *Core) enough() {
	for _, n := range c.nodes {
		if n.state == living && n.hold == holdLeast && c.holding(n) == notHeld {
			n.deadline = c.now // the next step finds it overdue
		}
	}
}

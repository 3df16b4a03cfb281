package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// leases decides which silent nodes are lost. A node is lost when nothing was heard of it until the
// deadline of its lease, unless there is a reason to wait for it longer, its grace.
type leases struct {
	set *Settings
	// anyGrace says that some node may have grace.
	anyGrace bool
}

// A lease is a node's time to be heard from.
type lease struct {
	heard time.Time
	// deadline is when the node is lost if it was not heard of.
	deadline time.Time
	// cut is when its watch ended, if nothing was heard of it since; zero: not so.
	cut time.Time
	// grace is not noGrace while it is waited for although its lease has expired, since
	// graceSince.
	grace      grace
	graceSince time.Time
}

// A grace is the reason why a node is not declared lost although its lease has expired. The node
// keeps its rank, and its lease is renewed when it is heard from. The grace lasts as long as the
// node itself would wait for the scheduler, plus a lease, so that either side has given up when it
// ends; with graceMinimum at least Elastic.RejoinTimeout, since a joining worker may replace the
// node.
type grace uint8

const (
	noGrace grace = iota
	// graceAllSilent: no node was heard from since. The scheduler may be the one that is cut
	// off.
	graceAllSilent
	// graceAllWorkers: no other worker was heard from since. All of them would be lost one
	// after the other.
	graceAllWorkers
	// graceLastWorker: no worker would be left, and only members know how far training is.
	graceLastWorker
	// graceMinimum: fewer workers than Elastic.MinWorkers would be left.
	graceMinimum
)

// begin begins a node's lease. After a restart of the scheduler all leases begin anew: nobody is
// lost because the scheduler was away.
func (l *leases) begin(n *node, now time.Time) {
	n.lease = lease{heard: now, deadline: now.Add(l.set.Lease)}
}

// grant answers a registration.
func (l *leases) grant(out *output, request uint64, n *node) {
	out.answer(request, &wire.Registered{
		Node:            n.Node,
		HeartbeatMillis: uint32(l.set.Heartbeat / time.Millisecond),
		LeaseMillis:     uint32(l.set.Lease / time.Millisecond),
	})
}

// graceOf decides whether a node whose lease has expired is waited for. Only jobs whose membership
// may change wait, and not for a node that is known to have ended.
func (l *leases) graceOf(out *output, n *node, r *roster) grace {
	if out.job.phase != wire.PhaseRunning || !l.set.joins() {
		return noGrace
	}
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(x *node) bool { return x == n || x.life != living })
	workers := slices.DeleteFunc(slices.Clone(others), func(x *node) bool { return x.Role != wire.RoleWorker || !x.Counts() })
	stay := 0
	for _, x := range workers {
		if x.stays() {
			stay++
		}
	}
	heard := func(list []*node) bool {
		return slices.ContainsFunc(list, func(x *node) bool { return x.lease.heard.After(l.silentSince(n)) })
	}
	switch {
	case !heard(others):
		return graceAllSilent
	case n.Role != wire.RoleWorker || !n.Counts():
		return noGrace
	case stay == 0:
		return graceLastWorker
	case !heard(workers):
		return graceAllWorkers
	case policy{l.set}.tooFewWithout(n, stay, r):
		return graceMinimum
	}
	return noGrace
}

// silentSince is the time from which on a message of another node shows that this node alone is
// silent: when its connection broke, or half an interval after its next heartbeat was due. The half
// allows for messages that are delayed differently on their way.
func (l *leases) silentSince(n *node) time.Time {
	if !n.lease.cut.IsZero() {
		return n.lease.cut
	}
	return n.lease.heard.Add(l.set.Heartbeat * 3 / 2)
}

// reconnectTime is how long a node whose connection broke may take to be heard from again: one
// heartbeat and half an interval for delays, and at least a second for a new connection.
func (l *leases) reconnectTime() time.Duration { return max(time.Second, l.set.Heartbeat*3/2) }

// expired gives a node grace, or returns the cause of its loss.
func (l *leases) expired(out *output, n *node, r *roster) (cause control.Cause, isLost bool) {
	x, g := &n.lease, l.graceOf(out, n, r)
	if x.grace == noGrace {
		x.graceSince = out.now
	}
	least := time.Duration(0)
	if g == graceMinimum {
		least = l.set.Elastic.RejoinTimeout
	}
	until := x.graceSince.Add(max(l.set.Patience+l.set.Lease, least))
	if g == noGrace || !out.now.Before(until) {
		x.grace = noGrace
		return control.Cause{Kind: control.CauseSilence, SilenceNS: int64(out.now.Sub(x.heard))}, true
	}
	x.deadline = until
	if x.grace != g {
		x.grace, l.anyGrace = g, true
		out.warn("%s: waiting for up to %s", l.text(n, out.now), control.Seconds(until.Sub(out.now))).Event = joblog.LeaseWait.Of(n.logged(), "node", n.Node, "most", until.Sub(out.now))
	}
	return control.Cause{}, false
}

// text names a node with grace, and says why it is waited for.
func (l *leases) text(n *node, now time.Time) string {
	why := ""
	switch n.lease.grace {
	case graceAllSilent:
		why = "no node has been heard from since, this scheduler may be cut off"
	case graceAllWorkers:
		why = "no other worker has been heard from since"
	case graceLastWorker:
		why = "no other worker is left that could go on"
	case graceMinimum:
		why = fmt.Sprintf("without it fewer than --min-workers %d would be left", l.set.Elastic.MinWorkers)
	}
	return fmt.Sprintf("%s: %s", n.describe(now), why)
}

// inGrace lists the nodes that are waited for although their leases have expired, at most so many.
func (l *leases) inGrace(r *roster, most int) (nodes []*node) {
	for _, n := range r.nodes {
		if n.life == living && n.lease.grace != noGrace && len(nodes) < most {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// renew renews a node's lease when it is heard from. Nodes that have grace because all nodes, or
// all workers, were silent get the time that this one was away to come back, too.
func (l *leases) renew(out *output, n *node, r *roster) {
	x := &n.lease
	away := out.now.Sub(x.heard)
	x.heard, x.deadline, x.cut = out.now, out.now.Add(l.set.Lease), time.Time{}
	if x.grace != noGrace {
		x.grace = noGrace
		out.warn("%v is back after %s of silence", n, control.Seconds(away)).Event = joblog.NodeBack.Of(n.logged(), "node", n.Node, "silent", away)
	}
	if !l.anyGrace {
		return
	}
	l.anyGrace = false
	for _, o := range r.nodes {
		y := &o.lease
		l.anyGrace = l.anyGrace || o.life == living && y.grace != noGrace
		if o.life == living && (y.grace == graceAllSilent || y.grace == graceAllWorkers && n.Role == wire.RoleWorker) {
			if by := out.now.Add(max(l.reconnectTime(), min(away, l.set.Lease))); by.Before(y.deadline) {
				y.deadline = by
			}
		}
	}
}

// endMinimum ends the grace of nodes that the least number of workers needed, once others have
// joined in their place. The next step finds their leases expired.
func (l *leases) endMinimum(out *output, r *roster) {
	for _, n := range r.nodes {
		if n.life == living && n.lease.grace == graceMinimum && l.graceOf(out, n, r) == noGrace {
			n.lease.deadline = out.now
		}
	}
}

// cut shortens the lease of a node that has lost its connection or has died: it gets reconnectTime
// to be heard from again.
func (l *leases) cut(n *node, now time.Time) {
	if soon := now.Add(l.reconnectTime()); soon.Before(n.lease.deadline) {
		n.lease.deadline, n.lease.cut = soon, now
	}
}

// prolong moves all leases by the time for which the scheduler was stalled. A node whose requests
// were lost with a connection meanwhile gets the time for a new one.
func (l *leases) prolong(r *roster, t time.Time, stalled time.Duration) {
	least := t.Add(l.reconnectTime())
	for _, n := range r.nodes {
		if n.lease.deadline = n.lease.deadline.Add(stalled); n.lease.deadline.Before(least) {
			n.lease.deadline = least
		}
	}
}

// renewAll renews all leases, after the scheduler was paused.
func (l *leases) renewAll(r *roster, t time.Time) {
	for _, n := range r.nodes {
		x := &n.lease
		x.deadline, x.cut, x.grace = t.Add(l.set.Lease), time.Time{}, noGrace
	}
}

// next is the first deadline of a node that may still ask.
func (l *leases) next(r *roster) (t time.Time) {
	for _, n := range r.nodes {
		if n.listens() {
			t = sooner(t, n.lease.deadline)
		}
	}
	return t
}

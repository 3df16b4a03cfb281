package job

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// news takes something that has happened at the scheduler: it is told to people, and kept for the
// Result. What is to be done for it the wanted state says.
func (c *core) news(e control.Event) {
	if e.OfWorker() { // nothing has come or gone
		return
	}
	c.keepChange(e)
	changed := joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason)
	switch {
	case e.OfServer():
		c.serverNews(e)
		return
	case e.Action == control.Scaling && e.Workers > 0:
		c.scaling = scalingNews{e.Number, control.ScaleText(e.Workers, e.Placement)}
		c.info(fmt.Sprintf("the job scales to %s: %s", c.scaling.text, e.Reason), joblog.Scale.With("action", control.ScaleUnderWay, "reason", e.Reason))
		return
	case e.Action == control.Scaled:
		c.scales++
		if c.scaling.number == e.Scale {
			c.info(fmt.Sprintf("the job has %s, as asked", c.scaling.text), joblog.Scale.With("action", e.Action, "workers", e.Workers))
		}
		return
	case e.Action == control.ScaleShort:
		if c.scaling.number == e.Scale {
			c.error(fmt.Sprintf("the job cannot scale to %s: %s", c.scaling.text, e.Reason), joblog.ScaleShort.With("reason", e.Reason))
		}
		return
	case e.OfJob():
		return
	}
	h, err := hosts.ParseHost(e.Host)
	if err != nil {
		c.error(fmt.Sprintf("launch: %s of a host: %v", e.Action, err))
		return
	}
	switch member := c.members[h.String()]; e.Action {
	case control.Added:
		c.say(e, "joined the job")
		c.setMember(h, true, e)
	case control.RemovalQueued:
		if member {
			c.say(e, "leaves the job at its next step")
		}
	case control.Removed:
		if member {
			c.say(e, "has left the job")
		} else {
			c.say(e, "was removed; it had no worker in the job")
		}
		c.setMember(h, false, e)
	case control.Leaving:
		c.say(e, "lets a worker leave at its next step")
	case control.Left:
		c.say(e, "goes on without a worker that has left")
	case control.Lost:
		c.lossNews(h, e)
	case control.Taken:
		c.warn(e.Reason, joblog.HostNotice.With("node_host", e.Host, "reason", e.Reason))
	case control.Vacated:
		c.info(e.Reason, joblog.HostNotice.With("node_host", e.Host, "reason", e.Reason))
	case control.HostFailed:
		c.error(fmt.Sprintf("host %s could not join: %s; the job goes on without it", e.Host, e.Reason), changed)
	}
}

// scalingNews is the newest number of workers that the job was asked for.
type scalingNews struct {
	number uint64
	text   string
}

// keepChange keeps an event for the Result.
func (c *core) keepChange(e control.Event) {
	if len(e.Placement) > maxPlacement {
		e.Placement = nil
	}
	if c.changes = append(c.changes, e); len(c.changes) > maxChanges {
		c.changes = slices.Delete(c.changes, 0, 1)
		c.changesLeftOut++
	}
}

// lossNews tells of a process that the scheduler has declared lost.
func (c *core) lossNews(h hosts.Host, e control.Event) {
	if c.stage > running { // they are lost because the job ends
		return
	}
	if e.Reason != "" { // a sentence that names the process and its host
		c.info(e.Reason, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
	} else {
		c.say(e, "lost a "+e.Role)
	}
	living := slices.ContainsFunc(c.workersOn(h), func(o *Node) bool { return o.member && !o.lost && o.process != e.Process })
	if e.Role != roleServer && !living {
		c.setMember(h, false, e)
	}
}

// serverNews tells of a server that comes or goes as asked.
func (c *core) serverNews(e control.Event) {
	name := fmt.Sprintf("server %d", e.Rank)
	if e.Host != "" {
		name += " on " + e.Host
	}
	changed := joblog.ServerChanged.With("action", e.Action, "node_rank", int(e.Rank), "node_host", e.Host, "reason", e.Reason)
	switch e.Action {
	case control.ServerAdded:
		c.info(name+" joined the job; shards move to it", changed)
	case control.ServerRemoved:
		c.info(name+" was removed from the job; its shards are at other servers", changed)
	case control.ServerFailed:
		c.error(fmt.Sprintf("%s could not be added: %s; the job goes on without it", name, e.Reason), changed)
	}
}

// setMember writes into host_worker_log that a host has workers in the job, or none any more, if
// that is news.
func (c *core) setMember(h hosts.Host, member bool, e control.Event) {
	if name := h.String(); c.members[name] != member {
		c.members[name] = member
		action := hostworker.Removed
		if member {
			action = hostworker.Added
		}
		c.do(logHost{action, e.Host, e.TimeNS})
	}
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
		if n.Role == roleWorker && n.fate.code == control.FateRemoved && c.members[n.host.String()] && !stayed(n.host) {
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

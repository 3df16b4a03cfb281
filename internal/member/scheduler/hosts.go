package scheduler

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxEvents bounds the memory for events.
const maxEvents = 10_000

type host struct {
	status string
	reason string
	since  uint64    // number of the event before it got the status
	by     time.Time // fails if no worker has come from it by then; zero: one has
}

func (c *Core) hostNames() []string { return slices.Sorted(maps.Keys(c.hosts)) }

// setHost gives a host a status.
func (c *Core) setHost(name, status, reason string) {
	c.hosts[name] = &host{status: status, reason: reason, since: c.events}
	c.put("host/"+name, keptHost{status, reason})
	c.forgetHosts()
}

// event adds an event of a host.
func (c *Core) event(action, name, reason string) {
	c.tellEvent(control.Event{Action: action, Host: name, Reason: reason})
}

// tellLoss adds the event of a node that was lost.
func (c *Core) tellLoss(n *node, text string) {
	c.tellWith(control.Event{Action: control.Lost, Host: n.Host, Role: roleName(n.Role), PID: n.PID, Process: n.process, Reason: text}, c.lossEvent(n, text))
}

func (c *Core) lossEvent(n *node, text string) slog.Attr {
	if n.Role == wire.RoleServer {
		return joblog.ServerLost.Of(n.logged(), "node", n.Node, "reason", text, "generation", c.generation)
	}
	return joblog.WorkerLost.Of(n.logged(), "node", n.Node, "reason", text, "generation", c.generation)
}

// tellEvent numbers an event and answers the polls that wait for it.
func (c *Core) tellEvent(e control.Event) {
	switch {
	case e.OfJob():
		c.tellWith(e, joblog.Scale.With("action", e.Action, "workers", e.Workers, "reason", e.Reason))
	case e.OfServer():
		c.tellWith(e, joblog.ServerChanged.With("action", e.Action, "node_rank", e.Rank, "node_host", e.Host, "reason", e.Reason))
	default:
		c.tellWith(e, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
	}
}

// tellWith is tellEvent with what the log says of it.
func (c *Core) tellWith(e control.Event, said slog.Attr) {
	c.events++
	e.Number, e.TimeNS = c.events, c.now.UnixNano()
	c.happened = append(c.happened, e)
	c.put(eventKey(e.Number), e)
	if len(c.happened) > maxEvents {
		c.out.Records = append(c.out.Records, Record{Key: eventKey(c.happened[0].Number)})
		c.happened = c.happened[1:]
	}
	switch {
	case e.Action == control.Ranks: // noted with the ranks
	case e.Action == control.Lost && e.Reason != "": // a sentence that names the process and its host
		c.note("%s", e.Reason).Event = said
	case e.Action == control.BecameSlow:
		c.warn("%s", e.Reason).Event = said
	case e.Action == control.NotSlow:
		c.note("%s", e.Reason).Event = said
	case e.Action == control.Scaling:
		c.note("scale %d: to %s", e.Number, control.ScaleText(e.Workers, e.Placement)).Event = said
	case e.Action == control.Wish:
		c.note("rank 0 asks for %s%s", control.ScaleText(e.Workers, nil), because(e.Reason)).Event = said
	case e.OfJob():
		c.note("scale %d: %s%s", e.Scale, e.Action, because(e.Reason)).Event = said
	case !e.OfServer():
		c.note("host %s: %s%s", e.Host, e.Action, because(e.Reason)).Event = said
	case e.Host == "":
		c.note("server %d: %s%s", e.Rank, e.Action, because(e.Reason)).Event = said
	default:
		c.note("server %d on %s: %s%s", e.Rank, e.Host, e.Action, because(e.Reason)).Event = said
	}
	c.tellEvents()
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func eventKey(number uint64) string { return fmt.Sprintf("event/%012d", number) }

// hasWorkers reports whether a living worker is on a host.
func (c *Core) hasWorkers(name string) bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.state == living && n.Role == wire.RoleWorker && n.Host == name })
}

// failHost records that a host could not be added.
func (c *Core) failHost(name, why string) {
	c.setHost(name, control.HostFailed, why)
	c.event(control.HostFailed, name, why)
}

// hostLeft records that a worker has left its host as asked; with the last one the host is removed.
func (c *Core) hostLeft(name string) {
	if h := c.hosts[name]; h != nil && h.status == control.RemovalQueued && !c.hasWorkers(name) {
		c.setHost(name, control.Removed, "")
		c.event(control.Removed, name, "")
	}
}

// addHost asks for workers on a host, which the launcher starts when it gets the event. It returns
// why that is not possible.
func (c *Core) addHost(r control.Request) string {
	name, slots := r.Host, r.Slots
	if h := c.hosts[name]; h != nil {
		switch h.status {
		case control.AddQueued:
			return fmt.Sprintf("host %s is being added already", name)
		case control.Added:
			return fmt.Sprintf("host %s is in the job already", name)
		case control.RemovalQueued:
			return fmt.Sprintf("host %s is being removed; add it again once it is removed", name)
		}
	}
	if most := c.set.mostWorkers(); most > 0 && c.staying()+c.coming() >= most {
		return fmt.Sprintf("host %s cannot be added: the job has %s and %d are coming, want at most %d in all", name, plural.Of(c.staying(), "worker"), c.coming(), most)
	}
	if n := len(c.living(wire.RoleWorker)) + len(c.living(wire.RoleServer)); n+max(slots, 1) > cluster.MaxNodes {
		return fmt.Sprintf("host %s cannot be added with slots=%d: the job has %d workers and servers, want at most %d in all", name, max(slots, 1), n, cluster.MaxNodes)
	}
	c.setHost(name, control.AddQueued, "")
	c.hosts[name].by = c.now.Add(c.set.Elastic.JoinTimeout)
	c.tellEvent(control.Event{Action: control.AddQueued, Host: name, Slots: slots, GPUs: r.GPUs, CPUs: r.CPUs})
	return ""
}

// coming is the number of workers that are joining or were asked for.
func (c *Core) coming() (n int) {
	for _, x := range c.nodes {
		if x.state == living && x.Role == wire.RoleWorker && !x.Counts() {
			n++
		}
	}
	for name, h := range c.hosts {
		if h.status == control.AddQueued && !c.hasWorkers(name) {
			n++
		}
	}
	return n
}

// removeHost asks the workers on a host to leave. It returns why that is not possible.
func (c *Core) removeHost(name string) string {
	h := c.hosts[name]
	switch {
	case h == nil:
		return fmt.Sprintf("host %s has no worker", name)
	case h.status == control.Removed:
		return fmt.Sprintf("host %s was removed already", name)
	case h.status == control.RemovalQueued:
		return fmt.Sprintf("host %s is being removed already", name)
	}
	stay := 0
	var here []*node
	for _, n := range c.nodes {
		switch {
		case n.Role != wire.RoleWorker || n.state != living:
		case n.Host == name:
			here = append(here, n)
		case n.stays():
			stay++
		}
	}
	asked := slices.ContainsFunc(here, func(n *node) bool { return n.Counts() })
	if asked && stay < c.set.Elastic.MinWorkers {
		return fmt.Sprintf("host %s cannot be removed: it would leave %d, want at least %s", name, stay, plural.Of(c.set.Elastic.MinWorkers, "worker"))
	}
	c.setHost(name, control.RemovalQueued, "")
	c.event(control.RemovalQueued, name, "")
	for _, n := range here {
		if n.Counts() {
			n.State = wire.MemberLeaving
			c.keep(n)
			c.change.want = max(0, c.change.want-1) // nobody is wanted in its place
			continue
		}
		c.removeJoining(n)
	}
	if asked {
		c.begin(fmt.Sprintf("host %s is to be removed", name))
	}
	c.hostLeft(name)
	c.changed()
	c.tryCommit()
	return ""
}

// hostFailed handles the launcher's report that it could not start a worker on a host. It returns
// why that is ignored.
func (c *Core) hostFailed(name, why string) string {
	h := c.hosts[name]
	if h == nil || h.status != control.AddQueued {
		status := "not known"
		if h != nil {
			status = h.status
		}
		return fmt.Sprintf("host %s is %s: only a host that is being added can fail", name, status)
	}
	c.failHost(name, why)
	for _, n := range c.nodes {
		if n.state == living && n.Role == wire.RoleWorker && n.Host == name && !n.Counts() {
			c.drop(n, why)
		}
	}
	return ""
}

package job

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

const (
	// maxChanges is how many events of the job's membership are kept for the Result: the newest.
	maxChanges = 1000
	// maxPlacement bounds the hosts that such an event names; of more none is kept.
	maxPlacement = 100
)

// A history is what the scheduler says that has happened: it is told to people, and kept for the
// Result. What is to be done for it the wanted state says.
type history struct {
	out *output
	// members are the hosts that have workers in the job, as host_worker_log has it. A host that
	// had some is there with false.
	members map[string]bool

	// scaling is the newest number of workers that the job was asked for: the number of its
	// event, and what people are told.
	scaling     uint64
	scalingText string
	// scales is how often such a number was reached.
	scales int

	// changes are the newest events.
	changes []control.Event
	leftOut int
	// adaptation is the newest one of a job that adapts, once it has ended.
	adaptation *control.Adaptation
}

// take takes an event. ending says that the job is ending: who is lost then is lost for that.
func (h *history) take(e control.Event, procs *processes, ending bool) {
	// Nothing has come or gone.
	if e.OfWorker() {
		return
	}
	h.keep(e)
	switch {
	case e.OfServer():
		h.serverNews(e)
	case e.OfJob():
		h.scaleNews(e)
	default:
		host, err := hosts.ParseHost(e.Host)
		if err != nil {
			h.out.error(fmt.Sprintf("launch: %s of a host: %v", e.Action, err))
			return
		}
		if e.Action != control.Lost {
			h.hostNews(host.String(), e)
		} else if !ending {
			h.lossNews(host, e, procs)
		}
	}
}

// keep keeps an event for the Result. A job may run for months, so only the newest are kept, and how
// many there were before.
func (h *history) keep(e control.Event) {
	if len(e.Placement) > maxPlacement {
		e.Placement = nil
	}
	if h.changes = append(h.changes, e); len(h.changes) > maxChanges {
		h.changes = slices.Delete(h.changes, 0, 1)
		h.leftOut++
	}
}

// scaleNews tells how far the job has come to a number of workers. Of an older number nothing is
// told.
func (h *history) scaleNews(e control.Event) {
	switch {
	case e.Action == control.Scaling && e.Workers > 0:
		h.scaling, h.scalingText = e.Number, control.ScaleText(e.Workers, e.Placement)
		h.out.info(fmt.Sprintf("the job scales to %s: %s", h.scalingText, e.Reason), joblog.Scale.With("action", control.ScaleUnderWay, "reason", e.Reason))
	case e.Action == control.Scaled:
		h.scales++
		if h.scaling == e.Scale {
			h.out.info(fmt.Sprintf("the job has %s, as asked", h.scalingText), joblog.Scale.With("action", e.Action, "workers", e.Workers))
		}
	case e.Action == control.ScaleShort && h.scaling == e.Scale:
		h.out.error(fmt.Sprintf("the job cannot scale to %s: %s", h.scalingText, e.Reason), joblog.ScaleShort.With("reason", e.Reason))
	}
}

// hostNews tells of a host whose workers come or go.
func (h *history) hostNews(host string, e control.Event) {
	switch member := h.members[host]; e.Action {
	case control.Added:
		h.say(e, "joined the job")
		h.setMember(host, true, e)
	case control.RemovalQueued:
		if member {
			h.say(e, "leaves the job at its next step")
		}
	case control.Removed:
		if member {
			h.say(e, "has left the job")
		} else {
			h.say(e, "was removed; it had no worker in the job")
		}
		h.setMember(host, false, e)
	case control.Leaving:
		h.say(e, "lets a worker leave at its next step")
	case control.Left:
		h.say(e, "goes on without a worker that has left")
	case control.Taken:
		h.out.warn(e.Reason, joblog.HostNotice.With("node_host", e.Host, "reason", e.Reason))
	case control.Vacated:
		h.out.info(e.Reason, joblog.HostNotice.With("node_host", e.Host, "reason", e.Reason))
	case control.HostFailed:
		h.out.error(fmt.Sprintf("host %s could not join: %s; the job goes on without it", e.Host, e.Reason),
			joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
	}
}

// lossNews tells of a process that the scheduler has declared lost.
func (h *history) lossNews(host hosts.Host, e control.Event, procs *processes) {
	// The reason is a sentence that names the process and its host.
	if e.Reason != "" {
		h.out.info(e.Reason, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
	} else {
		h.say(e, "lost a "+e.Role)
	}
	others := procs.any(func(n *Node) bool {
		return n.Role == roleWorker && !n.ended && n.host.Same(host) && n.member && !n.lost && n.process != e.Process
	})
	if e.Role != roleServer && !others {
		h.setMember(host.String(), false, e)
	}
}

// serverNews tells of a server that comes or goes as asked.
func (h *history) serverNews(e control.Event) {
	name := fmt.Sprintf("server %d", e.Rank)
	if e.Host != "" {
		name += " on " + e.Host
	}
	changed := joblog.ServerChanged.With("action", e.Action, "node_rank", int(e.Rank), "node_host", e.Host, "reason", e.Reason)
	switch e.Action {
	case control.ServerAdded:
		h.out.info(name+" joined the job; shards move to it", changed)
	case control.ServerRemoved:
		h.out.info(name+" was removed from the job; its shards are at other servers", changed)
	case control.ServerFailed:
		h.out.error(fmt.Sprintf("%s could not be added: %s; the job goes on without it", name, e.Reason), changed)
	}
}

// say tells of a host in a sentence.
func (h *history) say(e control.Event, what string) {
	text := fmt.Sprintf("host %s %s", e.Host, what)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	h.out.info(text, joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason))
}

// setMember writes into host_worker_log that a host has workers in the job, or none any more, if
// that is news: of each host lines of both kinds take turns in the log.
func (h *history) setMember(host string, member bool, e control.Event) {
	if h.members[host] == member {
		return
	}
	h.members[host] = member
	action := hostworker.Removed
	if member {
		action = hostworker.Added
	}
	h.out.do(logHost{action, e.Host, e.TimeNS})
}

// departed writes down the hosts that left just before the job ended: the scheduler ends with it,
// and may not have told.
func (h *history) departed(procs *processes) {
	for _, n := range procs.nodes {
		host := n.host.String()
		if n.Role != roleWorker || n.fate.code != control.FateRemoved || !h.members[host] {
			continue
		}
		stays := procs.any(func(o *Node) bool {
			return o.Role == roleWorker && o.host.Same(n.host) && (!o.ended || o.member && o.fate.code == "")
		})
		if !stays {
			h.setMember(host, false, control.Event{Host: host, TimeNS: h.out.now.UnixNano()})
		}
	}
}

// forget forgets hosts that left and of which no process is remembered.
func (h *history) forget(nodes []*Node) {
	used := make(map[string]bool)
	for _, n := range nodes {
		used[n.host.String()] = true
	}
	for host, member := range h.members {
		if !member && !used[host] {
			delete(h.members, host)
		}
	}
}

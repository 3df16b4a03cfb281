package job

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A reporting is how far the launcher's reports have come. Each says all that is observed, so only
// the newest counts; one is under way at a time.
type reporting struct {
	due    bool // something has changed since the last one
	asked  bool // one is under way
	number uint64
	last   uint32 // the highest number of a process before the first report
}

// A reportRequest is the goal of a report.
type reportRequest struct{}

// tellObserved reports what is observed, if that has changed.
func (c *core) tellObserved() {
	if r := &c.report; r.due && !r.asked && c.stage == running && c.watching != notWatching && !c.done {
		r.due, r.asked = false, true
		c.ask(control.Request{Op: control.OpReport, Observed: c.observed()}, 0, reportRequest{})
	}
}

// reportAnew reports to a scheduler that was started again: it knows less of the processes than the
// one before. A report that is still under way is older than it, and is given up.
func (c *core) reportAnew() {
	for _, id := range sortedKeys(c.asked) {
		if _, is := c.asked[id].(reportRequest); is {
			delete(c.asked, id)
			c.do(cancelAsk{id, "there is a newer report"})
		}
	}
	c.report.due, c.report.asked = true, false
}

// tellLast reports once more when the job ends: a worker whose connection was lost cannot say
// itself that it is done. Usually the scheduler knows, and may have ended with the job, so no answer
// is wanted.
func (c *core) tellLast() {
	if c.report.due && c.watching != notWatching && !c.done {
		c.report.due = false
		c.do(ask{0, control.Request{Op: control.OpReport, Observed: c.observed()}, c.set.FinishTime})
	}
}

// observed is all that the launcher sees.
func (c *core) observed() *control.Observed {
	if c.report.number++; c.report.number == 1 {
		c.report.last = c.processes
	}
	o := &control.Observed{Number: c.report.number, Revision: c.want.revision, Last: c.report.last, Hosts: c.observedHosts()}
	seen := make(map[uint32]bool)
	add := func(n *Node, state string) {
		if n.Role != roleServer && n.Role != roleWorker || seen[n.process] || !c.want.names(n.process) && state == control.StateEnded {
			return
		}
		seen[n.process] = true
		x := control.ObservedProcess{Process: n.process, Role: n.Role, Rank: n.Rank, Number: n.number, Host: c.hostOf(n), State: state}
		if state == control.StateEnded {
			x.Cause, x.Seconds, x.Outside = causeOf(n.Exit), n.Exit.Elapsed.Seconds(), n.asked()
		} else if state == control.StateRunning {
			x.Seconds = c.now.Sub(n.started).Seconds()
		}
		o.Processes = append(o.Processes, x)
	}
	for _, n := range c.nodes {
		if n.ended {
			add(n, control.StateEnded)
		} else {
			add(n, control.StateRunning)
		}
	}
	for _, n := range c.unstarted {
		add(n, control.StateEnded)
	}
	for _, n := range c.launching {
		add(n, control.StateRunning)
	}
	for _, n := range c.arrivals {
		add(n, control.StateWaiting)
	}
	slices.SortFunc(o.Processes, func(a, b control.ObservedProcess) int { return int(a.Process) - int(b.Process) })
	c.unstarted = slices.DeleteFunc(c.unstarted, func(n *Node) bool { return !c.want.names(n.process) })
	return o
}

// hostOf is what the scheduler calls the host of a process.
func (c *core) hostOf(n *Node) string { return n.host.String() }

// observedHosts are the hosts on which workers or servers may run, and those that are connected.
func (c *core) observedHosts() (list []control.ObservedHost) {
	at := make(map[string]int)
	of := func(h hosts.Host) *control.ObservedHost {
		name := h.String()
		if _, known := at[name]; !known {
			at[name] = len(list)
			x := control.ObservedHost{Host: name}
			if m := c.machines[c.key(h)]; m != nil && !m.lost && !m.closing {
				x.Connection = m.id
				if notice := c.notices[m.id]; notice != nil {
					x.Notice = notice.left(c.now)
				}
				if s := c.scheduler(); s != nil && s.machine == m && !s.ended {
					x.Runs = control.Scheduler
				} else if c.key(h) == "" {
					x.Runs = "launch"
				}
			}
			list = append(list, x)
		}
		return &list[at[name]]
	}
	for _, h := range hosts.Merge(c.set.Hosts) {
		x := of(h)
		x.Listed, x.Slots, x.GPUs, x.CPUs = true, h.Slots, h.GPUs, h.CPUs
	}
	for _, h := range hosts.Merge(c.set.ServerHosts) {
		of(h).Servers = true
	}
	for _, h := range c.set.Servers {
		of(h).First++
	}
	if m := c.machines[""]; c.set.Remote && m != nil && c.notices[m.id] != nil { // where launch itself runs
		n := c.notices[m.id]
		list = append(list, control.ObservedHost{Host: hosts.Local.String(), Connection: m.id, Runs: "launch", Notice: n.left(c.now)})
	}
	for _, key := range sortedKeys(c.machines) {
		if h, err := hosts.ParseHost(key); err == nil {
			of(h)
		}
	}
	return list
}

// A hostNotice says that a host is about to be taken away.
type hostNotice struct {
	by           time.Time // when its processes are ended
	checkpointBy time.Time // when a checkpoint of the job must be complete: processes that are stopped then have their time
	text         string
}

// left is the notice with the time that is left.
func (n *hostNotice) left(now time.Time) *control.HostNotice {
	return &control.HostNotice{LeftMillis: max(n.by.Sub(now), 0).Milliseconds(), CheckpointMillis: max(n.checkpointBy.Sub(now), 0).Milliseconds(), Text: n.text}
}

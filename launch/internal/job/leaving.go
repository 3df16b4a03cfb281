package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// noticeTime is assumed where a notice does not say how much time is left: less than any
	// provider gives.
	noticeTime = 20 * time.Second
	// stopReserve is how much of the time that is left is kept for a checkpoint of the whole
	// job; half of it if that is less.
	stopReserve = 30 * time.Second
	// lossTime is how long before its host is taken away a worker is ended that cannot leave,
	// in the second half of the time. An agent that got SIGTERM passes it on 3 s before.
	lossTime = 5 * time.Second
	// leaveRetry is when a request that was refused is repeated: shards may be moving.
	leaveRetry = 250 * time.Millisecond
	// leaveTries is how often it is refused, for another reason, before the job stops.
	leaveTries = 4
)

// errTakenAway is why nothing is started on a host.
var errTakenAway = errors.New("the host is being taken away")

// A departure is a host that is about to be taken away. Its workers leave the job at the next step,
// as those of a removed host do, and its servers are removed once their shards are at others. If
// that is not possible, or takes too long, the whole job stops with a checkpoint.
type departure struct {
	host    hosts.Host
	machine *machine
	by      time.Time // when its processes are ended
	why     string    // for people

	checkpointBy time.Time // when a checkpoint of the job must be complete: processes that are stopped then have their time

	begun       bool
	over        bool // nothing of the job depends on the host any more
	workersStay bool // its workers are lost with it, and the job goes on
	removal     leaveRequest
	server      leaveRequest // removes one of its servers, or adds one elsewhere
	added       *hosts.Host  // where a server was added, so that one remains; nil: none was
}

// A leaveRequest is a request to the scheduler that is repeated while it is refused.
type leaveRequest struct {
	pending, granted bool
	refused          int
}

// noticed takes a notice of an agent.
func (c *core) noticed(e noticed) {
	m := c.byID[e.machine]
	if m == nil || m.closing || m.lost || c.stage > running {
		return
	}
	h := hosts.Local
	if m.key != "" {
		h, _ = hosts.ParseHost(m.key) // it is the String of one
	}
	d := c.departureOf(m)
	said := ""
	if e.Text != "" {
		said = ": " + e.Text
	}
	switch {
	case e.Withdrawn:
		if d != nil {
			c.stays(d, said)
		}
	case !e.Known():
		c.warn(fmt.Sprintf("host %s has a notice of a kind that is not known here (%q), and nothing is done about it%s", h, e.Code, said),
			joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text))
	case e.Code == agent.NoticeAtRisk:
		if d == nil {
			c.warn(fmt.Sprintf("host %s may be taken away before long%s; the job goes on there until then", h, said),
				joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text))
		}
	default:
		left := cmp.Or(e.Left, noticeTime)
		by := c.now.Add(left)
		if d == nil {
			d = &departure{host: h, machine: m, by: by, why: fmt.Sprintf("host %s is being taken away%s", h, said)}
			c.departures = append(c.departures, d)
			c.warn(fmt.Sprintf("%s; %s left", d.why, left.Round(time.Second)),
				joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text, "left", left))
		} else if !by.Before(d.by) {
			return
		}
		d.by, d.checkpointBy = by, c.now.Add(max(left-c.set.StopTimeout-killTime, left/2))
		c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { l, ok := t.due.(departureLimit); return ok && l.departure == d }) // of the notice before
		c.after(left-min(left/2, stopReserve), departureLimit{d, by})
	}
}

// stays forgets a departure whose notice was withdrawn. What has left by then stays away.
func (c *core) stays(d *departure, said string) {
	c.forgetDeparture(d)
	s := c.host(d.host)
	text := fmt.Sprintf("host %s is no longer being taken away%s", d.host, said)
	if s.away = false; d.removal.pending || d.removal.granted || s.removing {
		text += fmt.Sprintf("; launch ctl add %s lets it join again", d.host)
	} else if s.leaving = false; c.placeOf(d.host) != nil {
		c.placeOf(d.host).withdrawn = false
	}
	c.info(text, joblog.HostNotice.With("node_host", d.host.String()))
}

func (c *core) forgetDeparture(d *departure) {
	c.departures = slices.DeleteFunc(c.departures, func(o *departure) bool { return o == d })
}

// departureOf finds that of a machine; nil: it stays.
func (c *core) departureOf(m *machine) *departure {
	for _, d := range c.departures {
		if d.machine == m {
			return d
		}
	}
	return nil
}

// departing reports whether a host is being taken away.
func (c *core) departing(h hosts.Host) bool {
	return slices.ContainsFunc(c.departures, func(d *departure) bool { return d.host.Same(h) })
}

// departureLimit is when the rest of the time is needed for a checkpoint.
type departureLimit struct {
	*departure
	by time.Time
}

func (l departureLimit) run(c *core) {
	if l.departure.by != l.by || l.over || !slices.Contains(c.departures, l.departure) {
		return
	}
	servers, workers := c.leftBehind(l.departure)
	if !c.set.Elastic && l.workersStay && len(workers) > 0 {
		c.after(max(l.departure.by.Sub(c.now)-lossTime, 0), departureLoss(l))
	}
	switch all := append(servers, workers...); {
	case len(servers) > 0 || len(workers) > 0 && (!c.formed || c.set.OnWorkerLoss == LossFail):
		c.stopForDeparture(l.departure, strings.Join(all, ", ")+" could not leave in time")
	case len(workers) > 0 && !l.workersStay && c.stage == running && !c.checkpoint.requested():
		l.workersStay = true
		c.warn(fmt.Sprintf("%s on %s could not leave in time; workers that are still there when the host is taken away are lost, and the job goes on (--on-worker-loss %s)",
			strings.Join(workers, ", "), l.host, c.set.OnWorkerLoss), joblog.HostNotice.With("node_host", l.host.String()))
	}
}

// departureLoss ends the workers that cannot leave, shortly before the host is taken away: SIGTERM,
// which they would get then, may mean to them that all are to stop.
type departureLoss struct {
	*departure
	by time.Time
}

func (l departureLoss) run(c *core) {
	if l.departure.by != l.by || !slices.Contains(c.departures, l.departure) || c.checkpoint.requested() {
		return
	}
	for _, n := range c.workersOn(l.host) {
		c.signal(n, syscall.SIGKILL)
	}
}

// leftBehind names what is still on a host that is being taken away, and should have left.
func (c *core) leftBehind(d *departure) (servers, workers []string) {
	for _, n := range c.nodes {
		if n.machine != d.machine || n.ended {
			continue
		}
		switch {
		case n.Role == roleServer && !n.leaving:
			servers = append(servers, n.Name())
		case n.Role == roleWorker && !n.departed:
			workers = append(workers, n.Name())
		}
	}
	return servers, workers
}

// goOnDeparting does what can be done now for the hosts that are being taken away.
func (c *core) goOnDeparting() {
	for _, d := range slices.Clone(c.departures) {
		switch s := &c.checkpoint; {
		case c.stage != running || !c.formed || c.done:
			return // the rest follows when the job is complete
		case s.requested(): // nobody leaves alone any more
			if d.checkpointBy.Before(s.by) {
				c.limitCheckpoint(max(d.checkpointBy.Sub(c.now), 0))
			}
			continue
		}
		if !d.begun && !c.depart(d) || d.over {
			continue
		}
		c.removeDeparting(d)
		c.moveServers(d)
		if servers, workers := c.leftBehind(d); len(servers)+len(workers) == 0 && !c.comesTo(d.host) && !d.workersStay {
			d.over = true
			c.info(fmt.Sprintf("the job no longer needs host %s, which is being taken away", d.host), joblog.HostNotice.With("node_host", d.host.String(), "left", d.by.Sub(c.now)))
			c.release(d.host)
		}
	}
}

// depart begins to empty a host that is being taken away, or stops the job if that is not possible.
func (c *core) depart(d *departure) bool {
	d.begun = true
	workers, servers := 0, 0
	for _, n := range c.nodes {
		switch {
		case n.machine != d.machine || n.ended:
		case n.Role == roleScheduler:
			c.stopForDeparture(d, "the scheduler runs there")
			return false
		case n.Role == roleWorker:
			workers++
		case n.Role == roleServer:
			servers++
		}
	}
	switch {
	case d.machine.key == "":
		c.stopForDeparture(d, "launch runs there")
		return false
	case servers > 0 && c.set.Backups == 0:
		c.stopForDeparture(d, "the shards of its servers have no backups (--backups 1), so they cannot move")
		return false
	case workers > 0 && !c.set.Elastic && c.set.OnWorkerLoss != LossShrink:
		c.stopForDeparture(d, "its workers cannot leave, because the job was not started with --elastic-training-enabled")
		return false
	case workers > 0 && !c.set.Elastic:
		d.workersStay = true
		c.warn(fmt.Sprintf("the workers on %s cannot leave, because the job was not started with --elastic-training-enabled; they are lost with their host, and the job goes on (--on-worker-loss %s)",
			d.host, c.set.OnWorkerLoss), joblog.HostNotice.With("node_host", d.host.String()))
	}
	s := c.host(d.host)
	s.leaving, s.away = true, true
	s.voidRestarts()
	c.withdraw(d.host)
	return true
}

// removeDeparting asks the scheduler to remove the host, if workers are there or on their way.
func (c *core) removeDeparting(d *departure) {
	r, s := &d.removal, c.host(d.host)
	if !c.set.Elastic || r.pending || r.granted || s.removing || !c.comesTo(d.host) && len(c.stayingWorkers(d.host)) == 0 {
		return
	}
	r.pending = true
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpRemove, Host: d.host.String()}, done: func(err error) {
		r.granted = err == nil
		if r.pending = false; r.granted || s.removing || len(c.stayingWorkers(d.host)) == 0 { // they may have been leaving already
			return
		}
		if r.refused++; r.refused >= leaveTries && !c.anyStarting() { // those who are starting may make up for them
			c.stopForDeparture(d, plainText(err))
			return
		}
		c.leaveAgain(r)
	}})
}

// comesTo reports whether workers are being started on a host.
func (c *core) comesTo(h hosts.Host) bool {
	return slices.ContainsFunc(c.joining, func(j *joiningHost) bool { return j.host.Same(h) })
}

// leaveAgain lets a request be repeated a little later.
func (c *core) leaveAgain(r *leaveRequest) {
	r.pending = true
	c.after(leaveRetry, r)
}

func (r *leaveRequest) run(*core) { r.pending = false }

// moveServers removes the servers of a host, one after the other. Where no other one would remain,
// one is added elsewhere first, and the shards move to that.
func (c *core) moveServers(d *departure) {
	r := &d.server
	var next *Node
	remains := false
	for _, n := range c.nodes {
		switch {
		case n.Role != roleServer || n.ended || n.leaving:
		case n.machine == d.machine:
			next = cmp.Or(next, n)
		default:
			remains = remains || c.departureOf(n.machine) == nil && c.wanted[n.Rank] == nil
		}
	}
	switch {
	case r.pending || next == nil || c.stage != running:
		return
	case !remains:
		c.addServerElsewhere(d)
		return
	}
	r.pending = true
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpRemoveServer, Rank: next.Rank}, done: func(err error) {
		r.pending = false
		switch {
		case err == nil:
			next.leaving = true
			return
		case next.ended || next.leaving:
			return
		case errors.Is(err, control.ErrLater): // its shards are moving
		default:
			if r.refused++; r.refused >= leaveTries {
				c.stopForDeparture(d, fmt.Sprintf("%s cannot leave: %s", next.Name(), plainText(err)))
				return
			}
		}
		c.leaveAgain(r)
	}})
}

// addServerElsewhere adds a server on a host that stays, unless one is on its way.
func (c *core) addServerElsewhere(d *departure) {
	for _, s := range c.wanted {
		if !c.departing(s.node.host) {
			return
		}
	}
	if d.added != nil && !c.departing(*d.added) {
		return // the scheduler's event follows
	}
	h, ok := c.serverHost()
	if !ok {
		c.stopForDeparture(d, "no other host may run a server")
		return
	}
	r := &d.server
	d.added, r.pending = &h, true
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpAddServer, Host: h.String()}, done: func(err error) {
		if r.pending = false; err != nil {
			c.stopForDeparture(d, plainText(err))
		}
	}})
}

// serverNotAdded stops the job if a server could not be added that was to take the shards of a host
// that is being taken away.
func (c *core) serverNotAdded(e control.Event) {
	for _, d := range slices.Clone(c.departures) {
		if d.added != nil && d.added.String() == e.Host {
			c.stopForDeparture(d, fmt.Sprintf("server %d could not be added on %s: %s", e.Rank, e.Host, e.Reason))
		}
	}
}

// stopForDeparture stops the job with a checkpoint, before a host is taken away.
func (c *core) stopForDeparture(d *departure, why string) {
	if !c.checkpoint.requested() {
		c.stopWithCheckpoint(fmt.Sprintf("%s, and %s", d.why, why), max(d.checkpointBy.Sub(c.now), killTime).Round(100*time.Millisecond))
	}
}

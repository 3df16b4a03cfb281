package job

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A scaling is the number of workers that was asked for last, and what is left to be done for it.
// Workers are started first; others are released when those count, or when there would be more than
// --max-workers, so that a job that moves to other hosts trains meanwhile.
type scaling struct {
	number   uint64                  // of the scheduler's event
	workers  int                     // wanted
	text     string                  // the same, for people
	placed   bool                    // it was said on which hosts
	hosts    []control.WorkersOnHost // where, as the job spells the hosts; nil: it was not said
	starts   []growth
	fewer    []fewerStarts
	releases []*Node         // in the order in which they are to leave
	failed   map[string]bool // hosts that could not start all: no more are started there
	reached  bool
	short    bool // the scheduler was told that it cannot be
}

// A growth is workers that are to be started on a host.
type growth struct {
	host    hosts.Host
	workers int
	asked   bool // the scheduler is being told
}

// scale takes a request for a number of workers, or refuses it.
func (c *core) scale(e control.Event) {
	if e.Workers == 0 || c.stage != running {
		return // a newer one has replaced it
	}
	c.wish = nil
	s := &scaling{number: e.Number, workers: e.Workers, placed: len(e.Placement) > 0, failed: make(map[string]bool), text: control.ScaleText(e.Workers, e.Placement)}
	var refusal string
	if s.placed {
		refusal = c.planPlacement(s, e.Placement)
	} else {
		refusal = c.planNumber(s)
	}
	if refusal != "" {
		c.reportScale(s, control.ScaleRefused, refusal)
		return
	}
	for _, h := range c.hostStates { // workers that were about to be started again are among those that the plan starts
		h.voidRestarts()
	}
	c.scaling = s
	c.reportScale(s, control.ScaleUnderWay, "")
	c.info(fmt.Sprintf("the job scales to %s: %s", s.text, s.plan()), joblog.Scale.With("action", control.ScaleUnderWay, "reason", s.plan()))
	c.goOnScaling()
}

// plan says what a scaling does, for people.
func (s *scaling) plan() string {
	var parts []string
	for _, g := range s.starts {
		parts = append(parts, fmt.Sprintf("%d more on %s", g.workers, g.host))
	}
	for _, f := range s.fewer {
		parts = append(parts, fmt.Sprintf("%d of those about to start on %s are cancelled", f.workers, f.host.host))
	}
	for _, n := range s.releases {
		parts = append(parts, fmt.Sprintf("%s on %s leaves", n.Name(), n.Host))
	}
	if len(parts) == 0 {
		return "all of them are running or starting"
	}
	return strings.Join(parts, ", ")
}

// reportScale tells the scheduler what becomes of a scaling.
func (c *core) reportScale(s *scaling, state, reason string) {
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpScaling, Scale: s.number, State: state, Reason: reason, Placement: s.hosts}})
}

// goOnScaling does what can be done now for the scaling.
func (c *core) goOnScaling() {
	s := c.scaling
	if s == nil || c.stage != running || len(s.fewer)+len(s.starts)+len(s.releases) == 0 {
		return
	}
	for _, f := range s.fewer {
		c.startFewer(f)
	}
	s.fewer = nil
	for i := range s.starts {
		if g := &s.starts[i]; !g.asked && !c.vacating(g.host) {
			g.asked = true
			c.grow(s, *g)
		}
	}
	var later []*Node
	coming, all := len(s.starts) > 0, 0
	for _, h := range c.occupied() {
		all += c.countWorkers(h)
		for _, n := range c.stayingWorkers(h) {
			coming = coming || !n.member && !slices.Contains(s.releases, n)
		}
	}
	for _, g := range s.starts {
		all += g.workers
	}
	coming = coming || slices.ContainsFunc(c.joining, func(j *joiningHost) bool { return j.unstarted() > 0 })
	for _, n := range s.releases {
		switch {
		case n.ended || n.leaving || n.lost:
		case !n.member || !coming || c.set.MaxWorkers > 0 && all > c.set.MaxWorkers:
			all--
			c.releaseWorker(s, n)
		default:
			later = append(later, n)
		}
	}
	s.releases = later
}

// vacating reports whether workers are leaving a host, or the scheduler has not reported yet that
// they have left: what is started there before that would be taken for one of them.
func (c *core) vacating(h hosts.Host) bool {
	return c.host(h).removing || slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return n.Role == roleWorker && n.host.Same(h) && n.leaving && n.member && !n.departed && !n.lost
	})
}

// startFewer starts fewer workers on a host that is still being reached.
func (c *core) startFewer(f fewerStarts) {
	j := f.host
	if j.workers -= f.workers; j.workers > 0 {
		return
	}
	j.dropped = true
	c.cancelJoin(j, "fewer workers are wanted")
	c.leaveHost(j.host)
}

// leaveHost tells the scheduler that no worker comes from a host, if none is there.
func (c *core) leaveHost(h hosts.Host) {
	if c.countWorkers(h) > 0 || slices.ContainsFunc(c.workersOn(h), func(n *Node) bool { return n.member }) {
		return
	}
	q := control.Request{Op: control.OpRemove, Host: h.String()}
	if c.scaling != nil {
		q.Scale = c.scaling.number
	}
	c.host(h).scaledAway = true
	c.enqueue(queuedRequest{Request: q})
}

// fewerStarts is workers that need not be started on a host that is being reached.
type fewerStarts struct {
	host    *joiningHost
	workers int
}

// grow starts workers on a host, once the scheduler lets them join.
func (c *core) grow(s *scaling, g growth) {
	c.enqueue(queuedRequest{Request: control.Request{Op: control.OpGrow, Host: g.host.String(), Slots: g.workers}, done: func(err error) {
		i := slices.IndexFunc(s.starts, func(o growth) bool { return o.host.Same(g.host) })
		switch {
		case c.scaling != s || i < 0: // it was replaced
			if err == nil {
				c.leaveHost(g.host)
			}
			return
		case errors.Is(err, control.ErrLater):
			s.starts[i].asked = false // it comes again with the next event
			return
		}
		s.starts = slices.Delete(s.starts, i, i+1)
		if err == nil && c.departing(g.host) {
			c.leaveHost(g.host)
			err = errTakenAway
		}
		if err != nil {
			c.startsMissing(g.host, plainText(err))
			return
		}
		h := g.host
		before := c.countWorkers(h)
		st := c.host(h)
		st.leaving, st.scaledAway, st.dismissed = false, false, false
		if p := c.placeOf(h); p != nil {
			p.withdrawn = false
		}
		c.join(&joiningHost{host: h, workers: g.workers, prepared: before > 0})
	}})
}

// releaseWorker ends a worker that is not wanted any more: one that is in the job leaves at the
// next step.
func (c *core) releaseWorker(s *scaling, n *Node) {
	n.leaving, n.released = true, true
	q := queuedRequest{Request: control.Request{Op: control.OpRelease, Process: n.process}}
	if !n.member {
		c.enqueue(q)                       // it may have registered
		if c.launching[n.process] == nil { // else it is ended as soon as it has been started
			c.evict(n, fate{control.FateRemoved, "before it had joined"}, 0)
		}
		c.leaveHost(n.host)
		return
	}
	q.done = func(err error) {
		if err == nil {
			c.listSlots(n.host)
			return
		}
		n.released = false
		switch {
		case n.ended:
			n.departed = true
		case errors.Is(err, control.ErrLater) && c.scaling == s:
			n.leaving = false
			s.releases = append(s.releases, n)
			if len(s.starts) == 0 && !c.anyStarting() {
				c.tooFew(s, plainText(err)) // nobody comes after whom it could leave
			}
		default:
			n.leaving = false
		}
	}
	c.enqueue(q)
}

// listSlots writes into host_worker how many workers of the job a host has, so that a job that is
// started again has them, too.
func (c *core) listSlots(h hosts.Host) {
	h.Slots = 0
	for _, n := range c.stayingWorkers(h) {
		if n.member {
			h.Slots++
		}
	}
	if h.Slots > 0 {
		c.do(listHost{h, true})
	}
}

// anyStarting reports whether workers are on their way into the job.
func (c *core) anyStarting() bool {
	return len(c.joining) > 0 || len(c.launching) > 0 || c.anyComing() || slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return n.Role == roleWorker && !n.ended && !n.member && !n.leaving
	})
}

// startsMissing takes note of workers that could not be started on a host. Others are started in
// their place where there are free slots, unless it was said on which hosts they are wanted.
func (c *core) startsMissing(h hosts.Host, why string) {
	s := c.scaling
	if s == nil || s.reached || c.stage != running {
		return
	}
	s.failed[h.String()] = true
	if s.placed {
		c.tooFew(s, fmt.Sprintf("host %s: %s", h, why))
		return
	}
	have := 0
	for _, o := range c.occupied() {
		have += c.countWorkers(o)
	}
	for _, g := range s.starts {
		have += g.workers
	}
	for _, st := range c.hostStates {
		have += st.restarts
	}
	if missing := s.workers - have; missing > 0 && c.planStarts(s, missing) < missing {
		c.tooFew(s, fmt.Sprintf("host %s: %s; no other host has a free slot", h, why))
	}
	c.goOnScaling()
}

// tooFew tells that a number of workers cannot be reached.
func (c *core) tooFew(s *scaling, why string) {
	if s.short {
		return
	}
	s.short = true
	c.tell(slog.LevelError, fmt.Sprintf("the job cannot scale to %s: %s", s.text, why), joblog.ScaleShort.With("reason", why))
	c.reportScale(s, control.ScaleTooFew, why)
}

// scaled takes note that the number of workers is reached.
func (c *core) scaled(e control.Event) {
	c.scales++
	if s := c.scaling; s != nil && s.number == e.Scale {
		s.reached = true
		c.info(fmt.Sprintf("the job has %s, as asked", s.text), joblog.Scale.With("action", e.Action, "workers", e.Workers))
	}
}

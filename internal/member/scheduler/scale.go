package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scaling is a number of workers that was asked for. The launcher knows which hosts have free
// slots: it takes or refuses it, starts and releases workers, and says if some could not be
// started. The scheduler keeps the limits, and knows when the number is reached.
type scaling struct {
	keptScale
	waits []scaleWait // who asked for it, while the launcher has not answered
}

type keptScale struct {
	Number    uint64 // of the event that tells the launcher; 0: none
	Workers   int
	Placement []control.WorkersOnHost `json:",omitempty"`
	Reached   bool                    `json:",omitempty"`
	Short     string                  `json:",omitempty"` // why the launcher cannot start all
	Lost      string                  `json:",omitempty"` // why there are fewer again
}

type scaleWait struct {
	request  uint64
	deadline time.Time
}

// launcherTime is how long the launcher may take to answer. The answer takes it milliseconds.
const launcherTime = 4 * time.Second

// askScale handles a request for a number of workers.
func (c *Core) askScale(request uint64, r control.Request) {
	if why := c.cannotScale(r); why != "" {
		c.report(request, &control.Done{Error: why})
		return
	}
	wait := scaleWait{request, c.now.Add(launcherTime)}
	switch {
	case c.asked.Number > 0 && c.asked.same(r): // it was asked before
		c.asked.waits = append(c.asked.waits, wait)
		return
	case c.asked.Number == 0 && c.scale.Number > 0 && c.scale.same(r) && c.scaleState(&c.scale) != control.ScaleTooFew:
		c.report(request, &control.Done{Scale: c.scale.Number})
		return
	}
	c.dropPlacements()
	c.endAsked("a newer request replaces it: " + control.ScaleText(r.Wanted(), r.Placement))
	c.asked = scaling{keptScale{Number: c.events + 1, Workers: r.Wanted(), Placement: r.Placement}, []scaleWait{wait}}
	c.dirty.job = true
	c.tellEvent(control.Event{Action: control.Scaling, Workers: c.asked.Workers, Placement: r.Placement})
}

// cannotScale says which limit a number of workers does not keep; empty: none.
func (c *Core) cannotScale(r control.Request) string {
	if why := c.cannotChange(); why != "" {
		return why
	}
	wanted, e := r.Wanted(), c.set.Elastic
	text := "cannot scale to " + control.ScaleText(wanted, r.Placement)
	servers := len(c.living(wire.RoleServer))
	switch {
	case c.stopping:
		return text + ": the whole job is being stopped"
	case wanted < e.MinWorkers:
		return fmt.Sprintf("%s: want at least %d (--min-workers)", text, e.MinWorkers)
	case e.MaxWorkers > 0 && wanted > e.MaxWorkers:
		return fmt.Sprintf("%s: want at most %d (--max-workers)", text, e.MaxWorkers)
	case wanted+servers > cluster.MaxNodes:
		return fmt.Sprintf("%s: the job has %s, want at most %d workers and servers in all", text, plural.Of(servers, "server"), cluster.MaxNodes)
	}
	return ""
}

// same reports whether the scaling is what a request asks for.
func (s *scaling) same(r control.Request) bool {
	return s.Workers == r.Wanted() && slices.Equal(s.Placement, r.Placement)
}

// dropPlacements takes what earlier events asked for out of them: it counts no more, and may be
// long. The launcher passes over such an event.
func (c *Core) dropPlacements() {
	for _, number := range []uint64{c.asked.Number, c.scale.Number} {
		i, found := slices.BinarySearchFunc(c.happened, number, func(e control.Event, n uint64) int { return int(int64(e.Number) - int64(n)) })
		if found {
			c.happened[i].Placement, c.happened[i].Workers = nil, 0
			c.put(eventKey(number), c.happened[i])
		}
	}
}

// endAsked ends a request that the launcher has not answered, and answers it with a refusal, or
// without one.
func (c *Core) endAsked(refusal string) {
	for _, w := range c.asked.waits {
		done := &control.Done{Error: refusal}
		if refusal == "" {
			done.Scale = c.asked.Number
		}
		c.report(w.request, done)
	}
	c.asked, c.dirty.job = scaling{}, true
}

// endScale forgets what was asked for, because hosts are added or removed by name.
func (c *Core) endScale(why string) {
	if c.asked.Number > 0 || c.scale.Number > 0 {
		c.endAsked(why)
		c.scale = scaling{}
	}
}

// launcherScales handles what the launcher says of a scaling. It returns why that is ignored.
func (c *Core) launcherScales(r control.Request) string {
	switch {
	case r.Scale == c.asked.Number && r.State == control.ScaleRefused:
		c.note("scale %d refused: %s", r.Scale, r.Reason).Event = joblog.Scale.With("action", r.State, "reason", r.Reason)
		c.endAsked(r.Reason)
	case r.Scale == c.asked.Number && r.State == control.ScaleUnderWay:
		taken := c.asked.keptScale
		if len(r.Placement) == len(taken.Placement) {
			taken.Placement = r.Placement // as the job spells the hosts
		}
		c.endAsked("")
		c.scale.keptScale = taken
		c.checkScale()
	case r.Scale == c.scale.Number && r.State == control.ScaleTooFew && !c.scale.Reached:
		c.scale.Short, c.dirty.job = r.Reason, true
		c.tellEvent(control.Event{Action: control.ScaleShort, Scale: r.Scale, Reason: r.Reason})
	default:
		return fmt.Sprintf("scale %d is not under way: the newest is %d", r.Scale, max(c.asked.Number, c.scale.Number))
	}
	return ""
}

// checkScale notes that a number of workers is reached.
func (c *Core) checkScale() {
	s := &c.scale
	if s.Number == 0 || c.phase != wire.PhaseRunning || !c.matches(s) {
		return
	}
	if s.Lost != "" || s.Short != "" {
		s.Lost, s.Short, c.dirty.job = "", "", true
	}
	if !s.Reached {
		s.Reached, c.dirty.job = true, true
		c.tellEvent(control.Event{Action: control.Scaled, Scale: s.Number, Workers: s.Workers})
	}
}

// matches reports whether the workers that count are those that are wanted.
func (c *Core) matches(s *scaling) bool {
	stay, on := 0, make(map[string]int)
	for _, n := range c.nodes {
		switch {
		case n.Role != wire.RoleWorker || !n.counts():
		case !n.stays():
			return false // it is about to leave
		default:
			stay++
			on[n.Host]++
		}
	}
	return stay == s.Workers && !slices.ContainsFunc(s.Placement, func(p control.WorkersOnHost) bool { return on[p.Host] != p.Workers })
}

// scaleLost notes why there are fewer workers than were asked for.
func (c *Core) scaleLost(why string) {
	if c.scale.Number > 0 {
		c.scale.Lost, c.dirty.job = why, true
	}
}

// scaleState is what has become of a scaling.
func (c *Core) scaleState(s *scaling) string {
	switch {
	case s.Number == c.asked.Number:
		return control.ScaleAsked
	case s.Short != "":
		return control.ScaleTooFew
	case !s.Reached:
		return control.ScaleUnderWay
	case c.staying() < s.Workers:
		return control.ScaleTooFew
	}
	return control.ScaleReached
}

// scaleStatus is the newest number of workers that was asked for; nil: none was.
func (c *Core) scaleStatus() *control.Scale {
	s := &c.scale
	if c.asked.Number > 0 {
		s = &c.asked
	}
	if s.Number == 0 {
		return nil
	}
	reason := s.Short
	if s.Lost != "" {
		reason = s.Lost
	}
	return &control.Scale{Number: s.Number, Workers: s.Workers, Placement: s.Placement, Present: c.staying(), State: c.scaleState(s), Reason: reason}
}

// grow lets workers of a host join that the launcher is about to start. It returns why they may
// not, and whether they may a moment later.
func (c *Core) grow(name string, workers int) (refusal string, again bool) {
	if why := c.cannotChange(); why != "" {
		return why, false
	}
	nodes := len(c.living(wire.RoleWorker)) + len(c.living(wire.RoleServer))
	h := c.hosts[name]
	switch {
	case nodes+workers > cluster.MaxNodes:
		return fmt.Sprintf("the job has %d workers and servers, want at most %d", nodes, cluster.MaxNodes), false
	case h != nil && h.status == control.RemovalQueued:
		return fmt.Sprintf("host %s is being removed", name), true
	case h == nil || h.status == control.Removed || h.status == control.HostFailed:
		c.setHost(name, control.AddQueued, "")
		c.hosts[name].by = c.now.Add(c.set.Elastic.JoinTimeout)
		c.note("host %s: workers will join from it", name).Event = joblog.HostChanged.With("action", control.AddQueued, "node_host", name)
	}
	return "", false
}

// release lets a worker leave that a scaling does not need. It returns why it may not, and whether
// it may a moment later.
func (c *Core) release(process uint32) (refusal string, again bool) {
	if why := c.cannotChange(); why != "" {
		return why, false
	}
	n := c.nodeOf(process)
	switch {
	case n == nil || n.Role != wire.RoleWorker:
		return fmt.Sprintf("no live worker has process number %d", process), false
	case n.State == wire.MemberLeaving:
		return "", false
	}
	if why := c.needs(n); why != "" {
		return fmt.Sprintf("%v cannot leave: %s", n, why), true
	}
	c.grantLeave(n, "the job scales to "+control.ScaleText(c.scale.Workers, c.scale.Placement))
	return "", false
}

// passScale refuses requests that the launcher has not answered in time.
func (c *Core) passScale(t time.Time) {
	c.asked.waits = slices.DeleteFunc(c.asked.waits, func(w scaleWait) bool {
		late := !t.Before(w.deadline)
		if late {
			c.report(w.request, &control.Done{Error: fmt.Sprintf("launch has not answered for %v; see launch ctl status", launcherTime), Again: true})
		}
		return late
	})
}

package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// tallyPause is the least time between two tallies of a small job: heartbeats come one after
// another, and each tally reads all workers.
const tallyPause = 100 * time.Millisecond

// A slowness is what the scheduler's events say of the slow worker.
type slowness struct {
	node  uint64        // 0: no one is slow
	since time.Time     // that it is
	seen  time.Time     // when the rule named it last
	hold  time.Duration // for which the rule must not name it, until it is not slow any more
}

// A worker is slow until the rule has not named it for so long, and for so many steps.
const (
	slowHold      = 10 * time.Second
	slowHoldSteps = 5

	longSlowHold = time.Minute // after a restart, when the steps' length is not known yet
)

// tally counts what the job has done, for the rule that names slow workers. It is called with each
// record of a node. One of a node that was not known here may have counts from before, so that the
// watch begins anew.
func (c *Core) tally(isNew bool) {
	if isNew {
		c.slow, c.tallied = telemetry.SlowWatch{}, c.now
	}
	c.tallyDue = true
	if c.now.Sub(c.tallied) >= tallyPause*time.Duration(1+c.workers/256) {
		c.takeTally()
		c.watchSlow()
	}
}

// takeTally gives the watch what is known now.
func (c *Core) takeTally() {
	c.tallied, c.tallyDue = c.now, false
	newest := func(node uint64, m telemetry.Metric) float64 {
		return c.history.Newest(node, telemetry.Column{Metric: m})
	}
	t := telemetry.Tally{At: c.now.Sub(c.start), Rounds: c.history.Total(telemetry.Column{Metric: telemetry.Rounds})}
	for _, s := range c.living(wire.RoleServer) {
		if shards := newest(s.Node, telemetry.Shards); !math.IsNaN(shards) {
			t.Shards += shards
		}
	}
	for _, w := range c.counting(wire.RoleWorker) {
		rounds, seconds := c.history.Charged(w.Node)
		t.Workers = append(t.Workers, telemetry.WorkerTally{Node: w.Node, BlamedRounds: float64(rounds), BlamedSeconds: seconds, Steps: newest(w.Node, telemetry.Steps),
			StepSeconds: newest(w.Node, telemetry.StepSeconds), WaitSeconds: newest(w.Node, telemetry.WaitSeconds), DataSeconds: newest(w.Node, telemetry.DataSeconds),
			SaveSeconds: newest(w.Node, telemetry.SaveSeconds)})
	}
	slices.SortFunc(t.Workers, func(a, b telemetry.WorkerTally) int { return cmp.Compare(a.Node, b.Node) })
	c.slow.Add(t)
}

// watchSlow tells when a worker becomes slow, and when it is so no longer.
func (c *Core) watchSlow() {
	was := c.slowness
	switch list := c.slowest(); {
	case len(list) > 0 && list[0].Node == was.node:
		c.slowness.seen = c.now
	case len(list) > 0:
		c.endSlow()
		s := list[0]
		c.slowness = slowness{s.Node, c.now, c.now, max(slowHold, time.Duration(min(s.StepSeconds, time.Hour.Seconds())*slowHoldSteps*1e9))}
		n := c.node(s.Node)
		c.tellWith(n.event(control.BecameSlow, s.String()), joblog.SlowWorker.Of(n.logged(), "node", n.Node, "slow", true, "share", s.Share, "gap", s.Gap, "cause", s.Cause))
	case was.node != 0 && c.now.Sub(was.seen) >= was.hold:
		c.endSlow()
	}
}

// restoreSlow finds who was slow by the newest event that says so.
func (c *Core) restoreSlow() {
	i := len(c.happened) - 1
	for i >= 0 && !c.happened[i].OfWorker() {
		i--
	}
	if i < 0 || c.happened[i].Action != control.BecameSlow {
		return
	}
	e := &c.happened[i]
	for _, n := range c.nodes {
		if n.state == living && n.Role == wire.RoleWorker && n.Host == e.Host && n.PID == e.PID && n.process == e.Process && uint32(n.Rank) == e.Rank {
			c.slowness = slowness{n.Node, time.Unix(0, e.TimeNS), c.now, longSlowHold}
		}
	}
}

// endSlow ends that a worker is slow.
func (c *Core) endSlow() {
	was := c.slowness
	if c.slowness = (slowness{}); was.node == 0 {
		return
	}
	if n := c.node(was.node); n != nil {
		text := fmt.Sprintf("%v is no longer slow", n)
		d := was.seen.Sub(was.since) // 0: the rule named it once
		switch {
		case n.state != living && d > 0:
			text = fmt.Sprintf("%v was slow for %s, until it left", n, control.Seconds(d))
		case n.state != living:
			text = fmt.Sprintf("%v was slow until it left", n)
		case d > 0:
			text += ", after " + control.Seconds(d)
		}
		c.tellWith(n.event(control.NotSlow, text), joblog.SlowWorker.Of(n.logged(), "node", n.Node, "slow", false))
	}
}

// event is an event of a worker.
func (n *node) event(action, reason string) control.Event {
	return control.Event{Action: action, Host: n.Host, Role: roleName(n.Role), Rank: uint32(max(n.Rank, 0)), PID: n.PID, Process: n.process, Reason: reason}
}

// slowest are the workers that the others wait for, by the newest records.
func (c *Core) slowest() []control.Slow {
	if c.tallyDue {
		c.takeTally()
	}
	s, ok := c.slow.Slow()
	if !ok {
		return nil
	}
	n := c.node(s.Node)
	if n == nil || n.state != living {
		return nil
	}
	return []control.Slow{{Node: n.Node, Rank: n.Rank, Host: n.Host, Share: roundTo(s.Share, 4), Rounds: uint64(math.Round(s.Rounds)), Gap: roundTo(s.Gap, 6), Steps: math.Round(s.Steps),
		Seconds: roundTo(s.Seconds, 3), StepSeconds: roundTo(s.StepSeconds, 6), Cause: s.Cause, Ratio: roundTo(min(s.Ratio, math.MaxInt32), 3)}}
}

package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/telemetry"
	"github.com/paragon-train/paragon/internal/wire"
)

// tallyPause is the least time between two tallies: servers' heartbeats come one after another, and each tally reads all workers.
const tallyPause = 500 * time.Millisecond

// tally counts what the job has done until now, for the rule that names slow workers. It is called with each record of a node. One of a node that
// was not known here may have counts from before, so that the watch begins anew.
func (c *Core) tally(n *node, isNew bool) {
	if isNew {
		c.slow = telemetry.SlowWatch{}
	}
	if n.Role != wire.RoleServer || c.now.Sub(c.tallied) < tallyPause {
		return
	}
	c.tallied = c.now
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

// slowest are the workers that the others wait for.
func (c *Core) slowest() []control.Slow {
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

package worker

import (
	"math"
	"time"
)

// A stepClock measures the time from one report of a step to the next, without what lies between
// two divisions: evaluation, changes of the membership. What follows the last report of a division,
// such as the wait for the last values, belongs to the first step of the next.
type stepClock struct {
	// at is when the current step began to count, and from what was counted until then.
	at   time.Time
	from stepCounts
	// took and parts are of the divisions before, since the last report.
	took  time.Duration
	parts Times
}

// stepCounts are sums that steps add to, as they are at some moment.
type stepCounts struct {
	// times are those of the epoch.
	times Times
	// missed sums up Staleness.Missed of so many values.
	missed, values uint64
}

// begin begins before the first step of a division.
func (c *stepClock) begin(now stepCounts) { c.at, c.from = time.Now(), now }

// pause ends the measuring with a division, at which the epoch's times are these.
func (c *stepClock) pause(times Times) {
	c.took += time.Since(c.at)
	c.parts.Add(times.since(c.from.times))
}

// lap fills in what has passed since the last lap.
func (c *stepClock) lap(now stepCounts, s *StepInfo) {
	before := *c
	c.begin(now)
	s.Took, s.Times = before.took+c.at.Sub(before.at), before.parts
	s.Times.Add(now.times.since(before.from.times))
	c.took, c.parts = 0, Times{}
	s.Staleness = math.NaN()
	if n := now.values - before.from.values; n > 0 {
		s.Staleness = float64(now.missed-before.from.missed) / float64(n)
	}
}

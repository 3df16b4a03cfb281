package prom

import (
	"github.com/paragon-train/paragon/internal/member/control"
)

// collect collects the job's metrics, and then those of each process that is in it.
func (c *collector) collect() {
	c.collectJob()
	columns := columnsOf(c.t.Columns, c.t.Scores)
	blamed := blameIsKnown(c.t)
	for i := range c.t.Nodes {
		// A process that joins measures nothing yet.
		if n := &c.t.Nodes[i]; n.Rank >= 0 && n.AgeMillis >= 0 {
			c.collectNode(n, columns[n.Role], blamed)
		}
	}
}

// blameIsKnown reports whether all servers have said whom they blame. A scheduler that was started
// again hears it from one after another: until it has all, the sums are below what they were, which
// Prometheus would take for counters that have begun again.
func blameIsKnown(t *control.Telemetry) bool {
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Role == control.Server && n.State == control.NodeCounts && n.AgeMillis < 0 {
			return false
		}
	}
	return true
}

package prom

import (
	"math"
	"strconv"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

var (
	phases = []string{control.Forming, control.Running, control.Finished, control.Failed}
	roles  = []string{control.Server, control.Worker}
	states = []string{control.NodeCounts, control.NodeJoining, control.NodeReady, control.NodeLeaving, control.NodeRemoved}
	causes = []string{control.ChangeJoined, control.ChangeLeft, control.ChangeLost, control.ChangeRemoved}
)

// collectJob makes the metrics of the job. Where a label has few values all are there from the
// begin, since Prometheus sees growth from 0 only then.
func (c *collector) collectJob() {
	t := c.t
	put := func(f *family, value float64, labels ...string) {
		var list []exposition.Label
		for i := 0; i < len(labels); i += 2 {
			list = append(list, exposition.Label{Name: labels[i], Value: labels[i+1]})
		}
		c.text.Add(f, value, list...)
	}
	put(&jobInfo, 1, "id", t.Job)
	put(&jobStart, float64(t.SinceMillis)/1000)
	for _, phase := range phases {
		value := 0.0
		if phase == t.Phase {
			value = 1
		}
		put(&jobPhase, value, "phase", phase)
	}
	put(&jobGeneration, float64(t.Generation))
	count := make(map[[2]string]int)
	for _, n := range t.Nodes {
		count[[2]string{n.Role, n.State}]++
	}
	for _, role := range roles {
		for _, state := range states {
			put(&jobNodes, float64(count[[2]string{role, state}]), "role", role, "state", state)
		}
	}
	for _, cause := range causes {
		put(&jobChanges, float64(t.Changes[cause]), "cause", cause)
	}
	put(&jobRestarts, float64(c.restarts))
	if at, took := newestCheckpoint(t); at > 0 {
		put(&checkpointAge, max(0, float64(t.NowMillis)/1000-at))
		if !math.IsNaN(took) {
			put(&checkpointDur, took)
		}
	}
	for _, s := range t.Slow {
		labels := []string{"cause", s.Cause, "host", s.Host, "rank", strconv.Itoa(int(s.Rank))}
		put(&slowShare, s.Share, labels...)
		put(&slowGap, s.Gap, labels...)
	}
}

// newestCheckpoint is when the newest checkpoint was complete, by the scheduler's clock in Unix
// seconds, and the seconds that it took; 0: there is none.
func newestCheckpoint(t *control.Telemetry) (at, took float64) {
	column := func(m telemetry.Metric) int {
		for i, v := range t.Columns {
			if v.Metric == m.String() {
				return i
			}
		}
		return -1
	}
	when, duration, offset := column(telemetry.CheckpointTime), column(telemetry.SaveDuration), column(telemetry.ClockOffset)
	value := func(n *control.NodeTelemetry, at int) float64 {
		if at < 0 {
			return math.NaN()
		}
		return float64(n.Values[at])
	}
	took = math.NaN()
	for i := range t.Nodes {
		n := &t.Nodes[i]
		x := value(n, when)
		if o := value(n, offset); !math.IsNaN(o) {
			x += o
		}
		if x > at {
			at, took = x, value(n, duration)
		}
	}
	return at, took
}

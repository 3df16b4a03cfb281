package prom

import (
	"fmt"
	"math"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// simulated is what a job of so many processes measures, so many seconds after its begin, with
// everything that there is to measure.
func simulated(workers, servers, gpus int, seconds float64) *control.Telemetry {
	const begin = 1_700_000_000
	t := &control.Telemetry{Job: "0123456789abcdef", Phase: control.Running, Incarnation: begin * 1e6, NowMillis: int64((begin + seconds) * 1000), SinceMillis: begin * 1000, Generation: 3,
		Changes: map[string]uint64{control.ChangeJoined: 2, control.ChangeLost: 1},
		Scores:  []string{"top5"},
		Slow:    []control.Slow{{Node: uint64(servers + 1), Rank: 0, Host: "h0", Share: .94, Rounds: 310, Gap: .041, Steps: 310, Seconds: 30, StepSeconds: .1, Cause: control.SlowCompute, Ratio: 1.31}}}
	var infos []telemetry.Info
	var of []telemetry.Metric
	for _, m := range telemetry.Metrics() {
		info, _ := m.Info()
		width := info.Width
		switch info.Label {
		case "gpu":
			width = gpus
		case "name":
			width = len(t.Scores)
		}
		for index := range width {
			t.Columns = append(t.Columns, control.Value{Metric: info.Name, Index: index})
			infos, of = append(infos, info), append(of, m)
			t.Totals = append(t.Totals, control.Number(math.NaN()))
		}
	}
	add := func(role string, mask, rank int) {
		n := control.NodeTelemetry{Node: uint64(len(t.Nodes) + 1), Role: role, Rank: int32(rank), Host: fmt.Sprintf("h%d", rank), PID: 7, State: control.NodeCounts, AgeMillis: 250}
		for k, info := range infos {
			v := math.NaN()
			if info.Roles&mask != 0 {
				v = value(of[k], t.Columns[k].Index, rank, seconds)
			}
			n.Values = append(n.Values, control.Number(v))
		}
		if role == control.Worker {
			n.BlamedRounds, n.BlamedSeconds = uint64(seconds*9), control.Number(seconds*.4)
		}
		t.Nodes = append(t.Nodes, n)
	}
	for rank := range servers {
		add(control.Server, telemetry.OfServer, rank)
	}
	for rank := range workers {
		add(control.Worker, telemetry.OfWorker, rank)
	}
	return t
}

// value is one number with as many digits as real ones have. Ten steps and rounds are done in a
// second, one in each ten of more than .1 s.
func value(m telemetry.Metric, index, rank int, seconds float64) float64 {
	const begin = 1_700_000_000
	count := math.Floor(10 * seconds)
	info, _ := m.Info()
	switch {
	case m == telemetry.Steps || m == telemetry.Rounds:
		return count
	case info.Label == "bucket" && telemetry.StepBounds[index] == .1:
		return count - math.Floor(count/10)
	case info.Label == "bucket" && telemetry.StepBounds[index] == .25:
		return math.Floor(count / 10)
	case info.Label == "bucket":
		return 0
	case m == telemetry.LastStepTime:
		return begin + seconds
	case m == telemetry.CheckpointTime:
		return begin + 1
	case m == telemetry.ClockOffset:
		return -.0001234567
	case info.Kind == telemetry.Counter && strings.HasSuffix(info.Name, "seconds"):
		return math.Round(1e6*seconds*float64(m)/100*(1+float64(rank)/1e4)) / 1e6
	case info.Kind == telemetry.Counter:
		return math.Floor(seconds * float64(m) * 12345 * float64(1+index))
	case strings.HasSuffix(info.Name, "bytes"):
		return math.Floor(float64(m) * 123456789)
	}
	return math.Round(1e6*math.Sqrt(float64(m)+float64(rank)+float64(index))) / 1e6
}

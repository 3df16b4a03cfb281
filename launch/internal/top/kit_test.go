package top

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A fakeJob is a job of which worker 3 is slow: the others wait for it.
type fakeJob struct {
	workers, servers int
	domain           string  // behind the names of hosts
	seconds          float64 // since it began
	incarnation      uint64
}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (j *fakeJob) telemetry() *control.Telemetry {
	t := &control.Telemetry{Job: "3f2a9c0d11aa22bb", Phase: control.Running, Incarnation: 7 + j.incarnation, NowMillis: begin.UnixMilli() + int64(1e3*j.seconds), Generation: 3}
	for _, m := range asked {
		t.Columns = append(t.Columns, control.Value{Metric: m.String()})
		t.Totals = append(t.Totals, control.Number(math.NaN()))
	}
	values := func(known map[telemetry.Metric]float64) (v control.Numbers) {
		for _, m := range asked {
			x, ok := known[m]
			if !ok {
				x = math.NaN()
			}
			v = append(v, control.Number(x))
		}
		return v
	}
	age := 0.3
	at := j.seconds - age
	for i := range j.servers {
		t.Nodes = append(t.Nodes, control.NodeTelemetry{Node: uint64(2 + i), Role: control.Server, Rank: int32(i), Host: fmt.Sprintf("p%d%s", i, j.domain), PID: uint32(900 + i), State: control.NodeCounts, AgeMillis: 300,
			Values: values(map[telemetry.Metric]float64{telemetry.Rounds: 40 * at, telemetry.RoundSeconds: 40 * at * .0181, telemetry.Waiting: 3, telemetry.HeldBytes: 1 << 20, telemetry.ValueBytes: 4 << 20,
				telemetry.SentBytes: 3e7 * at, telemetry.ReceivedBytes: 3.1e7 * at})})
	}
	for i := range j.workers {
		compute, last := .07, .05/float64(j.workers)
		if i == 3 {
			compute, last = .09, .95
		}
		t.Nodes = append(t.Nodes, control.NodeTelemetry{Node: uint64(100 + i), Role: control.Worker, Rank: int32(i), Host: fmt.Sprintf("host%d%s", i, j.domain), PID: uint32(1000 + i), State: control.NodeCounts, AgeMillis: 300,
			Values: values(map[telemetry.Metric]float64{telemetry.Steps: 10 * at, telemetry.Examples: 640 * at, telemetry.StepSeconds: at, telemetry.ComputeSeconds: 10 * compute * at,
				telemetry.WaitSeconds: 10 * (.095 - compute) * at, telemetry.DataSeconds: .03 * at, telemetry.Epoch: 2, telemetry.Loss: .25 + float64(i)/100, telemetry.LearningRate: .1,
				telemetry.SentBytes: 1e7 * at, telemetry.ReceivedBytes: 1e7 * at}),
			BlamedRounds: uint64(80 * last * j.seconds), BlamedSeconds: control.Number(80 * last * j.seconds * .02)})
	}
	if j.workers > 3 && j.seconds > 10 {
		t.Slow = []control.Slow{{Node: 103, Rank: 3, Host: "host3", Share: .95, Rounds: 300, Gap: .02, Steps: 300, Seconds: 30, StepSeconds: .1, Cause: control.SlowCompute, Ratio: 1.29}}
	}
	return t
}

// shown is a page that watched the job for a time.
func shown(t *testing.T, j *fakeJob, seconds int, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), nil, begin, begin)
	m.page.width, m.page.height = width, height
	for range seconds {
		step(m, j)
	}
	return m
}

// step is one second in which the scheduler answers.
func step(m *model, j *fakeJob) {
	j.seconds++
	now := begin.Add(time.Duration(j.seconds * 1e9))
	m.Update(tickMsg(now))
	m.Update(answerMsg{asked: now, telemetry: j.telemetry(), bytes: 2000,
		why: &control.Why{Waits: []control.Wait{{Who: "worker 0", At: "barrier epoch", For: "worker 3", Seconds: 2.5}}}})
}

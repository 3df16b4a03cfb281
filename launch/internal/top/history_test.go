package top

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

func near(a control.Number, b float64) bool { return math.Abs(float64(a)-b) <= 1e-6*math.Abs(b) }

func TestRatesAreDifferencesOfCounters(t *testing.T) {
	j := &fakeJob{workers: 4, servers: 2}
	var h History
	for range 40 {
		j.seconds++
		h.Add(j.telemetry())
	}
	s := h.Snapshot()
	w, slow, srv := s.Workers[0], s.Workers[3], s.Servers[1]
	for _, c := range []struct {
		name string
		got  control.Number
		want float64
	}{
		{"job steps/s", s.Job.Steps, 10}, {"job examples/s", s.Job.Examples, 4 * 640}, {"epoch", s.Job.Epoch, 2}, {"loss", s.Job.Loss, .265}, {"learning rate", s.Job.LearningRate, .1},
		{"examples/s", w.Examples, 640}, {"step", w.Step, 397}, {"step time", w.StepTime, .1}, {"compute", w.Compute, .07}, {"wait", w.Wait, .025}, {"data", w.Data, .003},
		{"slow compute", slow.Compute, .09}, {"sent", w.Sent, 1e7}, {"rounds/s", srv.Rounds, 40}, {"round", srv.RoundTime, .0181}, {"waiting", srv.Waiting, 3}, {"rate window", w.Seconds, 5},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %g, want %g", c.name, float64(c.got), c.want)
		}
	}
	if x := float64(slow.Last); x < .9 || x > .98 || !near(slow.Gap, .02) && math.Abs(float64(slow.Gap)-.02) > .001 || !slow.Slow || w.Slow {
		t.Errorf("worker 3 was last in %.2f of the rounds, gap %g, slow %t, and worker 0 slow %t, want about 0.96, 0.02, true and false", x, float64(slow.Gap), slow.Slow, w.Slow)
	}
}

// One record that is told of in two answers is one sample, and steps that take longer than the
// usual window have their time.
func TestRatesOfSlowRecordsAndSteps(t *testing.T) {
	var h History
	add := func(now, age int64, steps, seconds float64) {
		h.Add(&control.Telemetry{NowMillis: now, Columns: []control.Value{{Metric: "steps"}, {Metric: "step_seconds"}, {Metric: "sent_bytes"}, {Metric: "sent_bytes", Index: 2}},
			Nodes: []control.NodeTelemetry{{Node: 5, Role: control.Worker, State: control.NodeCounts, AgeMillis: age, Values: control.Numbers{control.Number(steps), control.Number(seconds), 1, control.Number(math.NaN())}}}})
	}
	add(1000, 100, 1, 20)
	add(2000, 1100, 1, 20) // the same record
	if n := len(h.tracks[5].samples); n != 1 || h.Settled() {
		t.Fatalf("%d samples of one record, settled is %t, want 1 and false", n, h.Settled())
	}
	for i := int64(1); i <= 30; i++ {
		done := float64(1 + i/20)
		add(1000+1000*i, 100, done, 20*done)
	}
	w := h.Snapshot().Workers[0]
	if !near(w.StepTime, 20) || !near(w.Step, 2) {
		t.Errorf("step %g takes %g s, want 2 and 20", float64(w.Step), float64(w.StepTime))
	}

	// A new scheduler has not heard from it.
	add(40_000, -1, math.NaN(), math.NaN())
	if w := h.Snapshot().Workers[0]; !near(w.Step, 2) || w.AgeMillis != -1 {
		t.Errorf("step %g, age %d ms after a restart of the scheduler, want 2 and -1", float64(w.Step), w.AgeMillis)
	}

	// Another process has the number: counters begin anew.
	add(41_000, 0, 1, 3)
	if w := h.Snapshot().Workers[0]; !math.IsNaN(float64(w.StepTime)) || !math.IsNaN(float64(w.Steps)) {
		t.Errorf("counters that fell back: step time %g, %g steps/s, want none", float64(w.StepTime), float64(w.Steps))
	}
}

func TestNamesAreMetrics(t *testing.T) {
	for _, name := range Names(true) {
		if _, ok := telemetry.ByName(name); !ok {
			t.Errorf("%q is no metric", name)
		}
	}
	if few, all := len(Names(false)), len(Names(true)); few >= all {
		t.Errorf("%d metrics of the tables and %d with details, want fewer", few, all)
	}
}

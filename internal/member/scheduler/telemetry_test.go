package scheduler

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A measuredJob is a core of a running job whose nodes send records.
type measuredJob struct {
	t       testing.TB
	core    *Core
	set     Settings
	now     time.Time
	request uint64
	// log has the warnings.
	log  []string
	kept journalRecords
}

func newMeasuredJob(t testing.TB, workers, servers int) *measuredJob {
	j := &measuredJob{t: t, now: time.Unix(1000, 0), kept: journalRecords{}}
	j.set = Settings{Job: "j", Workers: workers, Servers: servers, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute,
		Elastic: cluster.Elastic{Enabled: true}}
	j.core = NewCore(j.set, j.now)
	for rank := range servers {
		j.ask(&wire.Register{Role: wire.RoleServer, Rank: int32(rank), Workers: uint32(workers), Servers: uint32(servers), Nonce: uint64(rank), Job: "j", Host: "s", Addr: "s:1"})
	}
	for rank := range workers {
		j.ask(&wire.Register{Role: wire.RoleWorker, Rank: int32(rank), Workers: uint32(workers), Servers: uint32(servers), Nonce: uint64(rank), Job: "j", Host: "w", PID: 7})
	}
	return j
}

func (j *measuredJob) step(e Event) Output {
	out := j.core.Step(e)
	for _, w := range out.Warnings {
		j.log = append(j.log, w.Text)
	}
	j.kept.take(out)
	return out
}

// ask returns the answer to a message.
func (j *measuredJob) ask(m wire.Message) wire.Message {
	j.request++
	for _, a := range j.step(Event{At: j.now, Request: j.request, Message: m}).Answers {
		if a.Request == j.request {
			return a.Message
		}
	}
	j.t.Fatalf("no answer to %T", m)
	return nil
}

// send sends a heartbeat of a node with a record.
func (j *measuredJob) send(node uint64, samples ...telemetry.Sample) {
	r := telemetry.Record{Samples: samples}
	if _, ok := j.ask(&wire.Heartbeat{Node: node, Record: r.Append(nil)}).(*wire.Beat); !ok {
		j.t.Fatalf("the heartbeat of node %d was refused", node)
	}
}

// query puts a request of a tool.
func query[A any, P interface {
	*A
	control.Answer
}](j *measuredJob, q control.Request) (A, error) {
	var answer A
	_, err := control.Ask(j.t.Context(), func(_ context.Context, request []byte) ([]byte, error) {
		return []byte(j.ask(&wire.Control{Request: string(request)}).(*wire.Report).Answer), nil
	}, q, P(&answer))
	return answer, err
}

func (j *measuredJob) telemetry(metrics ...string) control.Telemetry {
	j.t.Helper()
	a, err := query[control.Telemetry](j, control.Request{Op: control.OpTelemetry, Metrics: metrics})
	if err != nil {
		j.t.Fatal(err)
	}
	return a
}

func sample(m telemetry.Metric, v float64) telemetry.Sample {
	return telemetry.Sample{Metric: m, Value: v}
}

// What nodes say of themselves with their heartbeats, tools get.
func TestTelemetryHasTheNewestRecords(t *testing.T) {
	j := newMeasuredJob(t, 2, 1)
	j.send(1, sample(telemetry.Rounds, 5))
	j.send(2, sample(telemetry.Steps, 3), sample(telemetry.Loss, 0.1234567890123))
	j.now = j.now.Add(time.Second)
	j.send(2, sample(telemetry.Steps, 5), sample(telemetry.Loss, math.NaN()))
	got := j.telemetry()
	if got.Job != "j" || got.Phase != control.Running || got.Incarnation == 0 || got.NowMillis != 1_001_000 || got.SinceMillis != 1_000_000 || got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	want := []control.Value{{Metric: "steps"}, {Metric: "rounds"}}
	if len(got.Columns) != 2 || got.Columns[0] != want[0] || got.Columns[1] != want[1] {
		t.Fatalf("got columns %v, want %v: a loss that is no number is not there", got.Columns, want)
	}
	if len(got.Nodes) != 3 {
		t.Fatalf("got %d nodes, want 3", len(got.Nodes))
	}
	server, first, second := got.Nodes[0], got.Nodes[1], got.Nodes[2]
	if server.Role != control.Server || server.AgeMillis != 1000 || server.Values[1] != 5 || !math.IsNaN(float64(server.Values[0])) {
		t.Errorf("server: got %+v", server)
	}
	if first.Rank != 0 || first.AgeMillis != 0 || first.Values[0] != 5 || first.Host != "w" || first.PID != 7 || first.State != control.NodeCounts {
		t.Errorf("worker 0: got %+v", first)
	}
	if second.Rank != 1 || second.AgeMillis != -1 || !math.IsNaN(float64(second.Values[0])) {
		t.Errorf("worker 1, which has sent nothing: got %+v", second)
	}
	j.send(3, sample(telemetry.Loss, 0.1234567890123))
	if got := j.telemetry("loss"); len(got.Columns) != 1 || got.Nodes[2].Values[0] != 0.1234568 {
		t.Errorf("of the loss alone: got %v, %v, want seven digits", got.Columns, got.Nodes[2].Values)
	}
	if _, err := query[control.Telemetry](j, control.Request{Op: control.OpTelemetry, Metrics: []string{"luck"}}); err == nil || !strings.Contains(err.Error(), `metric "luck" is unknown`) {
		t.Errorf("an unknown metric: got %v", err)
	}
}

// A node that leaves sends its last record with that; for a minute it is shown, and its counts stay
// in the totals.
func TestTelemetryKeepsTheTotalsOfNodesThatAreGone(t *testing.T) {
	j := newMeasuredJob(t, 2, 1)
	j.send(2, sample(telemetry.Steps, 3))
	r := telemetry.Record{Samples: []telemetry.Sample{sample(telemetry.Steps, 10), sample(telemetry.Checkpoints, 2)}}
	j.ask(&wire.Leave{Node: 3, OK: true, Record: r.Append(nil)})
	got := j.telemetry()
	last := got.Nodes[len(got.Nodes)-1]
	if last.Node != 3 || last.State != control.NodeGone || last.Values[0] != 10 || got.Totals[0] != 13 || got.Checkpoints != 2 || got.Changes[control.ChangeLeft] != 1 {
		t.Errorf("got %+v", got)
	}
	for range 800 {
		j.now = j.now.Add(time.Second)
		j.send(1)
		j.send(2, sample(telemetry.Steps, 4))
	}
	if got = j.telemetry(); len(got.Nodes) != 2 || got.Totals[0] != 14 {
		t.Errorf("13 minutes later: got %d nodes and totals %v, want 2 nodes and 14 steps", len(got.Nodes), got.Totals)
	}
}

// A record that cannot be read is ignored with one line of log, and the lease is renewed all the
// same.
func TestAMalformedRecordDoesNotHarmTheLease(t *testing.T) {
	j := newMeasuredJob(t, 1, 1)
	for range 30 {
		j.now = j.now.Add(time.Second)
		j.send(1)
		if _, ok := j.ask(&wire.Heartbeat{Node: 2, Record: []byte("nonsense")}).(*wire.Beat); !ok {
			t.Fatal("the heartbeat was refused")
		}
	}
	if len(j.log) != 1 || !strings.Contains(j.log[0], "worker 0 on w sent metrics that cannot be decoded") {
		t.Errorf("got the log %q, want one line", j.log)
	}
	if phase, _ := j.core.Phase(); phase != wire.PhaseRunning {
		t.Errorf("the job is in phase %d", phase)
	}
}

// What a broken server counts makes no answer unreadable: here its numbers are beyond what a sum of
// them holds.
func TestNonsenseDoesNotHarmAnswers(t *testing.T) {
	j := newMeasuredJob(t, 2, 2)
	for second, x := range []float64{1, 100, 1e9, 1e300, math.MaxFloat64} {
		j.now = j.now.Add(time.Second)
		for server := range uint64(2) {
			r := telemetry.Record{Samples: []telemetry.Sample{sample(telemetry.Rounds, x), sample(telemetry.RoundSeconds, x), sample(telemetry.Shards, 1), sample(telemetry.SentBytes, x)},
				Blames: []telemetry.Blame{{Node: 3, Rounds: uint64(min(x, 1<<62)), Seconds: x}, {Node: 4}, {Node: 1 << 63, Rounds: math.MaxUint64, Seconds: x}}}
			j.ask(&wire.Heartbeat{Node: 1 + server, Record: r.Append(nil), Sent: math.MinInt64})
		}
		for worker := range uint64(2) {
			j.send(3+worker, sample(telemetry.Steps, x), sample(telemetry.StepSeconds, x), sample(telemetry.WaitSeconds, 0), sample(telemetry.Loss, math.Inf(-1)),
				sample(telemetry.LastStepTime, math.NaN()), sample(telemetry.TestLoss, 5e-324))
		}
		if got := j.telemetry(); len(got.Nodes) != 4 {
			t.Errorf("second %d: got %d nodes, want 4", second, len(got.Nodes))
		}
		if _, err := query[control.Why](j, control.Request{Op: control.OpWhy}); err != nil {
			t.Errorf("second %d: why: %v", second, err)
		}
		for _, since := range []int64{0, 1, j.now.UnixMilli(), math.MaxInt64} {
			if s, err := query[control.Series](j, control.Request{Op: control.OpSeries, SinceMillis: since, Points: control.MaxPoints}); err != nil || len(s.Nodes) != 4 {
				t.Errorf("second %d: series since %d: got %d nodes, %v; want 4", second, since, len(s.Nodes), err)
			}
		}
	}
}

// A process that is gone is shown for a minute from its end on, however long it was silent before.
func TestTelemetryShowsWhoIsGoneForAMinute(t *testing.T) {
	j := newMeasuredJob(t, 2, 1)
	const lease = 3 * time.Minute
	j.set.Lease = lease
	core, err := Restore(j.set, j.now, j.kept.list())
	if err != nil {
		t.Fatal(err)
	}
	j.core = core
	state := ""
	for second := range int(lease/time.Second) + 90 {
		j.now = j.now.Add(time.Second)
		j.send(1)
		j.send(2)
		was := state
		state = ""
		for _, n := range j.telemetry("steps").Nodes {
			if n.Node == 3 {
				state = n.State
			}
		}
		if want := map[bool]string{true: control.NodeGone}[second+1 >= int(lease/time.Second) && second+1 < int((lease+goneShown)/time.Second)]; state != want && (want != "" || state == control.NodeGone) {
			t.Fatalf("%d s after its last heartbeat node 3 is shown as %q (before %q), want %q", second+1, state, was, want)
		}
	}
}

// A scheduler that was started again has another incarnation and the right counts, and the time
// before is a gap.
func TestTelemetryGoesOnAfterARestart(t *testing.T) {
	j := newMeasuredJob(t, 1, 1)
	steps := 0.0
	run := func(seconds int) {
		for range seconds {
			j.now = j.now.Add(time.Second)
			steps += 2
			j.send(1)
			j.send(2, sample(telemetry.Steps, steps))
		}
	}
	run(20)
	before := j.telemetry()
	j.now, steps = j.now.Add(15*time.Second), steps+30
	core, err := Restore(j.set, j.now, j.kept.list())
	if err != nil {
		t.Fatal(err)
	}
	j.core = core
	run(20)
	after := j.telemetry()
	if before.Incarnation == after.Incarnation || after.Nodes[1].Values[0] != control.Number(steps) || after.Totals[0] != control.Number(steps) {
		t.Errorf("before %+v, after %+v; want another incarnation, and %v steps", before, after, steps)
	}
	series, err := query[control.Series](j, control.Request{Op: control.OpSeries, Metrics: []string{"steps"}, NodeIDs: []uint64{2}})
	if err != nil || len(series.Nodes) != 1 {
		t.Fatalf("got %+v, %v", series, err)
	}
	v := series.Nodes[0].Values[0]
	for i, x := range v {
		if want := steps - 40 + 2*float64(i); i > 0 && float64(x) != want {
			t.Errorf("point %d is %v, want %v", i, x, want)
		}
	}
	if series.FromMillis != after.SinceMillis || series.StepMillis != 1000 || len(v) != 20 || !math.IsNaN(float64(v[0])) {
		t.Errorf("got %d points %v from %d every %d ms, want 20 from %d, the first one without a value", len(v), v, series.FromMillis, series.StepMillis, after.SinceMillis)
	}
}

// fullJob is a job of so many workers that have sent all that workers measure, of so many GPUs, for
// so many seconds.
func fullJob(t testing.TB, workers, gpus, seconds int) *measuredJob {
	j := newMeasuredJob(t, workers, 4)
	for second := range seconds {
		j.now = j.now.Add(time.Second)
		for id := range uint64(workers + 4) {
			j.send(id+1, fullRecord(id, second, gpus)...)
		}
	}
	return j
}

// fullRecord is what a process measures, with numbers as long as those of a real one.
func fullRecord(id uint64, second, gpus int) (list []telemetry.Sample) {
	role := telemetry.OfWorker
	if id < 4 {
		role = telemetry.OfServer
	}
	for _, m := range telemetry.Metrics() {
		i, _ := m.Info()
		width := i.Width
		if i.Label == "gpu" {
			width = gpus
		}
		for index := 0; i.Roles&role != 0 && index < width; index++ {
			v := math.Sqrt(float64(id)+2) * float64(m)
			switch {
			case strings.HasSuffix(i.Name, "timestamp_seconds"):
				v = 1.7e9 + v
			case strings.HasSuffix(i.Name, "bytes"):
				v = math.Floor(v * float64(second+1) * 1e9)
			case i.Kind == telemetry.Counter && !strings.HasSuffix(i.Name, "seconds"):
				v = math.Floor(v * float64(second+1) * 1000)
			case i.Kind == telemetry.Counter:
				v *= float64(second + 1)
			}
			list = append(list, telemetry.Sample{Metric: m, Index: uint8(index), Value: v})
		}
	}
	return list
}

// The answers about a large job fit, or say how many nodes were left out. Within the scheduler's
// process nothing is left out, and nothing that is handed over changes later.
func TestTelemetryOfALargeJobFits(t *testing.T) {
	const workers = 1024
	j := fullJob(t, workers, 8, 2)
	// common has all but what GPUs say.
	var common []string
	for _, m := range telemetry.Metrics() {
		if i, _ := m.Info(); i.Label != "gpu" {
			common = append(common, i.Name)
		}
	}
	if got := j.telemetry(common...); len(got.Nodes) != workers+4 || got.LeftOut != 0 {
		t.Errorf("without GPUs: got %d nodes and %d left out, want all %d", len(got.Nodes), got.LeftOut, workers+4)
	}
	if got := j.telemetry(); len(got.Nodes)+got.LeftOut != workers+4 || got.LeftOut == 0 {
		t.Errorf("with 8 GPUs each: got %d nodes and %d left out, want some left out", len(got.Nodes), got.LeftOut)
	}
	series, err := query[control.Series](j, control.Request{Op: control.OpSeries})
	if err != nil || len(series.Nodes)+series.LeftOut != workers+4 || series.LeftOut == 0 {
		t.Errorf("series: got %d nodes and %d left out, %v", len(series.Nodes), series.LeftOut, err)
	}
	within := j.core.Telemetry()
	if len(within.Nodes) != workers+4 || within.LeftOut != 0 {
		t.Errorf("within the process: got %d nodes and %d left out, want all %d", len(within.Nodes), within.LeftOut, workers+4)
	}
	j.ask(&wire.Leave{Node: 9, OK: true})
	if within.Changes[control.ChangeLeft] != 0 || j.core.Telemetry().Changes[control.ChangeLeft] != 1 {
		t.Errorf("after a worker left: got changes %v, then %v", within.Changes, j.core.Telemetry().Changes)
	}
}

// go test ./internal/member/scheduler -run '^$' -bench Telemetry
func BenchmarkTelemetry(b *testing.B) {
	for _, gpus := range []int{0, 8} {
		j := fullJob(b, 1024, gpus, 2)
		b.Run("gpus="+string(rune('0'+gpus)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				answer := j.ask(&wire.Control{Request: `{"op":"telemetry"}`}).(*wire.Report).Answer
				b.ReportMetric(float64(len(answer)), "bytes")
			}
		})
		b.Run("inprocess/gpus="+string(rune('0'+gpus)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				j.core.Telemetry()
			}
		})
	}
	b.Run("record", func(b *testing.B) {
		j := fullJob(b, 1024, 0, 2)
		r := telemetry.Record{Samples: fullRecord(5, 2, 0)}
		record := r.Append(nil)
		b.ReportAllocs()
		for b.Loop() {
			// All nodes send one a second.
			j.now = j.now.Add(time.Second / 1028)
			j.ask(&wire.Heartbeat{Node: 6, Record: record})
		}
	})
}

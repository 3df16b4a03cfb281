package jobpage

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
)

// A fakeScheduler answers as one does whose two workers make 10 steps of 64 examples a second;
// worker 1 is slow.
type fakeScheduler struct {
	t *testing.T

	// seconds is the time since the job began.
	seconds float64

	workers int
	events  []control.Event

	// starts counts those of the scheduler, after the first.
	starts uint64

	away   error
	series int // requests
}

const begin = 1_700_000_000_000

func (s *fakeScheduler) Ask(_ context.Context, q control.Request, into control.Answer) ([]byte, error) {
	if s.away != nil {
		return nil, s.away
	}
	var answer control.Answer
	switch q.Op {
	case control.OpTelemetry:
		answer = s.telemetry(q)
	case control.OpSeries:
		s.series++
		answer = s.past(q)
	case control.OpWhy:
		answer = &control.Why{Waits: []control.Wait{{Who: "worker 0", At: "barrier", For: "worker 1", Seconds: 2}}, Behind: []string{"worker 1 on h1"},
			Slow: []control.Slow{{Node: 11, Rank: 1, Host: "h1", Share: .9, Rounds: 100, Gap: .02, Steps: 100, Seconds: 30, StepSeconds: .1}}}
	case control.OpEvents:
		answer = &control.Events{Phase: control.Running, Last: uint64(len(s.events)), Events: s.events[q.After:]}
	default:
		s.t.Fatalf("op %q", q.Op)
	}
	b, err := control.EncodeAnswer(answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return b, control.DecodeAnswer(b, into)
}

// accuracy is that of the newest evaluation: there is one every five minutes.
func accuracy(seconds float64) float64 { return .75 + .0123*math.Floor(seconds/300) }

// values are what worker i has counted.
func (s *fakeScheduler) values(seconds float64, i int) map[string]float64 {
	return map[string]float64{"steps": 10 * seconds, "examples": 640 * seconds, "step_seconds": seconds, "compute_seconds": .7 * seconds, "wait_seconds": .2 * seconds, "data_seconds": 0,
		"loss": 2 + float64(i), "epoch": 1, "learning_rate": .1, "global_batch": 128, "test_accuracy": accuracy(seconds), "test_loss": 2 - accuracy(seconds), "checkpoint_timestamp_seconds": begin/1e3 + 3, "save_duration_seconds": .5}
}

func (s *fakeScheduler) telemetry(q control.Request) *control.Telemetry {
	t := &control.Telemetry{Job: "j1", Phase: control.Running, Incarnation: 5 + s.starts, NowMillis: begin + int64(1000*s.seconds), SinceMillis: begin, Generation: 2, Changes: map[string]uint64{control.ChangeLost: 1}, Checkpoints: 4}
	nan := control.Number(math.NaN())
	for _, m := range q.Metrics {
		t.Columns, t.Totals = append(t.Columns, control.Value{Metric: m}), append(t.Totals, nan)
	}
	add := func(n control.NodeTelemetry, values map[string]float64) {
		for _, m := range q.Metrics {
			v, ok := values[m]
			if !ok {
				v = math.NaN()
			}
			n.Values = append(n.Values, control.Number(v))
		}
		n.State = control.NodeCounts
		t.Nodes = append(t.Nodes, n)
	}
	add(control.NodeTelemetry{Node: 1, Role: control.Server, Host: "h0", AgeMillis: 100}, map[string]float64{"rounds": 620 * s.seconds, "round_seconds": s.seconds, "sent_bytes": 1e6 * s.seconds, "resident_bytes": 5e6})
	for i := range s.workers {
		n := control.NodeTelemetry{Node: uint64(10 + i), Role: control.Worker, Rank: int32(i), Host: "h1", AgeMillis: 100}
		if q.Steps > 0 {
			n.Steps = []control.StepTimes{{Step: 7, EndMicros: t.NowMillis*1000 - 500, Total: .1, Compute: .07}}
		}
		add(n, s.values(s.seconds, i))
	}
	return t
}

func (s *fakeScheduler) past(q control.Request) *control.Series {
	points := int(s.seconds)
	x := &control.Series{Incarnation: 5, FromMillis: begin, StepMillis: 1000, Nodes: []control.NodeSeries{}}
	for _, m := range q.Metrics {
		x.Columns = append(x.Columns, control.Value{Metric: m})
	}
	for k, id := range q.NodeIDs {
		n := control.NodeSeries{Node: id}
		for _, m := range q.Metrics {
			list := []control.Number{}
			for p := range points {
				v, ok := s.values(float64(p), k)[m]
				if !ok {
					v = 1e6 * float64(p)
				}
				list = append(list, control.Number(float32(v)))
			}
			n.Values = append(n.Values, list)
		}
		x.Nodes = append(x.Nodes, n)
	}
	return x
}

// A watched is a Feed that is polled each second.
type watched struct {
	*testing.T
	feed *Feed
	s    *fakeScheduler
	now  int64
}

func watch(t *testing.T) *watched {
	w := &watched{T: t, s: &fakeScheduler{t: t, seconds: 20, workers: 2}, now: 5000}
	w.feed = New(page.Page{Command: "train", Host: "h"}, func() int64 { return w.now })
	return w
}

// poll polls, wants an event, and reads what is in it.
func (w *watched) poll(event string, into any) {
	w.Helper()
	w.now += 1000
	w.s.seconds++
	m := w.feed.Poll(w.Context())
	if m.Event != event {
		w.Fatalf("got %s %.200s, want %s", m.Event, m.Data, event)
	}
	if err := json.Unmarshal(m.Data, into); err != nil {
		w.Fatal(err)
	}
}

type seen struct {
	page.Gone
	Name    string
	Workers struct {
		Step     []float64
		Compute  []float64 `json:"compute_seconds"`
		Examples []float64 `json:"examples_per_second"`
		Details  *struct {
			Memory []float64 `json:"memory_bytes"`
		}
	}
	Job struct {
		Workers, Restarts int
		Accuracy          float64 `json:"test_accuracy"`
		Age               float64 `json:"checkpoint_age_seconds"`
	}
	Members struct{ Host []string } `json:"worker_members"`
	Slow    []struct{ Text string }
	Waits   []page.Wait
	Steps   []struct {
		End   []int64   `json:"end_us"`
		Total []float64 `json:"total_seconds"`
	}
	Curves struct {
		Times []int64 `json:"times_ms"`
		Lines []struct {
			ID     string
			Values []*float64
		}
	}
	Point  *struct{ Values map[string]float64 }
	Events []page.Event
	List   []page.Event `json:"event_list"`
}

// The first answer has everything, with the past; later ones what is new, until the members change.
func TestFeedSaysWhatIsNew(t *testing.T) {
	w := watch(t)
	var gone seen
	w.poll(page.EventGone, &gone)
	if gone.Error != "the job is being started: there is no scheduler yet" || len(w.feed.Whole()) != 1 {
		t.Errorf("before the scheduler: %+v", gone)
	}
	w.feed.SetSource(w.s)
	var first seen
	w.poll(page.EventState, &first)
	if first.Name != "j1" || !slices.Equal(first.Members.Host, []string{"h1", "h1"}) || first.Job.Workers != 2 || first.Job.Accuracy != .75 || math.Abs(first.Job.Age-(w.s.seconds-3)) > .01 {
		t.Errorf("got %+v", first)
	}
	if len(first.Slow) != 1 || first.Slow[0].Text == "" || len(first.Waits) != 1 || len(first.Steps) != 2 || first.Steps[1].End[0] != -500 || first.Workers.Details == nil {
		t.Errorf("got slow %v, waits %v, steps %v, details %v", first.Slow, first.Waits, first.Steps, first.Workers.Details)
	}
	if n := len(first.Curves.Times); n != int(w.s.seconds)+1 || w.s.series != 2 {
		t.Errorf("%d points after %g s, from %d answers", n, w.s.seconds, w.s.series)
	}
	for _, l := range first.Curves.Lines {
		if v := l.Values[len(l.Values)-2]; l.ID == page.LineExamples && (v == nil || *v != 1280) || l.ID == page.LineStepTime && (v == nil || *v != .1) {
			t.Errorf("the past of %s ends with %v", l.ID, *v)
		}
	}
	w.s.events = append(w.s.events, control.Event{Number: 1, TimeNS: 1e9, Action: control.Lost, Host: "h9", Reason: "worker 3 on <b>h9</b> lost"})
	var u seen
	w.poll(page.EventUpdate, &u)
	if len(u.Events) != 1 || u.Events[0].Text != "LOST worker 3 on <b>h9</b> lost" || u.Workers.Examples[0] != 640 || u.Workers.Compute[1] != .07 || u.Point.Values[page.LineExamples] != 1280 || u.Workers.Details != nil {
		t.Errorf("got %+v", u)
	}
	w.poll(page.EventUpdate, &u)
	w.s.workers = 3
	w.poll(page.EventState, &first)
	if len(first.Members.Host) != 3 || len(first.List) != 1 {
		t.Errorf("after a worker came: %d workers, %d events", len(first.Members.Host), len(first.List))
	}
}

// While the scheduler is away the page keeps what it has; a job that is started again begins anew;
// the end is said.
func TestFeedWhileTheSchedulerIsAway(t *testing.T) {
	w := watch(t)
	w.feed.SetSource(w.s)
	var x seen
	w.poll(page.EventState, &x)
	w.s.away = errors.New("connection refused")
	for range 3 {
		x = seen{}
		w.poll(page.EventGone, &x)
	}
	if x.Error != "connection refused" || x.Gone.Now-x.Since != 2000 || x.Newest == 0 {
		t.Errorf("got %+v, want an absence of 2 s", x.Gone)
	}
	if all := w.feed.Whole(); len(all) != 2 || all[0].Event != page.EventState || all[1].Event != page.EventGone {
		t.Errorf("those who come now get %d messages, want what is known and that it is old", len(all))
	}
	w.s.away = nil
	w.poll(page.EventUpdate, &x)
	w.s.starts++

	// Another scheduler knows nothing of what this one said.
	w.poll(page.EventState, &x)
	w.feed.SetSource(&fakeScheduler{t: t, seconds: 1, workers: 2})
	x = seen{}
	w.poll(page.EventState, &x)
	if x.Job.Restarts != 1 || len(x.Curves.Times) != 2 {
		t.Errorf("a job that was started again: %d restarts, %d points, want 1 and its own two", x.Job.Restarts, len(x.Curves.Times))
	}
	w.feed.End(false, "worker 1 failed")
	x = seen{}
	w.poll(page.EventEnd, &x)
	if x.Error != "worker 1 failed" || x.Phase != control.Failed {
		t.Errorf("got %+v", x.Gone)
	}
}

// A page that watches for long keeps the whole time, with fewer points of what is long ago.
func TestCurvesStayBounded(t *testing.T) {
	var c curves
	const n = 20_000
	for i := range int64(n) {
		c.append(&page.Point{Time: begin + 1000*i, Values: map[string]page.Number{"loss": page.Number(i)}})
		if len(c.Times) > mostPoints || len(c.Times) != len(c.Lines[0].Values) {
			t.Fatalf("%d times and %d values, want as many, and at most %d", len(c.Times), len(c.Lines[0].Values), mostPoints)
		}
	}
	for i, at := range c.Times {
		if c.Lines[0].Values[i] != page.Number((at-begin)/1000) {
			t.Fatalf("the value at %d ms is %v", at-begin, c.Lines[0].Values[i])
		}
	}
	if c.Times[0] != begin || c.Times[len(c.Times)-1] != begin+1000*(n-1) || len(c.Times) < mostPoints/2 {
		t.Errorf("%d points from %d to %d", len(c.Times), c.Times[0], c.Times[len(c.Times)-1])
	}
	c.append(&page.Point{Time: c.Times[len(c.Times)-1] + 100, Values: map[string]page.Number{"loss": 7}})
	if last := c.Lines[0].Values; last[len(last)-1] != 7 {
		t.Error("a point 0.1 s later does not replace the last one")
	}
}

// An evaluation is one point of the page, whenever the page is opened: the past repeats its scores
// second by second, as float32.
func TestAnEvaluationIsOnePoint(t *testing.T) {
	// For the second, two answers have the past.
	for _, seconds := range []float64{20, 900} {
		w := watch(t)
		w.s.seconds = seconds
		w.feed.SetSource(w.s)
		var first, u seen
		w.poll(page.EventState, &first)
		w.poll(page.EventUpdate, &u)
		if v, ok := u.Point.Values[page.LineTestAccuracy]; ok {
			t.Errorf("after %g s: the newest evaluation has another point, %v", seconds, v)
		}
		points := []float64{}
		for _, l := range first.Curves.Lines {
			for _, v := range l.Values {
				if l.ID == page.LineTestAccuracy && v != nil {
					points = append(points, math.Round(*v*1e6)/1e6)
				}
			}
		}
		want := []float64{}
		for at := 0.; at <= seconds; at += 300 {
			want = append(want, math.Round(accuracy(at)*1e6)/1e6)
		}
		if !slices.Equal(points, want) {
			t.Errorf("after %g s: got the points %v, want %v", seconds, points, want)
		}
		w.s.seconds = math.Floor(seconds/300)*300 + 300
		w.poll(page.EventUpdate, &u)
		if v, ok := u.Point.Values[page.LineTestAccuracy]; !ok || v != accuracy(w.s.seconds) {
			t.Errorf("after %g s: got the point %v of the next evaluation, want %v", w.s.seconds, v, accuracy(w.s.seconds))
		}
	}
}

// Scores are kept where their points are dropped or replaced.
func TestScoresOutliveTheirPoints(t *testing.T) {
	c := &curves{}
	const n = 2 * mostPoints
	for i := range n {
		p := &page.Point{Time: begin + 1000*int64(i), Values: map[string]page.Number{page.LineLoss: 1}}
		if i%100 == 1 {
			p.Values[page.LineTestAccuracy] = page.Number(i)
		}
		c.append(p)
	}
	c.append(&page.Point{Time: begin + 1000*n, Values: map[string]page.Number{page.LineTestAccuracy: n}})
	c.append(&page.Point{Time: begin + 1000*n + 100, Values: map[string]page.Number{page.LineLoss: 2}})
	scores := page.Numbers{}
	for _, v := range c.Lines[1].Values {
		if !math.IsNaN(float64(v)) {
			scores = append(scores, v)
		}
	}
	if want := (n+98)/100 + 1; c.Lines[1].ID != page.LineTestAccuracy || len(scores) != want || scores[0] != 1 || scores[want-1] != n {
		t.Errorf("got %d scores of line %s, %v, want %d", len(scores), c.Lines[1].ID, scores, want)
	}
}

package ctl

import (
	"math"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

func TestSpeedsAreMeansOfTheLastMinute(t *testing.T) {
	nan := control.Number(math.NaN())
	past := control.Series{StepMillis: 1000, Nodes: []control.NodeSeries{
		{Node: 3, Values: [][]control.Number{{nan, 100, nan, nan, 400, 500, nan}}},
		{Node: 4, Values: [][]control.Number{{nan, 7, nan}}},
		{Node: 9, Values: [][]control.Number{{1, 2}}},
	}}
	now := control.Telemetry{Nodes: []control.NodeTelemetry{{Node: 1, Values: control.Numbers{nan}}, {Node: 3, Values: control.Numbers{1.5}}, {Node: 4, Values: control.Numbers{0.25}}, {Node: 5}}}
	got := speeds(past, now)
	for node, want := range map[uint64][2]any{1: {nil, nil}, 3: {100, "1.5000"}, 4: {nil, "0.2500"}, 5: {nil, nil}, 9: {nil, nil}} {
		s, known := got[node]
		if !known {
			s = speed{math.NaN(), math.NaN()}
		}
		examples, loss := s.cells()
		if text, ok := loss.(interface{ String() string }); ok {
			loss = text.String()
		}
		if examples != want[0] || loss != want[1] {
			t.Errorf("node %d: got %v examples/s and loss %v, want %v and %v", node, examples, loss, want[0], want[1])
		}
	}
}

// Of a job that has run for an hour, too, the speeds are those of the last minute: the past since
// then is asked for, and not the newest of the whole job's points, which are half a minute apart.
func TestSpeedsOfALongJobAreOfTheLastMinute(t *testing.T) {
	const second = 1_700_003_600
	h := telemetry.NewHistory(time.Unix(second-3600, 0), time.Second)
	examples := 0.0
	for s := range 3601 {
		if examples += 10; s > 3540 {
			examples += 90
		}
		h.Add(time.Unix(int64(second-3600+s), 0), 3, &telemetry.Record{Samples: []telemetry.Sample{{Metric: telemetry.Examples, Value: examples}}})
	}
	got, err := askSpeeds(func(q control.Request, answer control.Answer) error {
		switch a := answer.(type) {
		case *control.Telemetry:
			*a = control.Telemetry{NowMillis: second * 1000, Nodes: []control.NodeTelemetry{{Node: 3}}}
		case *control.Series:
			var since time.Time
			if q.SinceMillis > 0 {
				since = time.UnixMilli(q.SinceMillis)
			}
			span := h.Span(time.Unix(second, 0), since, []telemetry.Metric{telemetry.Examples}, nil, q.Points)
			*a = control.Series{StepMillis: span.Step.Milliseconds(), Nodes: []control.NodeSeries{{Node: 3, Values: [][]control.Number{{}}}}}
			for _, v := range h.Values(span, 3)[0] {
				a.Nodes[0].Values[0] = append(a.Nodes[0].Values[0], control.Number(v))
			}
		}
		return nil
	})
	if err != nil || math.Round(got[3].examples) != 100 {
		t.Errorf("got %v, %v; want 100 examples a second", got[3].examples, err)
	}
}

package main

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/control"
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

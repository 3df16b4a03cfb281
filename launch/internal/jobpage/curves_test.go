package jobpage

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/page"
	"github.com/paragon-train/paragon/internal/telemetry"
)

// Workers report the newest scores with each record. Each evaluation is one point, also the first one where its score is 0, and no further one follows
// where a record did not come.
func TestAnEvaluationInThePastIsOnePoint(t *testing.T) {
	none := control.Number(math.NaN())
	s := &control.Series{
		StepMillis: 1000,
		Columns:    []control.Value{{Metric: telemetry.TestAccuracy.String()}},
		Nodes:      []control.NodeSeries{{Node: 1, Values: [][]control.Number{{none, 0, 0, 0.5, none, 0.5, 0.75}}}},
	}
	points := map[int64]map[string]page.Number{}
	addWorkers(s, 1, func(at int64) map[string]page.Number {
		points[at] = map[string]page.Number{}
		return points[at]
	})
	var c curves
	c.merge(points)
	c.dropRepeatedTests()
	var got []int64
	for _, l := range c.Lines {
		for i, v := range l.Values {
			if l.ID == page.LineTestAccuracy && !math.IsNaN(float64(v)) {
				got = append(got, c.Times[i])
			}
		}
	}
	if want := []int64{1000, 3000, 6000}; !slices.Equal(got, want) {
		t.Errorf("got points of the accuracy at %v ms, want %v", got, want)
	}
}

// Metrics of one's own are lines of their own, of the past and from then on; an evaluation is one point of each.
func TestMetricsOfOnesOwnAreLines(t *testing.T) {
	none := control.Number(math.NaN())
	score := telemetry.TestScore.String()
	s := &control.Series{
		StepMillis: 1000,
		Columns:    []control.Value{{Metric: score}, {Metric: score, Index: 1}},
		Scores:     []string{"top5", "f1"},
		Nodes:      []control.NodeSeries{{Node: 1, Values: [][]control.Number{{none, 0.5, 0.5}, {none, 0.25, 0.25}}}},
	}
	points := map[int64]map[string]page.Number{}
	addWorkers(s, 1, func(at int64) map[string]page.Number {
		points[at] = map[string]page.Number{}
		return points[at]
	})
	var c curves
	c.merge(points)
	c.dropRepeatedTests()
	for i, f1 := range []control.Number{0.25, 0.75, 0.75} {
		at := 3000 + 1000*int64(i)
		newest := &control.Telemetry{NowMillis: at, Columns: s.Columns, Scores: s.Scores,
			Nodes: []control.NodeTelemetry{{Node: 1, Role: control.Worker, State: control.NodeCounts, Values: control.Numbers{0.5, f1}}}}
		c.add(newest, &page.Update{Job: page.Totals{Loss: nan, TestLoss: nan, TestAccuracy: nan, LearningRate: nan, ExamplesASecond: nan}}, page.Members{})
	}
	for id, want := range map[string]map[int64]page.Number{"test_score/top5": {1000: 0.5, 4000: 0.5}, "test_score/f1": {1000: 0.25, 4000: 0.75}} {
		got := map[int64]page.Number{}
		for _, l := range c.Lines {
			for i, v := range l.Values {
				if l.ID == id && !math.IsNaN(float64(v)) {
					got[c.Times[i]] = v
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("line %s has the points %v, want %v", id, got, want)
		}
	}
}

package jobpage

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// inThePast are the times of the points of the accuracy, and their values, if workers have reported
// accuracies second by second; NaN: no record came.
func inThePast(workers ...[]control.Number) (times []int64, values []float64) {
	s := &control.Series{StepMillis: 1000, Columns: []control.Value{{Metric: telemetry.TestAccuracy.String()}}}
	for i, accuracies := range workers {
		s.Nodes = append(s.Nodes, control.NodeSeries{Node: uint64(i + 1), Values: [][]control.Number{accuracies}})
	}
	points := map[int64]*past{}
	reported := map[int64][]report{}
	addWorkers(s, 1, func(at int64) *past {
		points[at] = &past{values: map[string]page.Number{}}
		return points[at]
	})
	for at, p := range points {
		reported[at] = p.reported
	}
	c := curves{}
	c.merge(points)
	c.addEvaluations(reported)
	for _, l := range c.Lines {
		for i, v := range l.Values {
			if l.ID == page.LineTestAccuracy && !math.IsNaN(float64(v)) {
				times, values = append(times, c.Times[i]), append(values, float64(v))
			}
		}
	}
	return times, values
}

// Workers report the newest scores with each record, not at the same time. Each evaluation is one
// point, also the first one where its score is 0, and no further one follows where a record did not
// come, or where another worker still reports the evaluation before.
func TestAnEvaluationInThePastIsOnePoint(t *testing.T) {
	none := control.Number(math.NaN())
	for name, c := range map[string]struct {
		workers [][]control.Number
		times   []int64
		values  []float64
	}{
		"one worker":                            {[][]control.Number{{none, 0, 0, .5, none, .5, .75}}, []int64{1000, 3000, 6000}, []float64{0, .5, .75}},
		"a record of the one ahead is missing":  {[][]control.Number{{.5, .75, none, .75}, {.5, .5, .5, .75}}, []int64{0, 1000}, []float64{.5, .75}},
		"one is ahead, the other is ahead then": {[][]control.Number{{.5, .75, .75, .75}, {.5, .5, .75, .875}}, []int64{0, 1000, 3000}, []float64{.5, .75, .875}},
		"one is silent for two evaluations":     {[][]control.Number{{.5, .75, .875, .875}, {.5, none, none, .75}}, []int64{0, 1000, 2000}, []float64{.5, .75, .875}},
		"the score of an earlier evaluation":    {[][]control.Number{{.5, .75, .5, .5}, {.5, .75, .75, .5}}, []int64{0, 1000, 2000}, []float64{.5, .75, .5}},
		"two evaluations at once":               {[][]control.Number{{.5, .625, .75}, {.5, .75, .75}}, []int64{0, 1000, 2000}, []float64{.5, .625, .75}},
	} {
		if times, values := inThePast(c.workers...); !slices.Equal(times, c.times) || !slices.Equal(values, c.values) {
			t.Errorf("%s: got points at %v ms of %v, want %v of %v", name, times, values, c.times, c.values)
		}
	}
}

// A point, and the tile of the newest scores, has the loss and the accuracy of one evaluation,
// whoever reported it.
func TestScoresAreThoseOfOneEvaluation(t *testing.T) {
	none := control.Number(math.NaN())
	c := curves{}
	of := func(loss, accuracy page.Number) scores { return newScores(loss, accuracy, nil, nil) }
	for _, look := range []struct {
		workers  [][2]control.Number
		want     scores // of the point
		newest   scores
		sentence string
	}{
		{[][2]control.Number{{none, none}, {none, none}}, of(nan, nan), of(nan, nan), "no evaluation"},
		{[][2]control.Number{{none, .5}, {1, .5}}, of(nan, .5), of(nan, .5), "an accuracy alone has no loss of another worker"},
		{[][2]control.Number{{.75, .625}, {.75, .625}}, of(.75, .625), of(.75, .625), "both have the second evaluation"},
		{[][2]control.Number{{.5, .75}, {.75, .625}}, of(.5, .75), of(.5, .75), "worker 0 has the third one"},
		{[][2]control.Number{{.75, .625}}, of(nan, nan), of(.5, .75), "worker 0, which was ahead, has left"},
		{[][2]control.Number{{.5, .75}}, of(nan, nan), of(.5, .75), "the other one has the third evaluation, too"},
	} {
		answer := &control.Telemetry{NowMillis: 1000 * int64(len(c.Times)), Columns: []control.Value{{Metric: telemetry.TestLoss.String()}, {Metric: telemetry.TestAccuracy.String()}}}
		for i, v := range look.workers {
			node := uint64(2 - len(look.workers) + i)
			answer.Nodes = append(answer.Nodes, control.NodeTelemetry{Node: node, Role: control.Worker, State: control.NodeCounts, Values: control.Numbers{v[0], v[1]}})
		}
		u := &page.Update{Job: page.Totals{TestLoss: nan, TestAccuracy: nan}}
		p := c.add(answer, u, page.Members{})
		if got := of(scores(p.Values).of(page.LineTestLoss), scores(p.Values).of(page.LineTestAccuracy)); !got.same(look.want) {
			t.Errorf("%s: got the point %v, want %v", look.sentence, got, look.want)
		}
		if got := of(u.Job.TestLoss, u.Job.TestAccuracy); !got.same(look.newest) {
			t.Errorf("%s: the newest scores are %v, want %v", look.sentence, got, look.newest)
		}
	}
}

// Where points are dropped or replaced, the scores of an evaluation stay together.
func TestScoresOfAnEvaluationStayTogether(t *testing.T) {
	values := func(kind ...any) map[string]page.Number {
		m := map[string]page.Number{}
		for i := 0; i < len(kind); i += 2 {
			m[kind[i].(string)] = page.Number(kind[i+1].(float64))
		}
		return m
	}
	c := curves{}
	c.append(&page.Point{Time: 0, Values: values(page.LineTestLoss, 1., page.LineTestAccuracy, .5)})
	p := &page.Point{Time: 100, Values: values(page.LineTestAccuracy, .75)}
	c.append(p)
	if v, ok := p.Values[page.LineTestLoss]; len(c.Times) != 1 || !ok || !math.IsNaN(float64(v)) {
		t.Errorf("the point that replaces one has the loss %v (%t), want that there is none", v, ok)
	}
	c = curves{}
	for i := range mostPoints + 1 {
		v := values(page.LineLoss, 1.)
		switch i {
		case 1, 3:
			v = values(page.LineTestLoss, float64(i), page.LineTestAccuracy, .5)
		case 2:
			v = values(page.LineTestAccuracy, .75)
		}
		c.append(&page.Point{Time: 1000 * int64(i), Values: v})
	}
	loss, accuracy := c.line(page.LineTestLoss), c.line(page.LineTestAccuracy)
	of := func(loss, accuracy page.Number) scores { return newScores(loss, accuracy, nil, nil) }
	if got := of(loss[1], accuracy[1]); c.Times[1] != 2000 || !got.same(of(nan, .75)) {
		t.Errorf("the point at %d ms is %v, want an accuracy alone at 2000", c.Times[1], got)
	}
	if got := of(loss[2], accuracy[2]); c.Times[2] != 4000 || !got.same(of(3, .5)) {
		t.Errorf("the point at %d ms is %v, want that of 3000 ms at 4000", c.Times[2], got)
	}
}

// Metrics of one's own are lines of their own, of the past and from then on; an evaluation is one
// point of each.
func TestMetricsOfOnesOwnAreLines(t *testing.T) {
	none := control.Number(math.NaN())
	score := telemetry.TestScore.String()
	s := &control.Series{
		StepMillis: 1000,
		Columns:    []control.Value{{Metric: score}, {Metric: score, Index: 1}},
		Scores:     []string{"top5", "f1"},
		Nodes:      []control.NodeSeries{{Node: 1, Values: [][]control.Number{{none, 0.5, 0.5}, {none, 0.25, 0.25}}}},
	}
	points := map[int64]*past{}
	addWorkers(s, 1, func(at int64) *past {
		points[at] = &past{values: map[string]page.Number{}}
		return points[at]
	})
	reported := map[int64][]report{}
	for at, p := range points {
		reported[at] = p.reported
	}
	var c curves
	c.merge(points)
	c.addEvaluations(reported)
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

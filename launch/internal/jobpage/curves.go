package jobpage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

const (
	// maxPoints is how many points a curve has.
	mostPoints = 2048

	// maxLines is how many servers have a line of their own.
	mostLines = 8

	// pastWorkers is how many workers' past is asked for. Its means stand for all.
	pastWorkers = 16

	pastPoints = 600

	// fineMillis is as far as points a second apart reach back.
	fineMillis = 600_000

	// pastMillis is the distance below which two points are one.
	pastMillis = 500
)

// curves are the curves of the page.
type curves struct {
	page.Curves

	// evaluations are the evaluations that have points on the curves.
	evaluations evaluations
}

// A past is what is known of a time that is over: values by line, and the scores that workers
// reported.
type past struct {
	values   map[string]page.Number
	reported []report
}

// lineMetrics are the metrics that the curves come from.
var lineMetrics = []telemetry.Metric{telemetry.Steps, telemetry.Examples, telemetry.StepSeconds, telemetry.ComputeSeconds, telemetry.WaitSeconds, telemetry.DataSeconds,
	telemetry.Loss, telemetry.LearningRate, telemetry.GradientNorm, telemetry.TestLoss, telemetry.TestAccuracy, telemetry.TestScore}

// begin asks for the past: the whole job at its coarse points, then the last ten minutes.
func (c *curves) begin(ctx context.Context, source Source, t *control.Telemetry) error {
	*c = curves{Curves: page.Curves{Times: []int64{}, Lines: []page.Line{}}}
	reported := map[int64][]report{}
	workers, servers := []uint64{}, []uint64{}
	all := 0
	for _, n := range t.Nodes {
		switch {
		case n.State != control.NodeCounts:
		case n.Role == control.Worker:
			if all++; len(workers) < pastWorkers {
				workers = append(workers, n.Node)
			}
		case len(servers) < mostLines:
			servers = append(servers, n.Node)
		}
	}
	ranks := map[uint64]int32{}
	for _, n := range t.Nodes {
		ranks[n.Node] = n.Rank
	}
	fine := t.NowMillis - fineMillis
	for _, since := range []int64{0, fine} {
		if since < 0 || since == fine && fine <= t.SinceMillis && len(c.Times) > 0 {
			// The answer before this one had everything.
			continue
		}
		points := map[int64]*past{}
		at := func(time int64) *past {
			if points[time] == nil {
				points[time] = &past{values: map[string]page.Number{}}
			}
			return points[time]
		}
		var w, s control.Series
		if len(workers) > 0 {
			if _, err := source.Ask(ctx, seriesOf(lineMetrics, workers, since), &w); err != nil {
				return err
			}
			addWorkers(&w, float64(all)/float64(len(workers)), at)
		}
		if len(servers) > 0 {
			if _, err := source.Ask(ctx, seriesOf([]telemetry.Metric{telemetry.SentBytes, telemetry.ReceivedBytes}, servers, since), &s); err != nil {
				return err
			}
			addServers(&s, ranks, at)
		}
		c.merge(points)
		for time, p := range points {
			reported[time] = p.reported
		}
	}
	c.addEvaluations(reported)
	return nil
}

// addEvaluations gives each evaluation of the past its point: the first time at which a worker
// reported it.
func (c *curves) addEvaluations(reported map[int64][]report) {
	for i, time := range c.Times {
		found, ok := c.evaluations.find(reported[time])
		if !ok {
			continue
		}
		for line, v := range found {
			c.line(line)[i] = v
		}
	}
}

// line are the values of a line at all times.
func (c *curves) line(id string) page.Numbers {
	at := slices.IndexFunc(c.Lines, func(l page.Line) bool { return l.ID == id })
	if at < 0 {
		at, _ = slices.BinarySearchFunc(c.Lines, id, func(l page.Line, id string) int { return strings.Compare(l.ID, id) })
		c.Lines = slices.Insert(c.Lines, at, page.Line{ID: id})
	}
	l := &c.Lines[at]
	for len(l.Values) < len(c.Times) {
		l.Values = append(l.Values, nan)
	}
	return l.Values
}

func seriesOf(metrics []telemetry.Metric, nodes []uint64, since int64) control.Request {
	q := control.Request{Op: control.OpSeries, NodeIDs: nodes, SinceMillis: since, Points: pastPoints}
	for _, m := range metrics {
		q.Metrics = append(q.Metrics, m.String())
	}
	return q
}

// merge appends points; where they begin the older ones end.
func (c *curves) merge(points map[int64]*past) {
	times := []int64{}
	for at, p := range points {
		if len(p.values) > 0 || len(p.reported) > 0 {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	if len(times) == 0 {
		return
	}
	keep := 0
	for keep < len(c.Times) && c.Times[keep] < times[0] {
		keep++
	}
	c.cut(keep)
	for _, at := range times {
		c.append(&page.Point{Time: at, Values: points[at].values})
	}
}

// cut leaves the first n points, of each line as many as it has.
func (c *curves) cut(n int) {
	c.Times = c.Times[:n]
	for i := range c.Lines {
		c.Lines[i].Values = c.Lines[i].Values[:min(n, len(c.Lines[i].Values))]
	}
}

// append appends a point; one that is hardly newer than the last replaces it, and keeps its
// evaluation unless it has one of its own.
func (c *curves) append(p *page.Point) {
	if n := len(c.Times); n > 0 && p.Time < c.Times[n-1]+pastMillis {
		p.Time = c.Times[n-1]
		hasScores := false
		for line := range p.Values {
			hasScores = hasScores || isScore(line)
		}
		for _, l := range c.Lines {
			if !isScore(l.ID) || n > len(l.Values) || math.IsNaN(float64(l.Values[n-1])) {
				continue
			}
			if _, ok := p.Values[l.ID]; !hasScores {
				p.Values[l.ID] = l.Values[n-1]
			} else if !ok {
				// The page has the value of the point that is replaced: it is told
				// that there is none.
				p.Values[l.ID] = nan
			}
		}
		c.cut(n - 1)
	}
	c.Times = append(c.Times, p.Time)
	for id := range p.Values {
		if !slices.ContainsFunc(c.Lines, func(l page.Line) bool { return l.ID == id }) {
			c.Lines = append(c.Lines, page.Line{ID: id})
		}
	}
	slices.SortFunc(c.Lines, func(a, b page.Line) int { return strings.Compare(a.ID, b.ID) })
	for i := range c.Lines {
		l := &c.Lines[i]
		for len(l.Values) < len(c.Times)-1 {
			l.Values = append(l.Values, nan)
		}
		v, ok := p.Values[l.ID]
		if !ok {
			v = nan
		}
		l.Values = append(l.Values, v)
	}
	if len(c.Times) > mostPoints {
		c.thin()
	}
}

// isScore reports whether a line has a point for each evaluation, and none between them.
func isScore(line string) bool {
	return line == page.LineTestLoss || line == page.LineTestAccuracy || strings.HasPrefix(line, page.LineTestScore+"/")
}

// thin drops every second point of the older half. An evaluation moves to the next point, unless
// that has one.
func (c *curves) thin() {
	half := len(c.Times) / 2
	kept := func(i int) bool { return i >= half || i%2 == 0 }
	lines := []page.Numbers{}
	for _, l := range c.Lines {
		if isScore(l.ID) {
			lines = append(lines, l.Values)
		}
	}
	for i := range c.Times {
		if kept(i) || slices.ContainsFunc(lines, func(values page.Numbers) bool { return !math.IsNaN(float64(values[i+1])) }) {
			continue
		}
		for _, values := range lines {
			values[i+1] = values[i]
		}
	}
	n := 0
	for i, at := range c.Times {
		if !kept(i) {
			continue
		}
		c.Times[n] = at
		for _, l := range c.Lines {
			l.Values[n] = l.Values[i]
		}
		n++
	}
	c.cut(n)
}

// add makes the point of the newest values, and tells the update the scores of the newest
// evaluation.
func (c *curves) add(t *control.Telemetry, u *page.Update, servers page.Members) *page.Point {
	p := &page.Point{Time: t.NowMillis, Values: map[string]page.Number{}}
	put := func(id string, v page.Number) {
		if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			p.Values[id] = v
		}
	}
	put(page.LineLoss, u.Job.Loss)
	values := newTable(t)
	put(page.LineLearningRate, u.Job.LearningRate)
	put(page.LineExamples, u.Job.ExamplesASecond)
	put(page.LineStepTime, meanOf(u.Workers.StepTime))
	put(page.LineCompute, meanOf(u.Workers.Compute))
	put(page.LineWait, meanOf(u.Workers.Wait))
	put(page.LineData, meanOf(u.Workers.Data))
	var reports []report
	for _, n := range t.Nodes {
		if n.Role != control.Worker || n.State != control.NodeCounts && n.State != control.NodeLeaving {
			continue
		}
		of := values.of(n.Node)
		if _, ok := p.Values[page.LineGradientNorm]; !ok && n.State == control.NodeCounts {
			put(page.LineGradientNorm, of(telemetry.GradientNorm))
		}
		reports = append(reports, report{n.Node, newScores(of(telemetry.TestLoss), of(telemetry.TestAccuracy), t.Scores, func(i int) page.Number {
			return values.indexed(n.Node, telemetry.TestScore, i)
		})})
	}
	found, _ := c.evaluations.find(reports)
	for line, v := range found {
		put(line, v)
	}
	newest, _ := c.evaluations.newest()
	u.Job.TestLoss, u.Job.TestAccuracy = newest.of(page.LineTestLoss), newest.of(page.LineTestAccuracy)
	for i, rank := range servers.Rank {
		if rank >= 0 && i < mostLines {
			put(fmt.Sprintf("%s/%d", page.LineSent, rank), u.Servers.Sent[i])
			put(fmt.Sprintf("%s/%d", page.LineReceived, rank), u.Servers.Received[i])
		}
	}
	c.append(p)
	return p
}

// meanOf is the mean of the numbers that are known.
func meanOf(list page.Numbers) page.Number {
	sum, n := 0.0, 0
	for _, v := range list {
		if x := float64(v); !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}

	// The mean of none is NaN, which the page does not draw.
	return page.Number(sum / float64(n))
}

// A series finds the columns of one answer.
type series struct {
	*control.Series

	// cols has the columns of a metric, one for each of its indices.
	cols map[string][]int
}

func newSeries(s *control.Series) *series {
	x := &series{s, map[string][]int{}}
	for i, c := range s.Columns {
		x.cols[c.Metric] = append(x.cols[c.Metric], i)
	}
	return x
}

// at is the sum over a metric's indices of a node's values at a point; NaN: none is known.
func (x *series) at(node, point int, m telemetry.Metric) float64 {
	sum, known := 0.0, false
	for _, c := range x.cols[m.String()] {
		if v := x.Nodes[node].Values[c]; point < len(v) && !math.IsNaN(float64(v[point])) {
			sum, known = sum+float64(v[point]), true
		}
	}
	if !known {
		return math.NaN()
	}
	return sum
}

// score is a node's score of an index at a point; NaN: it is not known.
func (x *series) score(node, point, index int) float64 {
	for _, c := range x.cols[telemetry.TestScore.String()] {
		if v := x.Nodes[node].Values[c]; x.Columns[c].Index == index && point < len(v) {
			return float64(v[point])
		}
	}
	return math.NaN()
}

// grew is how much a counter grew up to a point, over all nodes of which both ends are known.
func (x *series) grew(point int, m telemetry.Metric) float64 {
	sum, known := 0.0, false
	for n := range x.Nodes {
		if d := x.at(n, point, m) - x.at(n, point-1, m); !math.IsNaN(d) && d >= 0 {
			sum, known = sum+d, true
		}
	}
	if !known {
		return math.NaN()
	}
	return sum
}

// points is the number of points.
func (x *series) points() (n int) {
	for _, node := range x.Nodes {
		for _, v := range node.Values {
			n = max(n, len(v))
		}
	}
	return n
}

func (x *series) time(point int) int64 { return x.FromMillis + int64(point)*x.StepMillis }

// addWorkers makes points of some workers' past. Sums are times scale: they stand for all.
func addWorkers(s *control.Series, scale float64, at func(int64) *past) {
	x := newSeries(s)
	for point := range x.points() {
		p := at(x.time(point))
		put := func(id string, v float64) {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				p.values[id] = page.Number(v)
			}
		}
		for n := range x.Nodes {
			said := newScores(page.Number(x.at(n, point, telemetry.TestLoss)), page.Number(x.at(n, point, telemetry.TestAccuracy)), x.Scores, func(i int) page.Number {
				return page.Number(x.score(n, point, i))
			})
			if len(said) > 0 {
				p.reported = append(p.reported, report{x.Nodes[n].Node, said})
			}
		}
		for id, m := range map[string]telemetry.Metric{page.LineLoss: telemetry.Loss,
			page.LineLearningRate: telemetry.LearningRate, page.LineGradientNorm: telemetry.GradientNorm} {
			list := page.Numbers{}
			for n := range x.Nodes {
				list = append(list, page.Number(x.at(n, point, m)))
			}
			put(id, float64(meanOf(list)))
		}
		if point == 0 {
			continue
		}
		put(page.LineExamples, x.grew(point, telemetry.Examples)*scale/(float64(x.StepMillis)/1e3))
		if steps := x.grew(point, telemetry.Steps); steps > 0 {
			for id, m := range map[string]telemetry.Metric{page.LineStepTime: telemetry.StepSeconds, page.LineCompute: telemetry.ComputeSeconds, page.LineWait: telemetry.WaitSeconds, page.LineData: telemetry.DataSeconds} {
				put(id, x.grew(point, m)/steps)
			}
		}
	}
}

// addServers makes lines of the servers' bytes.
func addServers(s *control.Series, ranks map[uint64]int32, at func(int64) *past) {
	x := newSeries(s)
	for point := 1; point < x.points(); point++ {
		values := at(x.time(point)).values
		for n := range x.Nodes {
			rank := ranks[x.Nodes[n].Node]
			for name, m := range map[string]telemetry.Metric{page.LineSent: telemetry.SentBytes, page.LineReceived: telemetry.ReceivedBytes} {
				if d := x.at(n, point, m) - x.at(n, point-1, m); d >= 0 && rank >= 0 {
					values[fmt.Sprintf("%s/%d", name, rank)] = page.Number(d / (float64(x.StepMillis) / 1e3))
				}
			}
		}
	}
}

package jobpage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/page"
	"github.com/paragon-train/paragon/internal/telemetry"
)

const (
	mostPoints  = 2048 // of a curve
	mostLines   = 8    // servers with lines of their own
	pastWorkers = 16   // whose past is asked for: its means stand for all
	pastPoints  = 600
	fineMillis  = 600_000 // as far as points a second apart reach back
	pastMillis  = 500     // points that are nearer than this are one
)

// curves are those of the page.
type curves struct {
	page.Curves
	tested scores // of the newest evaluation that has its point
}

// scores are those of an evaluation, by line; NaN: not known.
type scores map[string]page.Number

// scoreLine is the line of a metric of one's own.
func scoreLine(name string) string { return page.LineTestScore + "/" + name }

// lineMetrics are the metrics that the curves come from.
var lineMetrics = []telemetry.Metric{telemetry.Steps, telemetry.Examples, telemetry.StepSeconds, telemetry.ComputeSeconds, telemetry.WaitSeconds, telemetry.DataSeconds,
	telemetry.Loss, telemetry.LearningRate, telemetry.GradientNorm, telemetry.TestLoss, telemetry.TestAccuracy, telemetry.TestScore}

// begin asks for the past: the whole job at its coarse points, then the last ten minutes.
func (c *curves) begin(ctx context.Context, source Source, t *control.Telemetry) error {
	*c = curves{page.Curves{Times: []int64{}, Lines: []page.Line{}}, nil}
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
			continue // one answer had everything
		}
		points := map[int64]map[string]page.Number{}
		at := func(time int64) map[string]page.Number {
			if points[time] == nil {
				points[time] = map[string]page.Number{}
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
	}
	c.dropRepeatedTests()
	return nil
}

// dropRepeatedTests leaves of the test scores those points at which they change, and remembers the newest scores.
func (c *curves) dropRepeatedTests() {
	for at := range c.Times {
		tested := scores{}
		for _, l := range c.Lines {
			if isScore(l.ID) && at < len(l.Values) {
				tested[l.ID] = l.Values[at]
			}
		}
		if c.isNew(tested) {
			continue
		}
		for _, l := range c.Lines {
			if isScore(l.ID) && at < len(l.Values) {
				l.Values[at] = nan
			}
		}
	}
}

// isNew reports whether scores are other than those before, which they replace then. Those that are not known say nothing.
func (c *curves) isNew(tested scores) bool {
	found := false
	for line, v := range tested {
		if before, ok := c.tested[line]; !math.IsNaN(float64(v)) && !(ok && same(float64(v), float64(before))) {
			found = true
		}
	}
	if found {
		c.tested = tested
	}
	return found
}

// same reports whether two values are one, of which the past is kept as float32.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }

func seriesOf(metrics []telemetry.Metric, nodes []uint64, since int64) control.Request {
	q := control.Request{Op: control.OpSeries, NodeIDs: nodes, SinceMillis: since, Points: pastPoints}
	for _, m := range metrics {
		q.Metrics = append(q.Metrics, m.String())
	}
	return q
}

// merge appends points; where they begin the older ones end.
func (c *curves) merge(points map[int64]map[string]page.Number) {
	times := []int64{}
	for at, values := range points {
		if len(values) > 0 {
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
		c.append(&page.Point{Time: at, Values: points[at]})
	}
}

func (c *curves) cut(n int) {
	c.Times = c.Times[:n]
	for i := range c.Lines {
		c.Lines[i].Values = c.Lines[i].Values[:min(n, len(c.Lines[i].Values))]
	}
}

// append appends a point; one that is hardly newer than the last replaces it.
func (c *curves) append(p *page.Point) {
	if n := len(c.Times); n > 0 && p.Time < c.Times[n-1]+pastMillis {
		p.Time = c.Times[n-1]
		for _, l := range c.Lines {
			if _, ok := p.Values[l.ID]; !ok && isScore(l.ID) && n <= len(l.Values) && !math.IsNaN(float64(l.Values[n-1])) {
				p.Values[l.ID] = l.Values[n-1]
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

// thin drops every second point of the older half. The score of an evaluation moves to the next point, unless that has one.
func (c *curves) thin() {
	half := len(c.Times) / 2
	times := make([]int64, 0, len(c.Times))
	kept := func(i int) bool { return i >= half || i%2 == 0 }
	for i, at := range c.Times {
		if kept(i) {
			times = append(times, at)
		}
	}
	for k := range c.Lines {
		l := &c.Lines[k]
		values := make(page.Numbers, 0, len(l.Values))
		dropped := nan
		for i, v := range l.Values {
			if !kept(i) {
				dropped = v
				continue
			}
			if isScore(l.ID) {
				v, dropped = known(v, dropped), nan
			}
			values = append(values, v)
		}
		l.Values = values
	}
	c.Times = times
}

// add makes the point of the newest values.
func (c *curves) add(t *control.Telemetry, u *page.Update, servers page.Members) *page.Point {
	p := &page.Point{Time: t.NowMillis, Values: map[string]page.Number{}}
	put := func(id string, v page.Number) {
		if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			p.Values[id] = v
		}
	}
	put(page.LineLoss, u.Job.Loss)
	values := newTable(t)
	// Workers report the newest scores with each heartbeat; an evaluation is one point.
	tested := scores{page.LineTestLoss: u.Job.TestLoss, page.LineTestAccuracy: u.Job.TestAccuracy}
	for i, name := range t.Scores {
		v := nan
		for _, n := range t.Nodes {
			if n.Role == control.Worker && n.State == control.NodeCounts {
				v = known(v, values.indexed(n.Node, telemetry.TestScore, i))
			}
		}
		tested[scoreLine(name)] = v
	}
	if c.isNew(tested) {
		for line, v := range tested {
			put(line, v)
		}
	}
	put(page.LineLearningRate, u.Job.LearningRate)
	put(page.LineExamples, u.Job.ExamplesASecond)
	put(page.LineStepTime, meanOf(u.Workers.StepTime))
	put(page.LineCompute, meanOf(u.Workers.Compute))
	put(page.LineWait, meanOf(u.Workers.Wait))
	put(page.LineData, meanOf(u.Workers.Data))
	for _, n := range t.Nodes {
		if n.Role == control.Worker && n.State == control.NodeCounts {
			if v := values.of(n.Node)(telemetry.GradientNorm); !math.IsNaN(float64(v)) {
				put(page.LineGradientNorm, v)
				break
			}
		}
	}
	for i, rank := range servers.Rank {
		if rank >= 0 && i < mostLines {
			put(fmt.Sprintf("%s/%d", page.LineSent, rank), u.Servers.Sent[i])
			put(fmt.Sprintf("%s/%d", page.LineReceived, rank), u.Servers.Received[i])
		}
	}
	c.append(p)
	return p
}

func meanOf(list page.Numbers) page.Number {
	sum, n := 0.0, 0
	for _, v := range list {
		if x := float64(v); !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return page.Number(sum / float64(n)) // NaN of none
}

// A series finds the columns of one answer.
type series struct {
	*control.Series
	cols map[string][]int // of all indices of a metric
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

// points is how many there are.
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
func addWorkers(s *control.Series, scale float64, at func(int64) map[string]page.Number) {
	x := newSeries(s)
	for point := range x.points() {
		values := at(x.time(point))
		put := func(id string, v float64) {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				values[id] = page.Number(v)
			}
		}
		// All workers report the scores of an evaluation. One hears of them before the others: a mean would be another score.
		for n := len(x.Nodes) - 1; n >= 0; n-- {
			put(page.LineTestLoss, x.at(n, point, telemetry.TestLoss))
			put(page.LineTestAccuracy, x.at(n, point, telemetry.TestAccuracy))
			for i, name := range x.Scores {
				put(scoreLine(name), x.score(n, point, i))
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
func addServers(s *control.Series, ranks map[uint64]int32, at func(int64) map[string]page.Number) {
	x := newSeries(s)
	for point := 1; point < x.points(); point++ {
		values := at(x.time(point))
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

package jobpage

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/launch/internal/top"
)

// totalNames are the metrics that the job as a whole shows, besides those of top's tables.
var totalNames = []string{telemetry.TestLoss.String(), telemetry.TestAccuracy.String(), telemetry.TestScore.String(), telemetry.GlobalBatch.String(), telemetry.GradientNorm.String(),
	telemetry.Checkpoints.String(), telemetry.CheckpointTime.String(), telemetry.SaveDuration.String(), telemetry.ResidentBytes.String()}

// nan stands for a number that is not known. The page shows a dash.
var nan = page.Number(math.NaN())

// fill makes an Update of the newest values and the rates.
func (a *answered) fill(t *control.Telemetry, s top.Snapshot, details bool) {
	a.Name, a.Now, a.Since, a.Incarnation, a.Generation, a.Phase = t.Job, t.NowMillis, t.SinceMillis, t.Incarnation, t.Generation, t.Phase
	a.Job = totals(t, &s)
	if details {
		a.Workers.Details = &page.WorkerDetails{GPUs: []page.GPU{}}
	}
	values := newTable(t)
	a.fillWorkers(s.Workers, values, float64(t.NowMillis)/1e3)
	a.fillServers(s.Servers, values)
	a.fillSteps(t, s)
}

// totals are those of the job without what its workers and servers add: their numbers, the global
// batch and the newest checkpoint.
func totals(t *control.Telemetry, s *top.Snapshot) page.Totals {
	return page.Totals{Step: page.Number(s.Job.Step), Epoch: page.Number(s.Job.Epoch), StepsASecond: page.Number(s.Job.Steps), ExamplesASecond: page.Number(s.Job.Examples),
		Loss: page.Number(s.Job.Loss), LearningRate: page.Number(s.Job.LearningRate), GlobalBatch: nan, TestLoss: nan, TestAccuracy: nan, CheckpointAge: nan, CheckpointTook: nan,
		Checkpoints: page.Number(t.Checkpoints),
		Changes:     page.Changes{Joined: t.Changes[control.ChangeJoined], Left: t.Changes[control.ChangeLeft], Lost: t.Changes[control.ChangeLost], Removed: t.Changes[control.ChangeRemoved]}}
}

// fillWorkers fills in the workers, in their order, and what the job has of them. now is in seconds
// of Unix time.
func (a *answered) fillWorkers(workers []top.Worker, values *table, now float64) {
	// newest is the time of the newest checkpoint of all workers.
	newest := math.NaN()
	for i := range workers {
		w := &workers[i]
		a.members = append(a.members, member{w.Node, w.State, w.Rank})
		add(&a.workers, &w.Process)
		v := &a.Workers
		push(&v.Age, age(w.AgeMillis))
		push(&v.Step, page.Number(w.Step))
		push(&v.Epoch, page.Number(w.Epoch))
		push(&v.Loss, page.Number(w.Loss))
		push(&v.Examples, page.Number(w.Examples))
		push(&v.StepTime, page.Number(w.StepTime))
		push(&v.Compute, page.Number(w.Compute))
		push(&v.Wait, page.Number(w.Wait))
		push(&v.Data, page.Number(w.Data))
		push(&v.Last, page.Number(w.Last))
		push(&v.Gap, page.Number(w.Gap))
		push(&v.Sent, page.Number(w.Sent))
		push(&v.Received, page.Number(w.Received))
		of := values.of(w.Node)
		if a.Workers.Details != nil {
			a.addDetails(w.Node, i, values)
			push(&a.Workers.Details.CPU, page.Number(w.CPU))
		}
		if w.State == control.NodeCounts || w.State == control.NodeLeaving {
			a.Job.Workers++
			a.Job.GlobalBatch = known(a.Job.GlobalBatch, of(telemetry.GlobalBatch))
		}
		if at := float64(of(telemetry.CheckpointTime)); at > 0 && !(at <= newest) {
			newest = at
			a.Job.CheckpointTook = of(telemetry.SaveDuration)
		}
	}
	if !math.IsNaN(newest) {
		a.Job.CheckpointAge = page.Number(max(0, now-newest))
	}
}

// fillServers fills in the servers, in their order.
func (a *answered) fillServers(servers []top.Server, values *table) {
	for i := range servers {
		x := &servers[i]
		a.members = append(a.members, member{x.Node, x.State, x.Rank})
		add(&a.servers, &x.Process)
		if x.State == control.NodeCounts {
			a.Job.Servers++
		}
		v, of := &a.Servers, values.of(x.Node)
		push(&v.Age, age(x.AgeMillis))
		push(&v.Rounds, page.Number(x.Rounds))
		push(&v.RoundTime, page.Number(x.RoundTime))
		push(&v.Waiting, page.Number(x.Waiting))
		push(&v.Held, page.Number(x.Held))
		push(&v.Values, page.Number(x.Values))
		push(&v.Sent, page.Number(x.Sent))
		push(&v.Received, page.Number(x.Received))
		push(&v.Memory, of(telemetry.ResidentBytes))
		push(&v.CPU, page.Number(x.CPU))
	}
}

// addDetails adds what only a page that is asked for details shows of worker i.
func (a *answered) addDetails(node uint64, i int, values *table) {
	d, of := a.Workers.Details, values.of(node)
	push(&d.Memory, of(telemetry.ResidentBytes))
	push(&d.GradientNorm, of(telemetry.GradientNorm))
	push(&d.Staleness, of(telemetry.StalenessMean))
	push(&d.StalenessMax, of(telemetry.StalenessMax))
	for g := range telemetry.MaxGPUs {
		total := values.indexed(node, telemetry.GPUMemoryTotal, g)
		if math.IsNaN(float64(total)) {
			continue
		}
		d.GPUs = append(d.GPUs, page.GPU{Worker: i, Index: g, MemoryTotal: total, MemoryUsed: values.indexed(node, telemetry.GPUMemoryUsed, g), Load: values.indexed(node, telemetry.GPULoad, g),
			Temperature: values.indexed(node, telemetry.GPUTemperature, g), Power: values.indexed(node, telemetry.GPUPower, g)})
	}
}

// add appends a process to its role's members.
func add(m *page.Members, p *top.Process) {
	m.Node, m.Rank, m.Host = append(m.Node, p.Node), append(m.Rank, p.Rank), append(m.Host, p.Host)
	m.PID, m.State = append(m.PID, p.PID), append(m.State, p.State)
}

// push appends a process's number to its column.
func push(to *page.Numbers, x page.Number) { *to = append(*to, x) }

func age(millis int64) page.Number {
	if millis < 0 {
		return nan
	}
	return page.Number(float64(millis) / 1e3)
}

// known is the first number, unless it is not known.
func known(a, b page.Number) page.Number {
	if math.IsNaN(float64(a)) {
		return b
	}
	return a
}

// A table finds the newest values of nodes.
type table struct {
	t *control.Telemetry

	// at has the place in Nodes of each node.
	at map[uint64]int

	cols map[control.Value]int
}

// newTable makes a table of the values of an answer, by node and metric.
func newTable(t *control.Telemetry) *table {
	x := &table{t, make(map[uint64]int, len(t.Nodes)), make(map[control.Value]int, len(t.Columns))}
	for i, n := range t.Nodes {
		x.at[n.Node] = i
	}
	for i, c := range t.Columns {
		x.cols[c] = i
	}
	return x
}

// of returns the values of a node; NaN: it has none.
func (x *table) of(node uint64) func(telemetry.Metric) page.Number {
	return func(m telemetry.Metric) page.Number { return x.indexed(node, m, 0) }
}

func (x *table) indexed(node uint64, m telemetry.Metric, index int) page.Number {
	i, there := x.at[node]
	c, asked := x.cols[control.Value{Metric: m.String(), Index: index}]
	if !there || !asked {
		return nan
	}
	return page.Number(x.t.Nodes[i].Values[c])
}

// Limits of lists of an Update.
const (
	mostWaits = 50
	mostSlow  = 8
)

// fillWhy fills in who waits for whom, as far as a page shows it.
func (a *answered) fillWhy(y *control.Why) {
	a.Slow, a.Waits, a.Behind = []page.Slow{}, []page.Wait{}, []string{}
	for _, s := range y.Slow[:min(len(y.Slow), mostSlow)] {
		a.Slow = append(a.Slow, page.Slow{Node: s.Node, Rank: s.Rank, Host: s.Host, Share: page.Number(s.Share), Gap: page.Number(s.Gap), Cause: s.Cause, Text: s.String()})
	}
	for _, w := range y.Waits[:min(len(y.Waits), mostWaits)] {
		a.Waits = append(a.Waits, page.Wait{Who: w.Who, At: w.At, For: w.For, Seconds: page.Number(w.Seconds)})
	}
	a.MoreWaits = len(y.Waits) - len(a.Waits)
	a.Behind = append(a.Behind, y.Behind...)
}

// mostTimelines bounds the workers of whom the last steps are sent: the slow ones, then those of
// the lowest ranks.
const mostTimelines = 32

// fillSteps sends the last steps of some workers, by rank.
func (a *answered) fillSteps(t *control.Telemetry, s top.Snapshot) {
	a.Steps = []page.Timeline{}
	values := newTable(t)
	workers := slices.Clone(s.Workers)
	slices.SortStableFunc(workers, func(x, y top.Worker) int {
		switch {
		case x.Slow == y.Slow:
			return 0
		case x.Slow:
			return -1
		}
		return 1
	})
	for _, w := range workers[:min(len(workers), mostTimelines)] {
		n := &t.Nodes[values.at[w.Node]]
		line := page.Timeline{Node: w.Node, Rank: w.Rank}
		for _, x := range n.Steps {
			line.Step, line.End = append(line.Step, x.Step), append(line.End, x.EndMicros-t.NowMillis*1000)
			push(&line.Total, page.Number(x.Total))
			push(&line.Compute, page.Number(x.Compute))
			push(&line.Wait, page.Number(x.Wait))
			push(&line.Data, page.Number(x.Data))
			push(&line.Save, page.Number(x.Save))
		}
		if len(line.Step) > 0 {
			a.Steps = append(a.Steps, line)
		}
	}
	slices.SortFunc(a.Steps, func(x, y page.Timeline) int { return cmp.Compare(x.Rank, y.Rank) })
}

package top

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// settledSamples make rates that are good enough for a single look.
const settledSamples = 3

// Settled reports whether all processes that count have rates.
func (h *History) Settled() bool {
	if h.last == nil {
		return false
	}
	for _, n := range h.last.Nodes {
		if x := h.tracks[n.Node]; n.State == control.NodeCounts && len(x.samples) < settledSamples {
			return false
		}
	}
	return true
}

// Snapshot is what is known.
func (h *History) Snapshot() Snapshot {
	nan := control.Number(math.NaN())
	s := Snapshot{Job: Job{nan, nan, nan, nan, nan, nan}, Workers: []Worker{}, Servers: []Server{}}
	if h.last == nil {
		return s
	}
	for i := range h.last.Nodes {
		n := &h.last.Nodes[i]
		x := h.tracks[n.Node]
		if n.Role == control.Server {
			s.Servers = append(s.Servers, x.server(n))
		} else {
			s.Workers = append(s.Workers, x.worker(n))
		}
	}
	h.blame(s.Workers)
	slices.SortStableFunc(s.Workers, func(a, b Worker) int { return a.compare(b.Process) })
	slices.SortStableFunc(s.Servers, func(a, b Server) int { return a.compare(b.Process) })
	s.Job.add(s.Workers)
	for _, w := range s.Workers {
		if v, ok := h.tracks[w.Node].newest[telemetry.LearningRate]; ok && w.counts() {
			s.Job.LearningRate = control.Number(v)
			break
		}
	}
	return s
}

// compare orders by rank; those without one come last, by node.
func (p *Process) compare(o Process) int {
	if (p.Rank < 0) != (o.Rank < 0) {
		return cmp.Compare(o.Rank, p.Rank)
	}
	return cmp.Or(cmp.Compare(p.Rank, o.Rank), cmp.Compare(p.Node, o.Node))
}

func (p *Process) counts() bool {
	return p.State == control.NodeCounts || p.State == control.NodeLeaving
}

func (x *track) process(n *control.NodeTelemetry, r rate, known bool) Process {
	nan := control.Number(math.NaN())
	p := Process{Node: n.Node, Rank: n.Rank, Host: clean(n.Host), PID: n.PID, State: n.State, AgeMillis: n.AgeMillis, Seconds: nan, Sent: nan, Received: nan, CPU: nan}
	if known {
		p.Seconds = control.Number(r.seconds())
		p.Sent, p.Received = control.Number(r.perSecond(telemetry.SentBytes)), control.Number(r.perSecond(telemetry.ReceivedBytes))
		p.CPU = control.Number(r.perSecond(telemetry.CPUSeconds))
	}
	return p
}

// value is the newest value of a metric; NaN: the process has none.
func (x *track) value(m telemetry.Metric) control.Number {
	if v, ok := x.newest[m]; ok {
		return control.Number(v)
	}
	return control.Number(math.NaN())
}

func (x *track) worker(n *control.NodeTelemetry) Worker {
	nan := control.Number(math.NaN())
	r, known := x.window(telemetry.Steps)
	w := Worker{Process: x.process(n, r, known), Step: x.value(telemetry.Steps), Epoch: x.value(telemetry.Epoch), Loss: x.value(telemetry.Loss),
		Steps: nan, Examples: nan, StepTime: nan, Compute: nan, Wait: nan, Data: nan, Last: nan, Gap: nan, stepTimes: x.stepTimes, throughput: x.throughput}
	if known {
		w.Steps, w.Examples = control.Number(r.perSecond(telemetry.Steps)), control.Number(r.perSecond(telemetry.Examples))
		for _, part := range []struct {
			of   *control.Number
			from telemetry.Metric
		}{{&w.StepTime, telemetry.StepSeconds}, {&w.Compute, telemetry.ComputeSeconds}, {&w.Wait, telemetry.WaitSeconds}, {&w.Data, telemetry.DataSeconds}} {
			*part.of = control.Number(r.each(part.from, telemetry.Steps))
		}
	}
	return w
}

func (x *track) server(n *control.NodeTelemetry) Server {
	nan := control.Number(math.NaN())
	r, known := x.window(telemetry.Rounds)
	s := Server{Process: x.process(n, r, known), Waiting: x.value(telemetry.Waiting), Held: x.value(telemetry.HeldBytes), Values: x.value(telemetry.ValueBytes), Rounds: nan, RoundTime: nan}
	if known {
		s.Rounds, s.RoundTime = control.Number(r.perSecond(telemetry.Rounds)), control.Number(r.each(telemetry.RoundSeconds, telemetry.Rounds))
	}
	return s
}

// blame divides the last half minute's rounds among the workers that came last.
func (h *History) blame(workers []Worker) {
	all := 0.0
	for _, w := range workers {
		rounds, _ := h.tracks[w.Node].blamed()
		all += rounds
	}
	for i := range workers {
		w := &workers[i]
		w.Slow = slices.ContainsFunc(h.last.Slow, func(s control.Slow) bool { return s.Node == w.Node })
		rounds, seconds := h.tracks[w.Node].blamed()
		if all > 0 {
			w.Last = control.Number(rounds / all)
		}
		if rounds > 0 {
			w.Gap = control.Number(seconds / rounds)
		}
	}
}

func (j *Job) add(workers []Worker) {
	var steps, loss mean
	examples, known := 0.0, false
	for _, w := range workers {
		if !w.counts() {
			continue
		}
		steps.add(w.Steps)
		loss.add(w.Loss)
		if x := float64(w.Examples); !math.IsNaN(x) {
			examples, known = examples+x, true
		}
		j.Step, j.Epoch = larger(j.Step, w.Step), larger(j.Epoch, w.Epoch)
	}
	j.Steps, j.Loss = steps.value(), loss.value()
	if known {
		j.Examples = control.Number(examples)
	}
}

// larger is the larger of two numbers, one of which may be unknown.
func larger(a, b control.Number) control.Number {
	if math.IsNaN(float64(a)) || b > a {
		return b
	}
	return a
}

// A mean is that of known numbers.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x control.Number) {
	if !math.IsNaN(float64(x)) {
		m.sum, m.n = m.sum+float64(x), m.n+1
	}
}

// value is the mean; that of no value is NaN.
func (m *mean) value() control.Number { return control.Number(m.sum / float64(m.n)) }

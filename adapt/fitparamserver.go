package adapt

import (
	"fmt"
	"math"
)

// Parameters of ParameterServer in the order of a fit's vector. Times of bytes are those of a
// worker's whole traffic here, in seconds.
const (
	psAlphaCompute = iota
	psBetaCompute
	psContention
	psLatency
	psWorker
	psServer
	psNode
	psMemory
	psUpdate
	psGamma
	psParameters
)

// maxContention bounds what one more worker on a node takes: with 1 the computing of a node's
// workers is one after the other.
const maxContention = 4

// scalePrior is the weight of the priors against times that grow with the job; a node's have twice
// as much, since timings of one node do not tell them from a server's. With a tenth of it noise of
// 3 % let times be overestimated that are nowhere the slowest.
const scalePrior = 1e-2

// FitParameterServer fits the model to timings of distinct configurations; those of the same one
// are averaged first. It minimises
//
//	RMSE(log T_grad − log Accumulation) + RMSE(log T_close − log Step) + 0.001·(Gamma−1)²
//	+ 0.01·(Contention² + q(Server) + q(Update) + 2·q(Node) + 2·q(Memory)),   q(t) = (t/(t + Latency + Worker))² of a worker's traffic
//
// with every time at least 1e-8 s, or what a known bandwidth allows, and Gamma in [1, 10].
//
// What the timings cannot tell has the value at which a larger job looks best: a server's and a
// node's time are at their least where all timings have the same number of workers to a server or
// to a node, the update's where they have the same number of servers, and contention is none where
// computing was timed with the same number of workers on a node. So a scale that was never tried
// gets tried, and its timings correct the model. With one local batch AlphaCompute is half of the
// mean Accumulation. The result depends on the set of timings alone.
func FitParameterServer(t []Timing, c Cluster) (ParameterServer, error) {
	if err := c.Validate(); err != nil {
		return ParameterServer{}, fmt.Errorf("adapt: fit: %w", err)
	}
	given := t
	t = make([]Timing, len(given))
	for i, x := range given {
		if x.Servers == 0 {
			x.Servers = c.Servers
		}
		t[i] = x
	}
	rows, err := distinct(t)
	if err != nil {
		return ParameterServer{}, err
	}
	f := newServerFit(rows, c)
	x := f.fit(serverStarts(rows)...)
	b := c.traffic()
	return ParameterServer{
		AlphaCompute: x[psAlphaCompute], BetaCompute: x[psBetaCompute], Contention: x[psContention], Latency: x[psLatency],
		Worker: x[psWorker] / b, Server: x[psServer] / b, Node: x[psNode] / b, Memory: x[psMemory] / b, Update: x[psUpdate] / b,
		Gamma: x[psGamma], Cluster: c,
	}, nil
}

// serverStarts are points from which the minimum is sought: each with another place as the slowest.
func serverStarts(rows []Timing) (starts []vector) {
	compute, step, batch, replicas := meanCompute(rows), 0.0, 0.0, 0.0
	for _, t := range rows {
		step += t.Step / float64(len(rows))
		batch += float64(t.LocalBatch) / float64(len(rows))
		replicas += float64(t.Replicas) / float64(t.Servers) / float64(len(rows))
	}
	exchange := max(step-compute, 0.05*step)
	base := vector{
		psAlphaCompute: compute / 2, psBetaCompute: compute / 2 / batch, psContention: 0.01, psLatency: exchange / 4,
		psWorker: exchange / 4, psServer: exchange / 4 / replicas, psNode: exchange / 8 / replicas, psMemory: exchange / 8 / replicas,
		psUpdate: exchange / 8, psGamma: 1.5,
	}
	starts = append(starts, base)
	for _, slow := range []int{psServer, psNode} {
		x := base
		x[slow] *= 4
		x[psGamma] = 1.1
		if slow == psNode {
			x[psMemory] *= 4
		}
		starts = append(starts, x)
	}
	return starts
}

// newServerFit makes the objective. The norm in place of a maximum makes its last part slow to
// find, and it changes no prediction much: so the effort is small.
func newServerFit(rows []Timing, cluster Cluster) *blendFit {
	f := &blendFit{box: serverBox(cluster), effort: effort{iterations: 100, tolerance: 1e-5}}
	cells := &serverCells{fit: f, computes: map[computePlace]int{}, exchanges: map[traffic]int{}, crowds: map[float64]bool{}}
	for _, t := range rows {
		cells.add(t, trafficOf(t.Nodes, t.Replicas, t.Servers, cluster.SharedMemory))
	}
	cells.fixUntold(rows)
	f.times, f.prior = cells.times, serverPrior
	return f
}

// serverBox has the bounds of the parameters: times are above 0, and those of bytes at least what a
// known bandwidth allows.
func serverBox(cluster Cluster) (b box) {
	b.n = psParameters
	for i := range psGamma {
		b.low[i], b.high[i] = tiny, math.Inf(1)
	}
	b.low[psContention], b.high[psContention] = 0, maxContention
	b.low[psGamma], b.high[psGamma] = 1, 10
	for i, bandwidth := range map[int]float64{psWorker: cluster.WorkerBandwidth, psServer: cluster.ServerBandwidth, psNode: cluster.NodeBandwidth} {
		if bandwidth > 0 {
			b.low[i] = max(cluster.traffic()/bandwidth, tiny)
		}
	}
	return b
}

// serverCells are the cells of a fit, and what their times depend on: batches has the same order as
// the fit's compute cells, placements that of its exchange cells.
type serverCells struct {
	fit        *blendFit
	batches    []crowdedBatch
	placements []traffic
	// computes and exchanges find the cell of a row.
	computes  map[computePlace]int
	exchanges map[traffic]int
	// crowds are the numbers of workers on a node with which computing was timed.
	crowds map[float64]bool
}

// A computePlace is what rows with the same time of computing have in common.
type computePlace struct {
	batch  int
	onNode float64
}

// A crowdedBatch is a local batch, and how many other workers compute on its node.
type crowdedBatch struct{ batch, others float64 }

// add adds a row.
func (s *serverCells) add(t Timing, p traffic) {
	f := s.fit
	key := computePlace{t.LocalBatch, p.onNode}
	b, ok := s.computes[key]
	if !ok {
		b = len(f.compute)
		s.computes[key] = b
		f.compute = append(f.compute, cell{})
		s.batches = append(s.batches, crowdedBatch{float64(t.LocalBatch), p.onNode - 1})
	}
	f.count(b, t)
	if t.Accumulation > 0 {
		s.crowds[p.onNode] = true
	}
	e, ok := s.exchanges[p]
	if !ok {
		e = len(f.exchange)
		s.exchanges[p] = e
		f.exchange = append(f.exchange, cell{})
		s.placements = append(s.placements, p)
	}
	f.rows = append(f.rows, fitRow{b, e, math.Log(t.Step)})
}

// fixUntold fixes the parameters that the rows cannot tell where a larger job looks best: see
// FitParameterServer.
func (s *serverCells) fixUntold(rows []Timing) {
	b := &s.fit.box
	for i, of := range map[int]func(traffic) float64{
		psServer: func(p traffic) float64 { return p.perServer },
		psNode:   func(p traffic) float64 { return p.leaving },
		psMemory: func(p traffic) float64 { return p.staying },
		psUpdate: func(p traffic) float64 { return p.part },
	} {
		if !s.varies(of) {
			b.fix(i, b.low[i])
		}
	}
	if len(s.crowds) < 2 {
		b.fix(psContention, 0)
	}
	one := true
	for _, x := range s.batches {
		one = one && x.batch == s.batches[0].batch
	}
	if one {
		b.fix(psAlphaCompute, max(meanCompute(rows)/2, tiny))
	}
}

// varies reports whether the placements differ in a number.
func (s *serverCells) varies(of func(traffic) float64) bool {
	for _, p := range s.placements {
		if of(p) != of(s.placements[0]) {
			return true
		}
	}
	return false
}

// times sets time and slope of all cells.
func (s *serverCells) times(x *vector) {
	for i, b := range s.batches {
		c := &s.fit.compute[i]
		crowded := 1 + x[psContention]*b.others
		alone := x[psAlphaCompute] + x[psBetaCompute]*b.batch
		c.time = alone * crowded
		c.slope[psAlphaCompute], c.slope[psBetaCompute], c.slope[psContention] = crowded, b.batch*crowded, alone*b.others
	}
	for i, p := range s.placements {
		c := &s.fit.exchange[i]
		most, by := slowestSlope([links]float64{x[psWorker], x[psServer] * p.perServer, x[psNode] * p.leaving, x[psMemory] * p.staying})
		c.time = x[psLatency] + most + x[psUpdate]*p.part
		c.slope[psLatency], c.slope[psWorker], c.slope[psServer] = 1, by[0], by[1]*p.perServer
		c.slope[psNode], c.slope[psMemory], c.slope[psUpdate] = by[2]*p.leaving, by[3]*p.staying, p.part
	}
}

// serverPrior is what is expected of the parameters: that no time grows with the job.
func serverPrior(x, g *vector, h *matrix) float64 {
	r := math.Sqrt(scalePrior)
	return square(g, h, r*x[psContention], []int{psContention}, []float64{r}) + sharePrior(x, g, h, psServer, scalePrior) +
		sharePrior(x, g, h, psUpdate, scalePrior) + sharePrior(x, g, h, psNode, 2*scalePrior) + sharePrior(x, g, h, psMemory, 2*scalePrior)
}

// sharePrior is weight·(t/(t + latency + worker))².
func sharePrior(x, g *vector, h *matrix, i int, weight float64) float64 {
	total := x[i] + x[psLatency] + x[psWorker]
	w := math.Sqrt(weight)
	d := -w * x[i] / (total * total)
	return square(g, h, w*x[i]/total, []int{i, psLatency, psWorker}, []float64{w/total + d, d, d})
}

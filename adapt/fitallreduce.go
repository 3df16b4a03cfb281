package adapt

import "math"

// Parameters of AllReduce in the order of a fit's vector.
const (
	arAlphaCompute = iota
	arBetaCompute
	arAlphaNodes
	arBetaNodes
	arAlphaReplicas
	arBetaReplicas
	arGamma
	arParameters
)

// FitAllReduce fits the model to timings of distinct configurations; those of the same one are
// averaged first. It minimises
//
//	RMSE(log T_grad − log Accumulation) + RMSE(log T_close − log Step)
//	+ 0.001·(Gamma−1)² + 0.01·((BetaNodes/AlphaNodes)² + (BetaReplicas/AlphaReplicas)²)
//
// with every parameter at least 1e-8 and Gamma in [1, 10]. Where data are missing: with one local
// batch AlphaCompute is half of the mean Accumulation; without several nodes, or without several
// replicas on one node, the parameters of that exchange are 1e-8, and those between nodes at least
// 1.1 times those inside a node; with at most two replicas both betas are 1e-8. So a placement that
// was never tried looks good, and gets tried.
//
// The parameters themselves are not unique where the model overlaps computing and exchange;
// predictions are what the fit is for. The result depends on the set of timings alone.
func FitAllReduce(t []Timing) (AllReduce, error) {
	rows, err := distinct(t)
	if err != nil {
		return AllReduce{}, err
	}
	f, betweenNodes := newAllReduceFit(rows)
	// One of the two starts led to within 0.1 % of the best of 26 in each of 480 random
	// profiles of the simulator's traces; neither did so alone.
	x := f.fit(vector{.1, .01, .1, .01, .1, .01, 1.001}, vector{1, .001, 1, .1, 1, .1, 1.3})
	a := AllReduce{x[arAlphaCompute], x[arBetaCompute], x[arAlphaNodes], x[arBetaNodes], x[arAlphaReplicas], x[arBetaReplicas], x[arGamma]}
	if !betweenNodes {
		a.AlphaNodes = max(a.AlphaNodes, 1.1*a.AlphaReplicas)
		a.BetaNodes = max(a.BetaNodes, 1.1*a.BetaReplicas)
	}
	return a, nil
}

// newAllReduceFit makes the objective. betweenNodes says whether several nodes were measured.
func newAllReduceFit(rows []Timing) (f *blendFit, betweenNodes bool) {
	f = &blendFit{effort: effort{iterations: 200, tolerance: 1e-8}}
	f.box.n = arParameters
	for i := range arGamma {
		f.box.low[i], f.box.high[i] = tiny, math.Inf(1)
	}
	f.box.low[arGamma], f.box.high[arGamma] = 1, 10
	cells := &reduceCells{fit: f, batches: map[int]int{}, placements: map[reducePlace]int{}}
	for _, t := range rows {
		cells.add(t)
	}
	cells.fixUntold(rows)
	f.times = cells.times
	f.prior = func(x, g *vector, h *matrix) float64 {
		return betaPrior(x, g, h, arAlphaNodes, arBetaNodes) + betaPrior(x, g, h, arAlphaReplicas, arBetaReplicas)
	}
	return f, cells.betweenNodes
}

// reduceCells are the cells of a fit. Every time is linear in the parameters, so a cell's slope
// never changes.
type reduceCells struct {
	fit *blendFit
	// batches and placements find the cell of a row.
	batches    map[int]int
	placements map[reducePlace]int
	// What the rows have measured: an exchange inside a node, one between nodes, and one of
	// more than two replicas.
	insideNode, betweenNodes, beyondTwo bool
}

// A reducePlace is what rows with the same time of exchange have in common. All numbers of nodes
// above 1 are alike.
type reducePlace struct{ nodes, replicas int }

// add adds a row.
func (r *reduceCells) add(t Timing) {
	f := r.fit
	b, ok := r.batches[t.LocalBatch]
	if !ok {
		b = len(f.compute)
		r.batches[t.LocalBatch] = b
		f.compute = append(f.compute, cell{slope: vector{arAlphaCompute: 1, arBetaCompute: float64(t.LocalBatch)}})
	}
	f.count(b, t)
	p := reducePlace{min(t.Nodes, 2), t.Replicas}
	e, ok := r.placements[p]
	if !ok {
		e = len(f.exchange)
		r.placements[p] = e
		f.exchange = append(f.exchange, r.exchange(t))
	}
	f.rows = append(f.rows, fitRow{b, e, math.Log(t.Step)})
}

// exchange is the cell of a row's exchange.
func (r *reduceCells) exchange(t Timing) (c cell) {
	switch {
	case t.Replicas == 1:
	case t.Nodes == 1:
		c.slope[arAlphaReplicas], c.slope[arBetaReplicas] = 1, beyondTwo(t.Replicas)
		r.insideNode = true
	default:
		c.slope[arAlphaNodes], c.slope[arBetaNodes] = 1, beyondTwo(t.Replicas)
		r.betweenNodes = true
	}
	r.beyondTwo = r.beyondTwo || t.Replicas > 2
	return c
}

// fixUntold fixes the parameters that the rows cannot tell: see FitAllReduce.
func (r *reduceCells) fixUntold(rows []Timing) {
	b := &r.fit.box
	if len(r.fit.compute) == 1 {
		b.fix(arAlphaCompute, max(meanCompute(rows)/2, tiny))
	}
	if !r.betweenNodes {
		b.fix(arAlphaNodes, tiny)
		b.fix(arBetaNodes, tiny)
	}
	if !r.insideNode {
		b.fix(arAlphaReplicas, tiny)
		b.fix(arBetaReplicas, tiny)
	}
	if !r.beyondTwo {
		b.fix(arBetaNodes, tiny)
		b.fix(arBetaReplicas, tiny)
	}
}

// times sets the time of all cells.
func (r *reduceCells) times(x *vector) {
	f := r.fit
	for i := range f.compute {
		c := &f.compute[i]
		c.time = x[arAlphaCompute] + x[arBetaCompute]*c.slope[arBetaCompute]
	}
	for i := range f.exchange {
		c := &f.exchange[i]
		c.time = 0
		for a := arAlphaNodes; a < arGamma; a++ {
			c.time += x[a] * c.slope[a]
		}
		c.time = max(c.time, tiny)
	}
}

// betaPrior is 0.01·(β/α)².
func betaPrior(x, g *vector, h *matrix, alpha, beta int) float64 {
	r := 0.1 * x[beta] / x[alpha]
	return square(g, h, r, []int{alpha, beta}, []float64{-r / x[alpha], 0.1 / x[alpha]})
}

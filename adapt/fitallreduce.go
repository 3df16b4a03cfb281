package adapt

import "math"

// allReduceFit is FitAllReduce's objective. The compute times of a fit are few (one for each local batch) and so are the exchange's (one for
// each number of replicas), so logarithms are taken of those, not of each row's.
type allReduceFit struct {
	box          box
	betweenNodes bool // several nodes were measured

	batches []computeCell
	cells   []exchangeCell
	rows    []fitRow

	known float64 // rows whose Accumulation is known
}

type computeCell struct {
	batch float64
	// Sums over the rows whose Accumulation is known: number, Σ log t and Σ (log t)².
	rows, sum, squares float64

	time, log float64
}

type exchangeCell struct {
	alpha, beta int // parameters; -1 for one replica
	beyondTwo   float64

	time, log float64
}

type fitRow struct {
	batch, cell int
	log         float64 // of Step
}

func newAllReduceFit(rows []Timing) *allReduceFit {
	f := &allReduceFit{}
	f.box.n = allReduceParameters
	for i := range gamma {
		f.box.low[i], f.box.high[i] = tiny, math.Inf(1)
	}
	f.box.low[gamma], f.box.high[gamma] = 1, 10

	batches := map[int]int{}
	type placement struct{ several, replicas int }
	cells := map[placement]int{}
	insideNode, beyondTwoReplicas := false, false
	for _, t := range rows {
		b, ok := batches[t.LocalBatch]
		if !ok {
			b = len(f.batches)
			batches[t.LocalBatch] = b
			f.batches = append(f.batches, computeCell{batch: float64(t.LocalBatch)})
		}
		if t.Accumulation > 0 {
			log := math.Log(t.Accumulation)
			f.known++
			f.batches[b].rows++
			f.batches[b].sum += log
			f.batches[b].squares += log * log
		}
		p := placement{min(t.Nodes, 2), t.Replicas}
		c, ok := cells[p]
		if !ok {
			c = len(f.cells)
			cells[p] = c
			cell := exchangeCell{alpha: -1, beta: -1, beyondTwo: beyondTwo(t.Replicas)}
			switch {
			case t.Replicas == 1:
			case t.Nodes == 1:
				cell.alpha, cell.beta = alphaReplicas, betaReplicas
				insideNode = true
			default:
				cell.alpha, cell.beta = alphaNodes, betaNodes
				f.betweenNodes = true
			}
			beyondTwoReplicas = beyondTwoReplicas || t.Replicas > 2
			f.cells = append(f.cells, cell)
		}
		f.rows = append(f.rows, fitRow{b, c, math.Log(t.Step)})
	}

	if len(f.batches) == 1 {
		f.box.fix(alphaCompute, max(meanCompute(rows)/2, tiny))
	}
	if !f.betweenNodes {
		f.box.fix(alphaNodes, tiny)
		f.box.fix(betaNodes, tiny)
	}
	if !insideNode {
		f.box.fix(alphaReplicas, tiny)
		f.box.fix(betaReplicas, tiny)
	}
	if !beyondTwoReplicas {
		f.box.fix(betaNodes, tiny)
		f.box.fix(betaReplicas, tiny)
	}
	return f
}

// meanCompute is the mean time of a micro-batch's computing; where none is known, that of the fastest step.
func meanCompute(rows []Timing) float64 {
	sum, known, fastest := 0.0, 0.0, math.Inf(1)
	for _, t := range rows {
		fastest = min(fastest, t.Step)
		if t.Accumulation > 0 {
			sum += t.Accumulation
			known++
		}
	}
	if known == 0 {
		return fastest
	}
	return sum / known
}

// starts are the points from which the minimum is sought. One of the two was within 0.1 % of the best of 26 starts in each of 480 random
// profiles of the simulator's traces; one alone was not.
func (f *allReduceFit) starts() []vector {
	return []vector{
		{.1, .01, .1, .01, .1, .01, 1.001},
		{1, .001, 1, .1, 1, .1, 1.3},
	}
}

// evaluate implements objective.
func (f *allReduceFit) evaluate(x *vector, g *vector, h *matrix) float64 {
	*g, *h = vector{}, matrix{}
	value := f.computing(x, g, h) + f.closing(x, g, h)
	value += 1e-3 * (x[gamma] - 1) * (x[gamma] - 1)
	g[gamma] += 2e-3 * (x[gamma] - 1)
	h[gamma][gamma] += 2e-3
	return value + ratioPenalty(x, g, h, betaNodes, alphaNodes) + ratioPenalty(x, g, h, betaReplicas, alphaReplicas)
}

// ratioPenalty is 0.01·(β/α)².
func ratioPenalty(x, g *vector, h *matrix, beta, alpha int) float64 {
	ratio := x[beta] / x[alpha]
	// The residual is r = 0.1·β/α; the curvature is Gauss and Newton's, 2·∇r·∇rᵀ.
	dBeta, dAlpha := 0.1/x[alpha], -0.1*ratio/x[alpha]
	g[beta] += 2 * 0.1 * ratio * dBeta
	g[alpha] += 2 * 0.1 * ratio * dAlpha
	h[beta][beta] += 2 * dBeta * dBeta
	h[alpha][alpha] += 2 * dAlpha * dAlpha
	h[max(alpha, beta)][min(alpha, beta)] += 2 * dAlpha * dBeta
	return 0.01 * ratio * ratio
}

// computing is RMSE(log T_grad − log Accumulation).
func (f *allReduceFit) computing(x, g *vector, h *matrix) float64 {
	var sum float64
	var dg [2]float64
	var dh [2][2]float64
	for i := range f.batches {
		c := &f.batches[i]
		c.time = x[alphaCompute] + x[betaCompute]*c.batch
		c.log = math.Log(c.time)
		if c.rows == 0 {
			continue
		}
		sum += c.rows*c.log*c.log - 2*c.log*c.sum + c.squares
		residuals := c.rows*c.log - c.sum
		d := [2]float64{1 / c.time, c.batch / c.time}
		for a := range d {
			dg[a] += residuals * d[a]
			for b := range a + 1 {
				dh[a][b] += c.rows * d[a] * d[b]
			}
		}
	}
	if f.known == 0 {
		return 0
	}
	rmse := rootMean(sum, f.known)
	for a := range dg {
		g[a] += dg[a] / (f.known * rmse)
		for b := range a + 1 {
			h[a][b] += dh[a][b] / (f.known * rmse)
		}
	}
	return rmse
}

// rootMean is √(sum/n), smoothed at 0, where a root has no derivative.
func rootMean(sum, n float64) float64 { return math.Sqrt(max(sum, 0)/n + 1e-20) }

// closing is RMSE(log T_close − log Step); computing has left the compute times in the cells.
func (f *allReduceFit) closing(x, g *vector, h *matrix) float64 {
	for i := range f.cells {
		c := &f.cells[i]
		c.time = tiny
		if c.alpha >= 0 {
			c.time = x[c.alpha] + x[c.beta]*c.beyondTwo
		}
		c.log = math.Log(c.time)
	}
	var sum float64
	var dg vector
	var dh matrix
	exponent := x[gamma]
	for _, row := range f.rows {
		b, c := &f.batches[row.batch], &f.cells[row.cell]
		close, share := blendLog(b.log, c.log, exponent)
		r := close - row.log
		sum += r * r
		// The derivatives by the parameters that the row depends on.
		dCompute, dExchange := share/b.time, (1-share)/c.time
		d0, d1 := dCompute, dCompute*b.batch
		dGamma := (share*b.log + (1-share)*c.log - close) / exponent
		dg[0] += r * d0
		dg[1] += r * d1
		dg[gamma] += r * dGamma
		dh[0][0] += d0 * d0
		dh[1][0] += d1 * d0
		dh[1][1] += d1 * d1
		dh[gamma][0] += dGamma * d0
		dh[gamma][1] += dGamma * d1
		dh[gamma][gamma] += dGamma * dGamma
		if c.alpha < 0 {
			continue
		}
		d2, d3 := dExchange, dExchange*c.beyondTwo
		dg[c.alpha] += r * d2
		dg[c.beta] += r * d3
		dh[c.alpha][0] += d2 * d0
		dh[c.alpha][1] += d2 * d1
		dh[c.beta][0] += d3 * d0
		dh[c.beta][1] += d3 * d1
		dh[c.alpha][c.alpha] += d2 * d2
		dh[c.beta][c.alpha] += d3 * d2
		dh[c.beta][c.beta] += d3 * d3
		dh[gamma][c.alpha] += dGamma * d2
		dh[gamma][c.beta] += dGamma * d3
	}
	n := float64(len(f.rows))
	rmse := rootMean(sum, n)
	for i := range allReduceParameters {
		g[i] += dg[i] / (n * rmse)
		for j := range i + 1 {
			h[i][j] += dh[i][j] / (n * rmse)
		}
	}
	return rmse
}

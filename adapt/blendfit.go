package adapt

import "math"

// A blendFit is the objective of both models' fits:
//
//	RMSE(log T_grad − log Accumulation) + RMSE(log T_close − log Step) + 0.001·(γ−1)² + prior
//
// T_grad is the time of a compute cell, T_close blend of it and of an exchange cell. Cells are few
// (one for each local batch, one for each placement), so that logarithms are taken of them, not of
// each row.
type blendFit struct {
	box      box
	compute  []cell
	exchange []cell
	rows     []fitRow
	// known is the number of rows whose Accumulation is known.
	known float64

	// times sets time and slope of all cells.
	times func(x *vector)
	// prior adds what is expected of the parameters, its gradient and curvature.
	prior func(x, g *vector, h *matrix) float64

	effort effort
	// free are the parameters that are fitted, besides γ.
	free []int
}

// A cell is a time that rows share.
type cell struct {
	time, log float64
	// slope is the derivative of time by the parameters.
	slope vector

	// Of a compute cell, over the rows whose Accumulation t is known: their number, Σ log t and
	// Σ (log t)².
	rows, sum, squares float64
}

type fitRow struct {
	// compute and exchange are the row's cells, and log that of its Step.
	compute, exchange int
	log               float64
}

// gammaWeight is the weight of the regularisation term (γ−1)² in the loss.
const gammaWeight = 1e-3

// gamma is the index of γ, the last parameter.
func (f *blendFit) gamma() int { return f.box.n - 1 }

// fit finds the least of the minima that are reached from the starts.
func (f *blendFit) fit(starts ...vector) vector {
	f.free = f.free[:0]
	for i := range f.gamma() {
		if f.box.low[i] < f.box.high[i] {
			f.free = append(f.free, i)
		}
	}
	best, least := vector{}, math.Inf(1)
	for _, start := range starts {
		if x, value := minimize(f, &f.box, start, f.effort); value < least {
			best, least = x, value
		}
	}
	return best
}

// evaluate implements objective.
func (f *blendFit) evaluate(x *vector, g *vector, h *matrix) float64 {
	*g, *h = vector{}, matrix{}
	f.times(x)
	for i := range f.compute {
		f.compute[i].log = math.Log(f.compute[i].time)
	}
	for i := range f.exchange {
		f.exchange[i].log = math.Log(f.exchange[i].time)
	}
	last := f.gamma()
	beyond := x[last] - 1
	g[last] += 2 * gammaWeight * beyond
	h[last][last] += 2 * gammaWeight
	return gammaWeight*beyond*beyond + f.prior(x, g, h) + f.computing(g, h) + f.closing(x[last], g, h)
}

// computing is RMSE(log T_grad − log Accumulation).
func (f *blendFit) computing(g *vector, h *matrix) float64 {
	if f.known == 0 {
		return 0
	}
	var sum float64
	var dg vector
	var dh matrix
	for i := range f.compute {
		c := &f.compute[i]
		if c.rows == 0 {
			continue
		}
		sum += c.rows*c.log*c.log - 2*c.log*c.sum + c.squares
		residuals := (c.rows*c.log - c.sum) / c.time
		weight := c.rows / (c.time * c.time)
		for _, a := range f.free {
			dg[a] += residuals * c.slope[a]
			for b := range a + 1 {
				dh[a][b] += weight * c.slope[a] * c.slope[b]
			}
		}
	}
	rmse := rootMean(sum, f.known)
	f.add(g, h, &dg, &dh, f.known*rmse)
	return rmse
}

// closing is RMSE(log T_close − log Step).
func (f *blendFit) closing(gamma float64, g *vector, h *matrix) float64 {
	var sum float64
	var dg, d vector
	var dh matrix
	last := f.gamma()
	for _, row := range f.rows {
		b, c := &f.compute[row.compute], &f.exchange[row.exchange]
		log, share := blendLog(b.log, c.log, gamma)
		r := log - row.log
		sum += r * r
		byCompute, byExchange := share/b.time, (1-share)/c.time
		d[last] = (share*b.log + (1-share)*c.log - log) / gamma
		dg[last] += r * d[last]
		dh[last][last] += d[last] * d[last]
		for i, a := range f.free {
			d[a] = byCompute*b.slope[a] + byExchange*c.slope[a]
			dg[a] += r * d[a]
			dh[last][a] += d[last] * d[a]
			for _, b := range f.free[:i+1] {
				dh[a][b] += d[a] * d[b]
			}
		}
	}
	n := float64(len(f.rows))
	rmse := rootMean(sum, n)
	f.add(g, h, &dg, &dh, n*rmse)
	return rmse
}

// add adds the derivatives of a root mean square, whose residuals r have the sums dg = Σ r·∇r and
// dh = Σ ∇r·∇rᵀ. It takes the curvature of the parabola that touches the root from above, so that
// every step is a descent.
func (f *blendFit) add(g *vector, h *matrix, dg *vector, dh *matrix, by float64) {
	for i := range f.box.n {
		g[i] += dg[i] / by
		for j := range i + 1 {
			h[i][j] += dh[i][j] / by
		}
	}
}

// rootMean is √(sum/n), smoothed at 0, where a root has no derivative.
func rootMean(sum, n float64) float64 { return math.Sqrt(max(sum, 0)/n + 1e-20) }

// square adds the square of a prior's residual r with the derivatives d by the parameters of the
// same place in of; its curvature is Gauss and Newton's.
func square(g *vector, h *matrix, r float64, of []int, d []float64) float64 {
	for i, a := range of {
		g[a] += 2 * r * d[i]
		for j, b := range of {
			if b <= a {
				h[a][b] += 2 * d[i] * d[j]
			}
		}
	}
	return r * r
}

// meanCompute is the mean computing time of a micro-batch in seconds. Where no computing time was
// measured it is the time of the fastest step.
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

// count adds a row's Accumulation to its cell.
func (f *blendFit) count(compute int, t Timing) {
	if t.Accumulation > 0 {
		log := math.Log(t.Accumulation)
		f.known++
		c := &f.compute[compute]
		c.rows++
		c.sum += log
		c.squares += log * log
	}
}

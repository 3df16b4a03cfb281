package telemetry

import "math"

// A lateSample is by how much a worker was later than others: a mean of parts of the time, which
// count as much as they have steps, and how sure it is.
type lateSample struct {
	parts                int
	weight, sum, squares float64
}

// add adds a part of so many steps, each of which was late by x on average.
func (l *lateSample) add(x, steps float64) {
	if steps > 0 && !math.IsNaN(x) && !math.IsInf(x, 0) {
		l.parts++
		l.weight += steps
		l.sum += steps * x
		l.squares += steps * x * x
	}
}

func (l *lateSample) mean() float64 {
	if l.weight == 0 {
		return 0
	}
	return l.sum / l.weight
}

// isSteady reports whether the mean is above zero by more than chance makes of values that vary so
// much (Student's t).
func (l *lateSample) isSteady() bool {
	if l.parts < 3 || !(l.sum > 0) {
		return false
	}
	mean := l.mean()

	// The variance is that of one step.
	variance := max(0, l.squares-l.weight*mean*mean) / float64(l.parts-1)
	return mean >= studentT[min(l.parts-2, len(studentT)-1)]*math.Sqrt(variance/l.weight)
}

// studentT[d] is what Student's t of d+1 degrees of freedom exceeds with a probability of 1 in 500.
var studentT = [...]float64{159.13, 15.76, 8.05, 5.95, 5.03, 4.52, 4.21, 3.99, 3.83, 3.72, 3.62, 3.55, 3.49, 3.44, 3.39}

// lateness says by how much a worker was later than the others in the parts of the time, in a round
// of so many steps: own, by what it did itself in its steps, if workers tell; all, by when its
// contributions came.
func lateness(tallies []Tally, node uint64, steps float64) (own, all lateSample) {
	for p := range len(tallies) - 1 {
		from, to := &tallies[p], &tallies[p+1]
		var others []float64
		mine, made, late := math.NaN(), 0.0, 0.0
		for _, w := range growth(from, to) {
			busy := (w.StepSeconds - w.WaitSeconds - orZero(w.SaveSeconds)) / w.Steps
			known := w.Steps > 0 && !math.IsNaN(busy) && !math.IsInf(busy, 0)
			switch {
			case w.Node == node:
				late += w.BlamedSeconds
				if known {
					mine, made = busy, w.Steps
				}
			default:
				late -= w.BlamedSeconds
				if known {
					others = append(others, busy)
				}
			}
		}
		if len(others) > 0 {
			own.add((mine-median(others))*steps, made)
		}
		rounds := to.Rounds - from.Rounds
		all.add(late/rounds, rounds)
	}
	return own, all
}

// atLeast is the probability of at least k of n events of probability p each.
func atLeast(k, n, p float64) float64 {
	k, n = math.Floor(k+.01), math.Floor(n+.01)
	sum, logOdds := 0.0, math.Log(p)-math.Log1p(-p)
	lg := func(x float64) float64 { y, _ := math.Lgamma(x + 1); return y }
	for ; k <= n; k++ {
		term := math.Exp(lg(n) - lg(k) - lg(n-k) + k*logOdds + n*math.Log1p(-p))
		if sum += term; term < sum*1e-6 {
			break
		}
	}
	return sum
}

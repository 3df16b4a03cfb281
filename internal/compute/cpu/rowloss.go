package cpu

import "math"

// A rowLosses has the losses of rows and what each of them counts. They are added up in the order
// of the rows, whichever thread computed them.
type rowLosses struct{ sums, counts []float64 }

// newRowLosses takes rowLossDoubles numbers.
func newRowLosses(doubles []float64) rowLosses {
	rows := len(doubles) / 2
	return rowLosses{sums: doubles[:rows], counts: doubles[rows:]}
}

// rowLossDoubles is the number of doubles that the losses of some rows need.
func rowLossDoubles(rows int) int { return 2 * rows }

// mean is the sum of the losses by that of the counts; 0 of nothing.
func (l rowLosses) mean() float32 {
	sum, count := 0.0, 0.0
	for b := range l.sums {
		sum += l.sums[b]
		count += l.counts[b]
	}
	return float32(sum / math.Max(count, 1))
}

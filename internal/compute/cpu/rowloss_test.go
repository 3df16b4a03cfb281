package cpu

import "testing"

func TestMeanOfRowsCountsWhatCounts(t *testing.T) {
	l := newRowLosses(make([]float64, rowLossDoubles(3)))
	if got := l.mean(); got != 0 {
		t.Errorf("nothing counts: got %g, want 0", got)
	}
	copy(l.sums, []float64{6, 0, 3})
	copy(l.counts, []float64{2, 0, 1})
	if got := l.mean(); got != 3 {
		t.Errorf("got %g, want 9/3", got)
	}
}

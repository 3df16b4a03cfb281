package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A Histogram tells of the numbers what their sorted list does.
func TestHistogramIsThatOfTheSortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var whole, left, right Histogram
		var list []uint64
		sum := 0.0
		for i := range 1 + random.IntN(60) {
			n := random.Uint64N(1 + random.Uint64N(40))
			list = append(list, n)
			sum += float64(n)
			whole.Add(n)
			if i%3 == 0 {
				left.Add(n)
			} else {
				right.Add(n)
			}
		}
		left.Merge(&right)
		slices.Sort(list)
		for _, h := range []*Histogram{&whole, &left} {
			if got, want := h.Mean(), sum/float64(len(list)); math.Abs(got-want) > 1e-12*want {
				t.Errorf("%v: mean: got %v, want %v", list, got, want)
			}
			if want := list[len(list)-1]; h.Max != want || h.Count != uint64(len(list)) {
				t.Errorf("%v: got %d numbers up to %d, want %d up to %d", list, h.Count, h.Max, len(list), want)
			}
			for _, q := range []float64{0, 0.25, 0.5, 0.9, 1} {
				i := max(int(math.Ceil(q*float64(len(list))))-1, 0)
				if got := h.Quantile(q); got != list[i] {
					t.Errorf("%v: quantile %v: got %d, want %d", list, q, got, list[i])
				}
			}
		}
	}
}

func TestHistogramOfNothingAndOfVeryMuch(t *testing.T) {
	var h Histogram
	if !math.IsNaN(h.Mean()) || h.Quantile(0.5) != 0 || h.Max != 0 {
		t.Errorf("of nothing: got mean %v, median %d, largest %d; want NaN, 0, 0", h.Mean(), h.Quantile(0.5), h.Max)
	}
	h.Add(7)
	h.Add(1 << 40)
	if len(h.Counts) > maxBin+1 || h.Max != 1<<40 || h.Quantile(1) != 1<<40 || h.Quantile(0.5) != 7 {
		t.Errorf("of 7 and 2^40: got %d places, largest %d, quantiles %d and %d; want at most %d places, 2^40, 7 and 2^40", len(h.Counts), h.Max, h.Quantile(0.5), h.Quantile(1), maxBin+1)
	}
}

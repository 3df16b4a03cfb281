package adapt

import (
	"math"
	"testing"
)

func TestEpochsEndByProgress(t *testing.T) {
	p := Progress{Examples: 1000, InitialBatch: 96} // 10.4 steps an epoch
	ends := []int{11, 21, 32, 42}                   // the first whole step at or past 10.42, 20.83, 31.25, 41.67
	for step := 1; step <= 42; step++ {
		p.Add(1)
		for e, end := range ends {
			if got, want := p.Done(e), step >= end; got != want {
				t.Errorf("after step %d: epoch %d is done: %t, want %t", step, e, got, want)
			}
		}
		want := 0
		for _, end := range ends {
			if step >= end {
				want++
			}
		}
		if got := p.Epoch(); got != want {
			t.Errorf("after step %d: epoch %d, want %d", step, got, want)
		}
	}
	if got, want := p.Epochs(), 42*96./1000; !near(got, want, 1e-12) {
		t.Errorf("got %g epochs, want %g", got, want)
	}
}

// A gain of r counts as r steps; sums of gains that are not exact in binary make no epoch a step
// longer.
func TestStepsCountByTheirGain(t *testing.T) {
	p := Progress{Examples: 100, InitialBatch: 10}
	for range 100 {
		p.Add(0.1)
	}
	if p.Steps == 10 {
		t.Fatal("the sum is exact: the test shows nothing")
	}
	if !p.Done(0) || p.Epoch() != 1 || p.Done(1) {
		t.Errorf("after 100 gains of 0.1: epoch 0 is done: %t, epoch %d, want true, 1", p.Done(0), p.Epoch())
	}
	before := p
	for _, gain := range []float64{math.NaN(), math.Inf(1), -1, 0} {
		p.Add(gain)
	}
	if p != before {
		t.Errorf("gains that are no positive numbers: got %+v, want %+v", p, before)
	}
}

func TestEpochOfOddProgress(t *testing.T) {
	for _, tc := range []struct {
		p     Progress
		valid bool
		want  int
	}{
		{Progress{}, false, 0},
		{Progress{Steps: 5, Examples: 10}, false, 0},
		{Progress{Steps: 5, InitialBatch: 10}, false, 0},
		{Progress{Steps: -5, Examples: 10, InitialBatch: 10}, false, 0},
		{Progress{Steps: math.NaN(), Examples: 10, InitialBatch: 10}, false, 0},
		{Progress{Steps: math.Inf(1), Examples: 10, InitialBatch: 10}, false, 0},
		{Progress{Steps: 1e300, Examples: 10, InitialBatch: 10}, true, math.MaxInt32},
		{Progress{Steps: 5, Examples: 10, InitialBatch: 1000}, true, 500}, // an epoch is a hundredth of a step
		{Progress{Steps: 1e6, Examples: 3, InitialBatch: 7}, true, 2333333},
	} {
		if err := tc.p.Validate(); (err == nil) != tc.valid {
			t.Errorf("%+v: error %v, want valid %t", tc.p, err, tc.valid)
		}
		if got := tc.p.Epoch(); got != tc.want {
			t.Errorf("%+v: epoch %d, want %d", tc.p, got, tc.want)
		}
	}
}

package worker

import (
	"context"
	"testing"
)

// fakeRounds closes rounds over this worker and what others have pushed.
type fakeRounds struct {
	others  [][]float32
	weights float32
}

func (f *fakeRounds) InitAverage(context.Context, string, []float32) error { return nil }

// PushPull returns the mean over all, each with weight 1, as a store does.
func (f *fakeRounds) PushPull(_ context.Context, _ string, grads, outs [][]float32) error {
	all := append(f.others, grads[0])
	for i := range outs[0] {
		sum := float32(0)
		for _, row := range all {
			sum += row[i]
		}
		outs[0][i] = sum / f.weights
	}
	return nil
}

// flagged is what another worker pushes in step 4, with some lanes raised.
func flagged(raised map[int]float32) []float32 {
	row := make([]float32, lanes)
	row[laneMark], row[laneOne] = 5, 1
	for lane, x := range raised {
		row[lane] = x
	}
	return row
}

// All workers come to one verdict: one that was asked to stop stops all, those that were told to
// leave stop all only if they are all, and a value of an earlier step says nothing.
func TestAllWorkersComeToOneVerdict(t *testing.T) {
	quiet := agreementEnv{leaving: func() bool { return false }, changing: func() bool { return false }, raise: func([]float32) {}}
	leaving := quiet
	leaving.leaving = func() bool { return true }
	stale := flagged(map[int]float32{laneStop: stopAll})
	stale[laneMark] = 90
	requested := make(chan struct{})
	close(requested)
	for name, c := range map[string]struct {
		env     agreementEnv
		asked   bool
		request <-chan struct{}
		other   []float32
		want    verdict
	}{
		"nobody":          {quiet, false, nil, flagged(nil), verdict{known: true}},
		"this one":        {quiet, true, nil, flagged(nil), verdict{known: true, stop: stopAsked}},
		"the other":       {quiet, false, nil, flagged(map[int]float32{laneStop: stopAll}), verdict{known: true, stop: stopAsked}},
		"the job":         {quiet, false, requested, flagged(nil), verdict{known: true, stop: stopForCheckpoint}},
		"one leaves":      {leaving, false, nil, flagged(nil), verdict{known: true}},
		"both leave":      {leaving, false, nil, flagged(map[int]float32{laneStop: 1}), verdict{known: true, stop: stopAsked}},
		"a change":        {quiet, false, nil, flagged(map[int]float32{laneChange: 1}), verdict{known: true, change: true}},
		"a wish":          {quiet, false, nil, flagged(map[int]float32{laneWish: 1, laneLocalBatch: 48, laneAccumulation: 3}), verdict{known: true, wish: true, batch: batch{48, 3}}},
		"an earlier step": {quiet, false, nil, stale, verdict{}},
	} {
		f := &fakeRounds{others: [][]float32{c.other}, weights: 2}
		a, err := newAgreement(t.Context(), f, false, c.request)
		if err != nil {
			t.Fatal(err)
		}
		a.env = c.env
		if c.asked {
			a.ask()
		}
		a.begin(t.Context(), 4, f)
		if got, err := a.end(); err != nil || got != c.want {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, c.want)
		}
	}
}

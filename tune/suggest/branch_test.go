package suggest

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A branch that looks worst at first since its own parameters are not yet searched gets trials for as long as it improves, and ends as the one with
// the most; no branch is given up.
func TestBranchesGetWhatTheyPromise(t *testing.T) {
	notUnderRace(t)
	var p suggesttest.Problem
	for _, q := range suggesttest.Tuning() {
		if q.Name == "three branches" {
			p = q
		}
	}
	counts := make(map[string]int)
	for seed := range uint64(6) {
		_, v, err := p.Run(&TPE{}, 100, 4, seed)
		if err != nil {
			t.Fatal(err)
		}
		here := make(map[string]int)
		for trial := range v.Trials() {
			branch := trial.Params.Text("branch")
			here[branch]++
			counts[branch]++
		}
		for _, branch := range []string{"wide", "narrow", "poor"} {
			if here[branch] < 3 {
				t.Errorf("seed %d: branch %s got %d of 100 trials, want at least 3", seed, branch, here[branch])
			}
		}
	}
	t.Log(counts)
	if counts["narrow"] < counts["wide"] || counts["narrow"] < 3*counts["poor"] {
		t.Errorf("the narrow branch, which is best, got %d trials, the wide one %d, the poor one %d", counts["narrow"], counts["wide"], counts["poor"])
	}
}

// The n best records are those that sorting finds, in its order.
func TestTheBestRecordsAreThoseOfASort(t *testing.T) {
	rng := randFor("best records")
	for range 200 {
		recs := make([]record, rng.IntN(40))
		for i := range recs {
			recs[i] = record{number: i, state: recordState(rng.IntN(4)), score: float64(rng.IntN(6)), step: rng.IntN(3)}
			if rng.IntN(10) == 0 {
				recs[i].score = math.NaN()
			}
		}
		var want []int
		for i := range recs {
			if recs[i].finished() {
				want = append(want, i)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int { return recs[a].compare(&recs[b]) })
		n := min(rng.IntN(12), len(want))
		got := bestOf(recs, n)
		for k, i := range got {
			if i != want[k] {
				t.Fatalf("record %d of the best %d is %+v, want %+v", k, n, recs[i], recs[want[k]])
			}
		}
		if len(got) != n {
			t.Fatalf("got %d records, want %d", len(got), n)
		}
	}
}

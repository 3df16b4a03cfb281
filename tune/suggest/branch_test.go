package suggest

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A branch that looks worst at first since its own parameters are not yet searched gets trials for
// as long as it improves, and ends as the one with the most; no branch is given up.
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

// A branch whose best two of three scores are nearly equal by chance has no expected gain, which no
// further trial then corrects. It must get trials all the same, the more the longer the search is.
func TestABranchWithoutExpectedGainDoesNotStarve(t *testing.T) {
	for _, total := range []int{100, 400} {
		rng := randFor("starving")
		scores := [][]float64{{-0.9, -0.9, -1.5}, {-0.5, -0.6, -0.8}, {-0.4, -0.5, -0.9}, {-0.3, -0.6, -0.7}}
		running := make([]int, len(scores))
		for n := 12; n < total; n++ {
			c, score := branch(scores, running, make([]bool, 4), branchExplore, rng), -0.9
			if c > 0 {
				score = -0.2 - rng.Float64()
			}
			scores[c] = append(scores[c], score)
		}
		if want := total / len(scores) / 5; len(scores[0]) < want {
			t.Errorf("the branch got %d of %d trials, want at least %d", len(scores[0]), total, want)
		}
	}
}

// A branch all of whose points were tried gets no proposals, however few there are. What a nested
// choice may still open counts as points of its branch.
func TestAFullBranchIsLeftOut(t *testing.T) {
	space := tune.Space{tune.Choice("net", "none", "one", "two"), tune.Int("layers", 1, 2).When("net", "one"),
		tune.Choice("norm", "batch", "off").When("net", "two"), tune.Real("momentum", 0, 1).When("norm", "batch")}
	m := newModel(space)
	chosen := m.blank()
	for c, want := range []float64{1, 2, math.Inf(1)} {
		chosen[0] = float64(c)
		if got := m.room(chosen); got != want {
			t.Errorf("branch %d has room for %v points, want %v", c, got, want)
		}
	}
	nan := math.NaN()
	var recs []record
	for i, x := range [][]float64{{0, nan, nan, nan}, {1, 1, nan, nan}, {1, 2, nan, nan}, {2, nan, 1, nan}, {2, nan, 0, 0.5}} {
		recs = append(recs, record{number: i, x: x, state: recordComplete, score: float64(-i)})
	}
	for i := range 20 {
		if part, _ := m.branches(recs, m.blank(), branchExplore, randFor("full"+string(rune('a'+i)))); part[0] != 2 {
			t.Fatalf("the proposal goes to branch %v, want 2, which is not full", part[0])
		}
	}
}

// A branch that is not searched yet gets a share of the proposals beside one that is better and
// whose parameters are found.
func TestABranchThatIsBehindGetsItsShare(t *testing.T) {
	space := tune.Space{tune.Choice("branch", "found", "open"), tune.Real("x", 0, 1).When("branch", "found"), tune.Real("y", 0, 1).When("branch", "open")}
	v := &tunetest.View{SearchSpace: space, Direction: tune.Min}
	add := func(branch, name string, at, y float64) {
		p, err := space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) {
			if q.Name == name {
				return at, nil
			}
			return branch, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		v.Done(p, y)
	}
	for i := range 16 {
		x := 0.5 + 1e-3*float64(i)
		add("found", "x", x, 0.3+(x-0.5)*(x-0.5))
	}
	for _, y := range []float64{0.1, 0.35, 0.6, 0.9} {
		add("open", "y", y, 1.5-y)
	}
	for name, s := range map[string]tune.Suggester{"TPE": &TPE{}, "GP": &GP{}} {
		open := 0
		for i := range 20 {
			p, err := s.Suggest(v, v.Len(), randFor(name+string(rune('a'+i))))
			if err != nil {
				t.Fatal(err)
			}
			if p.Text("branch") == "open" {
				open++
			}
		}
		if open < 4 || open > 16 {
			t.Errorf("%s: %d of 20 proposals go to the open branch, want about half", name, open)
		}
	}
}

// In a branch with three finished trials proposals do not depend on which of them was good; in one
// with more they do.
func TestABranchWithFewTrialsIsSearchedEvenly(t *testing.T) {
	space := tune.Space{tune.Choice("branch", "known", "new"), tune.Real("x", 0, 1).When("branch", "known"), tune.Real("y", 0, 1).When("branch", "new")}
	for _, few := range []int{3, 12} {
		proposals := func(turned bool) (all []float64) {
			v := &tunetest.View{SearchSpace: space, Direction: tune.Min}
			for i := range 20 + few {
				value, score := map[string]any{"branch": "known", "x": 0.5 + 1e-3*float64(i)}, 1+1e-6*float64(i)
				if k := i - 20; k >= 0 {
					value, score = map[string]any{"branch": "new", "y": (float64(k) + 0.5) / float64(few)}, 2+float64(k)
					if turned {
						score = 2 + float64(few-1-k)
					}
				}
				p, err := space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) { return value[q.Name], nil })
				if err != nil {
					t.Fatal(err)
				}
				v.Done(p, score)
			}
			for i := range 20 {
				p, err := (&TPE{}).Suggest(v, v.Len(), randFor("even"+string(rune('a'+i))))
				if err != nil {
					t.Fatal(err)
				}
				if p.Text("branch") == "new" {
					all = append(all, p.Float("y"))
				}
			}
			return all
		}
		a, b := proposals(false), proposals(true)
		if len(a) < 4 || slices.Equal(a, b) != (few < branchStartup) {
			t.Errorf("%d trials of the branch: proposals %v, with the scores the other way round %v", few, a, b)
		}
	}
}

// The scores of a branch are those of its complete, feasible trials. A trial that was pruned,
// violates constraints or has no number counts with the score -Inf, one that failed does not count.
func TestBranchScores(t *testing.T) {
	x, other, inf := []float64{1}, []float64{0}, math.Inf(-1)
	scores, running := branchScores([]record{{x: x, state: recordComplete, score: 3}, {x: x, state: recordPruned, score: 9}, {x: x, state: recordComplete, score: 9, violation: 1},
		{x: x, state: recordComplete, score: math.NaN()}, {x: x, state: recordFailed, score: 9}, {x: x}, {x: []float64{math.NaN()}, state: recordComplete, score: 9},
		{x: other, state: recordComplete, score: 4}}, 0, 2)
	if !slices.Equal(scores[1], []float64{3, inf, inf, inf}) || !slices.Equal(scores[0], []float64{4}) || !slices.Equal(running, []int{0, 1}) {
		t.Errorf("the scores are %v, with %v running", scores, running)
	}
}

// A branch's expected gain falls as its best lies further below the best of all, as its trials
// become alike, and with their number; pruned trials count in the number alone.
func TestExpectedGain(t *testing.T) {
	inf := math.Inf(-1)
	for _, tc := range []struct {
		scores  []float64
		running int
		top     float64
		want    float64
	}{
		{[]float64{-3, -2, -1}, 0, -1, 1.0 / 3},
		{[]float64{-3, -2, -1}, 1, -1, 1.0 / 4},
		{[]float64{-3, -2, -1}, 0, 0, 1.0 / 6},
		{[]float64{-3, -1.5, -1}, 0, -1, 0.5 / 3},
		{[]float64{inf, inf, inf, -3, -2, -1}, 0, -1, 1.0 / 6},
		{[]float64{inf, inf, -1}, 0, -1, 0},
		{[]float64{inf, inf, inf}, 0, -1, 0},
		{[]float64{-1, -1, -1}, 0, -1, 0},
		{[]float64{-8, -7, -6, -5, -4, -3, -2, -1}, 0, -1, 2.0 / 8},
	} {
		if got := expectedGain(tc.scores, tc.running, tc.top); !near(got, tc.want, 1e-12) {
			t.Errorf("scores %v, %d running, best of all %v: got %v, want %v", tc.scores, tc.running, tc.top, got, tc.want)
		}
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

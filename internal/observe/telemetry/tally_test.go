package telemetry

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// same compares what was counted; NaN, which is not known, is like itself.
var same = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) || math.IsNaN(a) && math.IsNaN(b) })

func TestGrowthIsWhatWasCountedMeanwhile(t *testing.T) {
	full := func(node uint64, x float64) WorkerTally {
		return WorkerTally{node, 10 * x, 4 * x, 5 * x, 6 * x, 7 * x, 8 * x, 0}
	}
	with := func(w WorkerTally, edit func(*WorkerTally)) WorkerTally { edit(&w); return w }
	for _, tc := range []struct {
		name     string
		from, to []WorkerTally
		want     []WorkerTally
	}{
		{"all counts", []WorkerTally{full(2, 1), full(5, 1)}, []WorkerTally{full(2, 3), full(5, 4)}, []WorkerTally{full(2, 2), full(5, 3)}},
		{"nothing", []WorkerTally{full(2, 1)}, []WorkerTally{full(2, 1)}, []WorkerTally{full(2, 0)}},
		{"one has come and one has gone", []WorkerTally{full(2, 1), full(5, 1)}, []WorkerTally{full(1, 1), full(5, 2), full(9, 1)}, []WorkerTally{full(5, 1)}},
		{"from before its first report on", []WorkerTally{with(full(2, 1), func(w *WorkerTally) { w.Steps, w.DataSeconds = nan, nan })}, []WorkerTally{full(2, 3)},
			[]WorkerTally{with(full(2, 2), func(w *WorkerTally) { w.Steps, w.DataSeconds = 15, 24 })}},
		{"a count went back", []WorkerTally{full(2, 2)}, []WorkerTally{with(full(2, 3), func(w *WorkerTally) { w.WaitSeconds = 1 })},
			[]WorkerTally{with(full(2, 1), func(w *WorkerTally) { w.WaitSeconds = nan })}},
		{"blamed rounds went back", []WorkerTally{full(2, 2)}, []WorkerTally{with(full(2, 3), func(w *WorkerTally) { w.BlamedRounds = 1 })}, nil},
		{"blamed seconds went back", []WorkerTally{full(2, 2)}, []WorkerTally{with(full(2, 3), func(w *WorkerTally) { w.BlamedSeconds = 1 })}, nil},
		{"a save of 1 s makes late in both shards", []WorkerTally{full(2, 1)}, []WorkerTally{with(full(2, 3), func(w *WorkerTally) { w.SaveSeconds = 1 })},
			[]WorkerTally{with(full(2, 2), func(w *WorkerTally) { w.SaveSeconds, w.BlamedSeconds = 1, 6 })}},
		{"a save explains more than all", []WorkerTally{full(2, 1)}, []WorkerTally{with(full(2, 3), func(w *WorkerTally) { w.SaveSeconds = 100 })},
			[]WorkerTally{with(full(2, 2), func(w *WorkerTally) { w.SaveSeconds, w.BlamedSeconds = 100, 0 })}},
	} {
		if diff := cmp.Diff(tc.want, growth(&Tally{Workers: tc.from}, &Tally{Workers: tc.to, Shards: 2}), same); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
	}
}

func TestStepsOfAJobAreTheMedianOfItsWorkers(t *testing.T) {
	for _, tc := range []struct {
		name        string
		grown       []WorkerTally
		steps, each float64
	}{
		{"none", nil, 0, 0},
		{"no reports", []WorkerTally{{Steps: nan, StepSeconds: nan}, {Steps: 0, StepSeconds: 3}, {Steps: 3, StepSeconds: 0}}, 0, 0},
		{"one", []WorkerTally{{Steps: 1, StepSeconds: .5}}, 1, .5},
		{"an odd number", []WorkerTally{{Steps: 9, StepSeconds: 8}, {Steps: 1, StepSeconds: 8}, {Steps: 6, StepSeconds: 8}, {Steps: nan}}, 6, 1.5},
		{"an even number", []WorkerTally{{Steps: 9, StepSeconds: 10}, {Steps: 1, StepSeconds: 10}}, 5, 2},
	} {
		if steps, each := stepsOf(tc.grown); steps != tc.steps || each != tc.each {
			t.Errorf("%s: got %g steps of %g s, want %g of %g", tc.name, steps, each, tc.steps, tc.each)
		}
	}
}

func TestTheOthersWaitForTheirMedian(t *testing.T) {
	waited := &Tally{Workers: []WorkerTally{{WaitSeconds: nan}, {WaitSeconds: .5}}}
	never := &Tally{Workers: []WorkerTally{{WaitSeconds: nan}, {WaitSeconds: 0}}}
	grown := []WorkerTally{{Steps: 10, WaitSeconds: 1}, {Steps: 10, WaitSeconds: 200}, {Steps: 10, WaitSeconds: 3}, {Steps: 5, WaitSeconds: 4}, {Steps: 0, WaitSeconds: 9}, {Steps: 2, WaitSeconds: nan}}
	for _, tc := range []struct {
		name  string
		to    *Tally
		grown []WorkerTally
		want  float64
		ok    bool
	}{
		{"of three", waited, grown, .3, true},
		{"never", never, grown, 0, false},
		{"no one else", waited, grown[1:2], 0, false},
		{"no one else reports", waited, []WorkerTally{grown[0], grown[1], grown[4], grown[5]}[1:], 0, false},
		{"no wait at all", waited, []WorkerTally{{Steps: 10, WaitSeconds: 0}, grown[1]}, 0, true},
	} {
		i := slices.IndexFunc(tc.grown, func(w WorkerTally) bool { return w.WaitSeconds == 200 })
		if got, ok := othersWait(tc.to, tc.grown, i); math.Abs(got-tc.want) > 1e-12 || ok != tc.ok {
			t.Errorf("%s: got %g, %t, want %g, %t", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}

// A window of the watch has leastSteps steps as the servers say and as the workers say, if they say
// anything.
func TestEnoughIsLeastStepsOnBothSides(t *testing.T) {
	for _, tc := range []struct {
		rounds, shards, made float64
		steps                float64
		want                 bool
	}{
		{16, 2, 8, 8, true}, {16, 2, 9, 8, true}, {16, 2, 0, 8, true}, {16, 2, 7, 8, false}, {15, 2, 8, 7.5, false}, {15, 2, 0, 7.5, false}, {16, 0, 8, 0, false}, {16, nan, 8, 0, false},
	} {
		a := &Tally{Rounds: 5, Workers: []WorkerTally{{Steps: 4, StepSeconds: 1}}}
		b := &Tally{Rounds: 5 + tc.rounds, Shards: tc.shards, Workers: []WorkerTally{{Steps: 4 + tc.made, StepSeconds: 2}}}
		if got := steps(a, b); got != tc.steps {
			t.Errorf("%g rounds of %g shards: got %g steps, want %g", tc.rounds, tc.shards, got, tc.steps)
		}
		if got := enough(a, b); got != tc.want {
			t.Errorf("%g rounds of %g shards, %g steps: enough is %t, want %t", tc.rounds, tc.shards, tc.made, got, tc.want)
		}
	}
}

// The watch keeps tallies that are tallyEvery and a step apart, of the last half minute.
func TestWatchKeepsTalliesThatAreApart(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration
		round float64 // in each
		n     int     // tallies that are added
		want  int     // that are kept
		first time.Duration
	}{
		{tallyEvery, 1, 20, 20, 0},
		{tallyEvery - 1, 1, 21, 11, 0},
		{tallyEvery / 4, 1, 41, 11, 0},
		{tallyEvery, .5, 21, 11, 0},
		{time.Second, 1, 100, 31, 69 * time.Second},
		{10 * time.Second, 1, 100, 12, 880 * time.Second}, // eleven steps, though they took longer
		{tallyEvery, 1, 200, 39, 161 * tallyEvery},
	} {
		w := &SlowWatch{}
		for i := range tc.n {
			w.Add(Tally{At: time.Duration(i) * tc.every, Rounds: float64(i) * tc.round, Shards: 1})
		}
		if len(w.tallies) != tc.want || w.tallies[0].At != tc.first {
			t.Errorf("every %v, %g rounds: of %d tallies %d are kept, from %v on; want %d from %v on", tc.every, tc.round, tc.n, len(w.tallies), w.tallies[0].At, tc.want, tc.first)
		}
	}
	for name, t2 := range map[string]Tally{"time went back": {At: 1, Rounds: 9, Shards: 1}, "rounds went back": {At: 9, Rounds: 1, Shards: 1}} {
		w := &SlowWatch{}
		w.Add(Tally{At: 0, Rounds: 0, Shards: 1})
		w.Add(Tally{At: 5, Rounds: 5, Shards: 1})
		if w.Add(t2); len(w.tallies) != 1 {
			t.Errorf("%s: %d tallies are kept, want the newest alone", name, len(w.tallies))
		}
	}
	w := &SlowWatch{}
	w.Add(Tally{At: 5, Rounds: 5, Shards: 1})
	if w.Add(Tally{At: 5, Rounds: 5, Shards: 1}); len(w.tallies) != 2 {
		t.Errorf("the same again: %d tallies are kept, want 2", len(w.tallies))
	}
}

// Student's t of d+1 degrees of freedom exceeds studentT[d] once in 500 times. The density is
// integrated from there to infinity, with t = √ν·tan a.
func TestStudentTIsExceededOnceIn500(t *testing.T) {
	for d, x := range studentT {
		v := float64(d + 1)
		half, _ := math.Lgamma((v + 1) / 2)
		whole, _ := math.Lgamma(v / 2)
		factor := math.Exp(half-whole) / math.Sqrt(math.Pi)
		from, n := math.Atan(x/math.Sqrt(v)), 2000
		width := (math.Pi/2 - from) / float64(n)
		p := 0.0
		for i := range n {
			p += factor * math.Pow(math.Cos(from+(float64(i)+.5)*width), v-1) * width
		}
		if math.Abs(p*500-1) > .01 {
			t.Errorf("%g degrees of freedom: %g is exceeded with a probability of %.5f, want 0.002", v, x, p)
		}
	}
}

func TestALateSampleWeighsByItsSteps(t *testing.T) {
	of := func(list ...float64) (l lateSample) { // pairs of lateness and steps
		for i := 0; i < len(list); i += 2 {
			l.add(list[i], list[i+1])
		}
		return l
	}
	for _, tc := range []struct {
		name   string
		l      lateSample
		mean   float64
		steady bool
	}{
		{"none", of(), 0, false},
		{"not known", of(nan, 3, math.Inf(1), 3, math.Inf(-1), 3, 5, 0, 5, nan, 5, -1), 0, false},
		{"two", of(1, 2, 1, 2), 1, false},
		{"three alike", of(1, 2, 1, 2, 1, 2), 1, true},
		{"three alike, early", of(-1, 2, -1, 2, -1, 2), -1, false},
		{"none late", of(0, 2, 0, 2, 0, 2), 0, false},
		{"by steps", of(1, 1, 2, 3), 1.75, false},
		// Of two degrees of freedom: the mean 1 against 15.76 times √(variance/weight),
		// here √(2d²/2/3).
		{"three that vary a little", of(1, 1, 1-.1, 1, 1+.1, 1), 1, true},
		{"three that vary more", of(1, 1, 1-.12, 1, 1+.12, 1), 1, false},
		// Of three degrees of freedom: 8.05 times √(4d²/3/4).
		{"four that vary a little", of(1-.21, 1, 1-.21, 1, 1+.21, 1, 1+.21, 1), 1, true},
		{"four that vary more", of(1-.22, 1, 1-.22, 1, 1+.22, 1, 1+.22, 1), 1, false},
	} {
		if got := tc.l.mean(); math.Abs(got-tc.mean) > 1e-12 || tc.l.isSteady() != tc.steady {
			t.Errorf("%s: got mean %g, steady %t, want %g, %t", tc.name, got, tc.l.isSteady(), tc.mean, tc.steady)
		}
	}
}

// steadyJob are five tallies of workers that make 100 steps of 80 ms, each of two shards' rounds.
// The first worker is charged with a share of the rounds, a gap each, and computes 20 ms longer;
// the others share the rest.
func steadyJob(workers int, rounds, share, gap float64) (list []Tally) {
	for i := range 5 {
		x := float64(i) / 4
		t := Tally{At: 100*time.Second + time.Duration(8e9*x), Rounds: 1000 + 2*rounds*x, Shards: 2}
		for k := range workers {
			w := WorkerTally{Node: uint64(7 + k), Steps: 500 + rounds*x, StepSeconds: 50 + .08*rounds*x, WaitSeconds: 4 + .024*rounds*x, DataSeconds: 3 + .004*rounds*x, SaveSeconds: nan}
			part := (1 - share) / float64(workers-1)
			w.BlamedRounds, w.BlamedSeconds = 9+2*rounds*part*x, 5+2*rounds*part*x*.001
			if k == 0 {
				w.WaitSeconds = 4 + .004*rounds*x
				w.BlamedRounds, w.BlamedSeconds = 300+2*rounds*share*x, 5+2*rounds*share*x*gap
			}
			t.Workers = append(t.Workers, w)
		}
		list = append(list, t)
	}
	return list
}

// All that is told of a slow worker is what the tallies say of the time between the first and the
// last of them.
func TestASlowWorkerIsToldByItsNumbers(t *testing.T) {
	want := Slow{Node: 7, Share: .8, Rounds: 100, Gap: .02, Steps: 100, Seconds: 8, StepSeconds: .08, Cause: CauseCompute, Ratio: .072 / .052}
	for _, tc := range []struct {
		name string
		edit func(list []Tally)
		want func(s *Slow)
	}{
		{"compute", func([]Tally) {}, func(*Slow) {}},
		{"the others wait for less than the gap", func(list []Tally) {
			for i := range list {
				for k := 1; k < 3; k++ {
					list[i].Workers[k].WaitSeconds -= .008 * 100 * float64(i) / 4
				}
			}
		}, func(s *Slow) { s.Gap, s.Ratio = .016, .072/.06 }},
		{"no reports", func(list []Tally) {
			for i := range list {
				for k := range list[i].Workers {
					w := &list[i].Workers[k]
					w.Steps, w.StepSeconds, w.WaitSeconds, w.DataSeconds = nan, nan, nan, nan
				}
			}
		}, func(s *Slow) { s.Cause, s.Ratio = "", 0 }},
		{"two steps a round", func(list []Tally) {
			for i := range list {
				for k := range list[i].Workers {
					w, x := &list[i].Workers[k], 100*float64(i)/4
					w.Steps, w.StepSeconds, w.DataSeconds = 500+2*x, 50+.08*x, 3
					w.WaitSeconds = 4 + .024*x
					if k == 0 {
						w.WaitSeconds = 4 + .004*x
					}
				}
			}
		}, func(s *Slow) { s.Steps, s.StepSeconds, s.Ratio = 200, .04, .038/.028 }},
		{"data", func(list []Tally) {
			for i := range list {
				list[i].Workers[0].DataSeconds = 3 + .024*100*float64(i)/4
			}
		}, func(s *Slow) { s.Cause, s.Ratio = CauseData, 6 }},
	} {
		list, want := steadyJob(3, 100, .8, .02), want
		tc.edit(list)
		tc.want(&want)
		if got, ok := FindSlow(list); !ok || !cmp.Equal(got, want, same) {
			t.Errorf("%s: got %+v, %t, want %+v", tc.name, got, ok, want)
		}
	}
}

// Each part of the rule, just kept and just not.
func TestTheRuleOfSlowWorkersHasItsBounds(t *testing.T) {
	for _, tc := range []struct {
		name               string
		workers            int
		rounds, share, gap float64

		// With these no one is named.
		rounds2, share2, g2 float64
	}{
		{"least steps", 3, 8, 1, .02, 7.9, 1, .02},
		{"share of three", 3, 100, .68, .02, 100, .66, .02},
		{"share of two", 2, 100, .76, .02, 100, .74, .02},
		{"share of eight", 8, 1000, .51, .02, 1000, .49, .02},
		{"gap", 3, 100, .8, .0041, 100, .8, .0039},
		{"chance, of two in ten steps", 2, 10, .95, .02, 10, .85, .02},
	} {
		if s, ok := FindSlow(steadyJob(tc.workers, tc.rounds, tc.share, tc.gap)); !ok || s.Node != 7 {
			t.Errorf("%s: with share %g and gap %g of %g steps got %+v, %t, want node 7", tc.name, tc.share, tc.gap, tc.rounds, s, ok)
		}
		if s, ok := FindSlow(steadyJob(tc.workers, tc.rounds2, tc.share2, tc.g2)); ok {
			t.Errorf("%s: with share %g and gap %g of %g steps got %+v, want no one", tc.name, tc.share2, tc.g2, tc.rounds2, s)
		}
	}
	if _, ok := FindSlow(steadyJob(3, 100, .8, .02)[1:]); !ok {
		t.Error("in three parts of the time: no one is named")
	}
	alone := steadyJob(3, 100, 1, .02)
	for i := range alone {
		alone[i].Workers = alone[i].Workers[:1]
	}
	if s, ok := FindSlow(alone); ok {
		t.Errorf("one worker: got %+v, want no one", s)
	}

	// The share is of all rounds of both shards, and half of a shard's are wanted.
	for charged, want := range map[float64]bool{.26: true, .24: false} {
		list := steadyJob(3, 100, 1, .02)
		for i := range list {
			w := &list[i].Workers[0]
			w.BlamedRounds, w.BlamedSeconds = 200*charged*float64(i)/4, 4*charged*float64(i)/4
		}
		if s, ok := FindSlow(list); ok != want {
			t.Errorf("%g of the rounds are charged to someone: got %+v, %t, want %t", charged, s, ok, want)
		}
	}
}

// A cause is a part that explains half of the lateness. Reports that cannot be explain nothing.
func TestACauseExplainsHalfOfTheLateness(t *testing.T) {
	plain := func() []WorkerTally {
		return []WorkerTally{{Steps: 10, StepSeconds: 10, WaitSeconds: 1, DataSeconds: 2, SaveSeconds: 1}, {Steps: 10, StepSeconds: 10, WaitSeconds: 3, DataSeconds: 1, SaveSeconds: nan},
			{Steps: 5, StepSeconds: 5, WaitSeconds: 1.5, DataSeconds: .5, SaveSeconds: 0}}
	}
	for _, tc := range []struct {
		name  string
		edit  func(g []WorkerTally)
		late  float64
		cause string
		ratio float64
	}{
		{"data, a tenth of a second longer", func([]WorkerTally) {}, .2, CauseData, 2},
		{"data explains less than half", func([]WorkerTally) {}, .2 + 1e-9, CauseNetwork, 0},
		{"compute", func(g []WorkerTally) { g[0].WaitSeconds = 0 }, .1, CauseData, 2},
		{"more compute", func(g []WorkerTally) { g[0].WaitSeconds, g[0].SaveSeconds = 0, 0 }, .1, CauseCompute, .8 / .6},
		{"compute alone", func(g []WorkerTally) { g[0].WaitSeconds, g[0].DataSeconds = 0, 1 }, .4, CauseCompute, .8 / .6},
		{"no steps of its own", func(g []WorkerTally) { g[0].Steps = 0 }, .1, "", 0},
		{"no reports of its own", func(g []WorkerTally) { g[0].StepSeconds = nan }, .1, "", 0},
		{"none of the others", func(g []WorkerTally) { g[1].StepSeconds, g[2].Steps = nan, 0 }, .1, "", 0},
		{"one of the others made no step", func(g []WorkerTally) { g[1].Steps, g[1].WaitSeconds = 0, 30 }, .2, CauseData, 2},
		{"of one of the others", func(g []WorkerTally) { g[1].StepSeconds = nan }, .2, CauseData, 2},
	} {
		g := plain()
		tc.edit(g)
		if cause, ratio := causeOf(g, 0, tc.late); cause != tc.cause || math.Abs(ratio-tc.ratio) > 1e-9 {
			t.Errorf("%s: got %q, %g, want %q, %g", tc.name, cause, ratio, tc.cause, tc.ratio)
		}
	}
}

// By how much a worker is late in a round is its own time in the steps of one, and when its
// contributions came.
func TestLatenessIsOfARound(t *testing.T) {
	for _, steps := range []float64{1, 2} {
		own, late := lateness(steadyJob(3, 100, .8, .02), 7, steps)
		if own.parts != 4 || math.Abs(own.weight-100) > 1e-9 || math.Abs(own.mean()-.02*steps) > 1e-9 {
			t.Errorf("%g steps a round: its own: got %+v with mean %g, want 100 steps in 4 parts with %g", steps, own, own.mean(), .02*steps)
		}
		if want := .8*.02 - .2*.001; late.parts != 4 || math.Abs(late.weight-200) > 1e-9 || math.Abs(late.mean()-want) > 1e-9 {
			t.Errorf("%g steps a round: got %+v with mean %g, want 200 rounds in 4 parts with %g", steps, late, late.mean(), want)
		}
	}
}

// A worker that was slow goes on being so while it costs half of what it did.
func TestASlowWorkerGoesOnWhileItCostsHalf(t *testing.T) {
	// It is 16 ms of each round, less what the others are charged with: 0.2 ms.
	list := steadyJob(3, 100, .8, .02)
	for gap, want := range map[float64]bool{.03: true, .039: true, .04: false} {
		s := Slow{Node: 7, Gap: gap, Share: .8}
		if got := s.goesOn(list); got != want {
			t.Errorf("after a gap of %g s: goes on is %t, want %t", gap, got, want)
		}
	}
}

// The watch names who is slow as soon as all that it knows is enough.
func TestWatchJudgesByAllThatItKnows(t *testing.T) {
	for steps, want := range map[float64]bool{8: true, 7.9: false} {
		w := &SlowWatch{}
		for _, tally := range steadyJob(3, steps, 1, .02) {
			w.Add(tally)
		}
		if s, ok := w.Slow(); ok != want || ok && s.Node != 7 {
			t.Errorf("%g steps in five tallies: got %+v, %t, want node 7: %t", steps, s, ok, want)
		}
	}
}

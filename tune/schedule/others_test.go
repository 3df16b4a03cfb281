package schedule

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func TestPercentileMatchesOptunasMedian(t *testing.T) {
	oracle := readOracle(t)
	for order, p := range play(func() tune.Scheduler { return &Percentile{} }, series(t)) {
		var want map[string][2]any
		into(t, oracle["optuna_median_"+order], &want)
		for key, w := range want {
			n, _ := strconv.Atoi(key)
			state := tune.Pruned
			if w[0] == "complete" {
				state = tune.Completed
			}
			if got := p.All[n]; got.State != state || float64(lastStep(got)) != w[1] {
				t.Errorf("%s trial %d: got %s at %d, want %v", order, n, got.State, lastStep(got), w)
			}
		}
	}
}

// decide reports values of one trial after others, and returns the last decision.
func decide(s tune.Scheduler, mode tune.Mode, curves ...[]float64) tune.Decision {
	v := &tunetest.View{Direction: mode}
	var d tune.Decision
	for _, c := range curves {
		t := v.Add(tune.Params{})
		s.Started(v, t.Number)
		for i, x := range c {
			v.Report(t, i+1, x)
			d = s.Reported(v, t.Number, tunetest.Rand(1))
		}
		v.End(t, tune.Completed)
		s.Ended(v, t.Number)
	}
	return d
}

func TestMedianStopping(t *testing.T) {
	others := [][]float64{{1, 2, 3}, {2, 4, 6}, {3, 6, 9}} // running means at 2: 1.5, 3, 4.5
	for _, tc := range []struct {
		name   string
		s      tune.Scheduler
		mode   tune.Mode
		curves [][]float64
		want   tune.Action
		cutoff float64
	}{
		{"worse", &MedianStopping{}, tune.Max, append(slices.Clone(others), []float64{1, 2.9}), tune.Stop, 3},
		{"not worse", &MedianStopping{}, tune.Max, append(slices.Clone(others), []float64{1, 3}), tune.Continue, 3},
		{"best so far counts", &MedianStopping{}, tune.Max, append(slices.Clone(others), []float64{3, 0}), tune.Continue, 3},
		{"small is good", &MedianStopping{}, tune.Min, append(slices.Clone(others), []float64{4, 3.1}), tune.Stop, 3},
		{"grace", &MedianStopping{Grace: 2}, tune.Max, append(slices.Clone(others), []float64{0, 3.9}), tune.Stop, 4},
		{"too few", &MedianStopping{MinTrials: 4}, tune.Max, append(slices.Clone(others), []float64{0, 0}), tune.Continue, 0},
	} {
		d := decide(tc.s, tc.mode, tc.curves...)
		if d.Action != tc.want || tc.cutoff != 0 && d.Cutoff != tc.cutoff {
			t.Errorf("%s: got %s at cutoff %v, want %s at %v", tc.name, d.Action, d.Cutoff, tc.want, tc.cutoff)
		}
	}
}

func TestPercentileOptions(t *testing.T) {
	others := [][]float64{{10, 10, 10}, {20, 20, 20}, {30, 30, 30}, {40, 40, 40}, {50, 50, 50}}
	for _, tc := range []struct {
		name string
		s    *Percentile
		mode tune.Mode
		last []float64
		want tune.Action
	}{
		{"best quarter of five is above 40", &Percentile{Percent: 25}, tune.Max, []float64{39}, tune.Stop},
		{"at the cutoff it goes on", &Percentile{Percent: 25}, tune.Max, []float64{40}, tune.Continue},
		{"small is good", &Percentile{Percent: 25}, tune.Min, []float64{21}, tune.Stop},
		{"startup", &Percentile{Startup: 6}, tune.Max, []float64{0}, tune.Continue},
		{"warmup", &Percentile{Warmup: 3}, tune.Max, []float64{0, 0}, tune.Continue},
		{"at warmup", &Percentile{Warmup: 3}, tune.Max, []float64{0, 0, 0}, tune.Stop},
		{"between looks", &Percentile{Warmup: 2, Interval: 2}, tune.Max, []float64{60, 0, 0}, tune.Continue},
		{"few at the step", &Percentile{MinTrials: 6}, tune.Max, []float64{0}, tune.Continue},
	} {
		if d := decide(tc.s, tc.mode, append(slices.Clone(others), tc.last)...); d.Action != tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, d, tc.want)
		}
	}
}

func TestPatience(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    *Patience
		last []float64
		want tune.Action
	}{
		{"improves", &Patience{Reports: 1}, []float64{1, 2, 3}, tune.Continue},
		{"stays", &Patience{Reports: 1}, []float64{3, 2, 1}, tune.Stop},
		{"equal is not worse", &Patience{Reports: 1}, []float64{3, 2, 3}, tune.Continue},
		{"by too little", &Patience{Reports: 1, MinDelta: 0.5}, []float64{3, 2, 3.4}, tune.Stop},
		{"too early", &Patience{Reports: 2}, []float64{3, 2, 1}, tune.Continue},
		{"inner stops", &Patience{Reports: 0, Inner: &Threshold{Lower: 2}}, []float64{3, 1}, tune.Stop},
		{"inner would, but it improves", &Patience{Reports: 0, Inner: &Threshold{Lower: 2}}, []float64{0.5, 1}, tune.Continue},
		{"inner does not", &Patience{Reports: 0, Inner: &Threshold{Lower: 2}}, []float64{4, 3}, tune.Continue},
	} {
		if d := decide(tc.s, tune.Max, tc.last); d.Action != tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, d, tc.want)
		}
	}
}

func TestThresholdAndCombinations(t *testing.T) {
	low, high := &Threshold{Lower: 2}, &Threshold{Upper: 5, Warmup: 2}
	for _, tc := range []struct {
		name string
		s    tune.Scheduler
		last []float64
		want tune.Action
	}{
		{"inside", low, []float64{2}, tune.Continue},
		{"below", low, []float64{1.9}, tune.Stop},
		{"above, in warmup", high, []float64{6}, tune.Continue},
		{"above", high, []float64{1, 6}, tune.Stop},
		{"zero bound", &Threshold{HasLower: true}, []float64{-1}, tune.Stop},
		{"any", Any{low, high}, []float64{1}, tune.Stop},
		{"all", All{low, high}, []float64{1}, tune.Continue},
		{"all of two that agree", All{low, &Threshold{Lower: 3}}, []float64{1}, tune.Stop},
		{"any with a pause", Any{low, &ASHA{Rule: Promotion, MaxStep: 9}}, []float64{4}, tune.Pause},
	} {
		if d := decide(tc.s, tune.Max, tc.last); d.Action != tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, d, tc.want)
		}
	}
	if err := (Any{&ASHA{}}).Validate(); err == nil {
		t.Error("Any with a wrong ASHA: no error")
	}
	if err := (All{nil}).Validate(); err == nil {
		t.Error("All with nil: no error")
	}
}

func TestPruners(t *testing.T) {
	v := &tunetest.View{}
	for _, x := range []float64{0.5, 0.9001, 0.9, 0.9002} {
		v.Done(tune.Params{}, x)
	}
	a := v.Add(tune.Params{})
	for i, x := range []float64{0.1, 0.7, 0.701, 0.7, 0.7} {
		v.Report(a, i+1, x)
	}
	trial, study := tune.StopDecision{Trial: tune.Complete}, tune.StopDecision{StopAll: true}
	for _, tc := range []struct {
		name string
		s    tune.Pruner
		want tune.StopDecision
	}{
		{"step", MaxStep(5), trial},
		{"below step", MaxStep(6), tune.StopDecision{}},
		{"reached", Reached{Value: 0.7}, tune.StopDecision{Trial: tune.Complete, StopAll: true}},
		{"reached by the trial", Reached{Value: 0.7, TrialOnly: true}, trial},
		{"not reached", Reached{Value: 0.71}, tune.StopDecision{}},
		{"plateau", TrialPlateau{}, trial},
		{"no plateau", TrialPlateau{Reports: 5}, tune.StopDecision{}},
		{"plateau below level", TrialPlateau{Level: 0.8, HasLevel: true}, tune.StopDecision{}},
		{"plateau in grace", TrialPlateau{Grace: 6}, tune.StopDecision{}},
		{"study plateau", &StudyPlateau{Top: 3}, study},
		{"study plateau too early", &StudyPlateau{Top: 3, Patience: 1}, tune.StopDecision{}},
		{"no study plateau", &StudyPlateau{Top: 4}, tune.StopDecision{}},
		{"study time", StudyTime(13 * time.Second), study},
		{"study time left", StudyTime(14 * time.Second), tune.StopDecision{}},
		{"trial time", TrialTime(5 * time.Second), trial},
		{"trial time left", TrialTime(6 * time.Second), tune.StopDecision{}},
		{"number", Number(4), study},
		{"number left", Number(5), tune.StopDecision{}},
		{"any", AnyPruner{MaxStep(5), Number(4)}, tune.StopDecision{Trial: tune.Complete, StopAll: true}},
		{"all", AllPruners{MaxStep(5), Number(4)}, tune.StopDecision{}},
		{"all agree", AllPruners{MaxStep(5), TrialTime(time.Second)}, trial},
		{"func", PruneFunc(func(v tune.View, trial int) tune.StopDecision { return tune.StopDecision{Trial: tune.Stop} }), tune.StopDecision{Trial: tune.Stop}},
	} {
		got := tc.s.Prune(v, a.Number)
		if got.Trial != tc.want.Trial || got.StopAll != tc.want.StopAll {
			t.Errorf("%s: got %+v, want %+v (at %v)", tc.name, got, tc.want, v.Now)
		}
		if (got.Trial != "" || got.StopAll) && got.Rule == "" && tc.name != "func" {
			t.Errorf("%s: no rule", tc.name)
		}
	}
}

// The median rule keeps its means by step as reports come; it must decide as the plain rule does,
// also with trials that skip steps and report in any order.
func TestMedianStoppingEqualsItsDefinition(t *testing.T) {
	rng := tunetest.Rand(9)
	v := &tunetest.View{}
	m := &MedianStopping{Grace: 2}
	next := make([]int, 12)
	for range next {
		v.Add(tune.Params{})
	}
	stops := 0
	for range 400 {
		n := rng.IntN(len(next))
		trial := v.All[n]
		next[n] += 1 + rng.IntN(3)
		v.Report(trial, next[n], rng.Float64()+float64(n)/10)
		got := m.Reported(v, n, nil)

		var means []float64
		for _, o := range v.All {
			if o == trial || lastStep(o) < next[n] {
				continue
			}
			sum, count := 0.0, 0
			for _, r := range o.Reports {
				if r.Step >= 2 && r.Step <= next[n] {
					sum, count = sum+r.Value, count+1
				}
			}
			if count > 0 {
				means = append(means, sum/float64(count))
			}
		}
		slices.Sort(means)
		want := tune.Continue
		if len(means) >= 3 && next[n] >= 2 {
			median := (means[(len(means)-1)/2] + means[len(means)/2]) / 2
			if !near(got.Cutoff, median, 1e-12) {
				t.Fatalf("trial %d at %d: cutoff %v, want %v", n, next[n], got.Cutoff, median)
			}
			if trial.Reports[trial.Best].Value < median {
				want = tune.Stop
				stops++
			}
		}
		if got.Action != want {
			t.Fatalf("trial %d at %d: got %+v, want %s", n, next[n], got, want)
		}
	}
	if stops == 0 {
		t.Error("nothing was ever to be stopped")
	}
}

package schedule

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/adapt/allocate"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// What judges by one metric says so, and what combines others says so if one of them does.
func TestWhatJudgesByOneMetricSaysSo(t *testing.T) {
	free := &Goodput{}
	for _, tc := range []struct {
		s    tune.SingleObjective
		want bool
	}{
		{&ASHA{}, true}, {&Predict{}, true}, {&Hyperband{}, true}, {&OptunaHyperband{}, true}, {&MedianStopping{}, true}, {&Percentile{}, true}, {&Patience{}, true}, {&Threshold{}, true},
		{&PBT{}, true}, {Reached{}, true}, {TrialPlateau{}, true}, {&StudyPlateau{}, true},
		{free, false}, {&Goodput{Inner: &ASHA{}}, true}, {Any{}, false}, {Any{free}, false}, {Any{free, &ASHA{}}, true}, {All{free}, false}, {All{free, &Patience{}}, true},
		{AnyPruner{MaxStep(1), Number(1)}, false}, {AnyPruner{MaxStep(1), Reached{}}, true}, {AllPruners{StudyTime(1)}, false}, {AllPruners{StudyTime(1), TrialPlateau{}}, true},
	} {
		if got := tc.s.SingleObjective(); got != tc.want {
			t.Errorf("%T%+v: judges by one metric: %t, want %t", tc.s, tc.s, got, tc.want)
		}
	}
}

// Each field is taken at its bounds and refused beyond them, whatever the others are.
func TestFieldsAreTakenWithinTheirBounds(t *testing.T) {
	type validator interface{ Validate() error }
	factors := func(a, b float64) *PBT { return &PBT{Explore: Explore{Factors: [2]float64{a, b}}} }
	for _, tc := range []struct {
		s  validator
		ok bool
	}{
		{&ASHA{MaxStep: 9, MinStep: 9}, true}, {&ASHA{MaxStep: 1}, true}, {&ASHA{Rule: OptunaRule}, true}, {&ASHA{Rule: Promotion}, false}, {&ASHA{Rule: DeterminedRule}, false},
		{&ASHA{MaxStep: 9, Eta: 1}, false}, {&ASHA{MaxStep: 9, Eta: 1.01}, true}, {&ASHA{MaxStep: 9, Eta: math.NaN()}, false},
		{&ASHA{MaxStep: 9, MinStep: -1}, false}, {&ASHA{MaxStep: 9, Rungs: -1}, false}, {&ASHA{MaxStep: 9, Brackets: -1}, false},
		{&ASHA{MaxStep: 9, Brackets: 3}, true}, {&ASHA{MaxStep: 9, Brackets: 4}, false}, {&ASHA{MaxStep: 9, MinStep: 3, Brackets: 2}, true}, {&ASHA{MaxStep: 9, MinStep: 3, Brackets: 3}, false},
		{&ASHA{MaxStep: 9, Rule: DeterminedRule, Brackets: 1}, true}, {&ASHA{MaxStep: 9, Brackets: 2, BracketRule: BracketsByCount}, true},
		{&Predict{}, true}, {&Predict{Best: 5}, true}, {&Predict{Probability: 1}, false}, {&Predict{Best: -1}, false}, {&Predict{MinTrials: 2}, false}, {&Predict{MinTrials: 3}, true},
		{&PBT{}, true}, {&PBT{Quantile: .5}, true}, {&PBT{Quantile: .51}, false}, {&PBT{Quantile: -.1}, false}, {&PBT{Population: -1}, false}, {&PBT{Interval: -1}, false}, {&PBT{BurnIn: -1}, false},
		{&PBT{Explore: Explore{Resample: 1}}, true}, {&PBT{Explore: Explore{Resample: 1.1}}, false}, {factors(1, 0), true}, {factors(0, 1), true}, {factors(-1, 1), false}, {factors(1, -1), false},
		{&Percentile{}, true}, {&Percentile{Percent: 100}, true}, {&Percentile{Percent: 101}, false}, {&Percentile{Percent: -1}, false}, {&Percentile{Warmup: -1}, false}, {&Percentile{Interval: -1}, false},
		{&Patience{}, true}, {&Patience{Reports: -1}, false}, {&Patience{MinDelta: -1}, false}, {&Patience{Inner: &ASHA{}}, false}, {&Patience{Inner: &ASHA{MaxStep: 1}}, true},
		{&Goodput{}, true}, {&Goodput{MinReplicas: 2, MaxReplicas: 2}, true}, {&Goodput{MinReplicas: 2}, true}, {&Goodput{MaxReplicas: -1}, false}, {&Goodput{Pinned: []int{0, 3}}, true},
		{&Goodput{Pinned: []int{0, -1}}, false}, {&Goodput{Completion: true}, true}, {&Goodput{Fairness: .5}, true}, {&Goodput{Inner: &ASHA{MaxStep: 1}}, true},
		{Any{&ASHA{MaxStep: 1}}, true}, {Any{&ASHA{MaxStep: 1}, nil}, false}, {All{&Goodput{}}, false},
	} {
		if err := tc.s.Validate(); (err == nil) != tc.ok {
			t.Errorf("%T%+v: got %v, want it taken: %t", tc.s, tc.s, err, tc.ok)
		}
	}
}

// Percentiles are numpy's.
func TestPercentilesAreInterpolated(t *testing.T) {
	var r rung
	if got := r.percentile(50); !math.IsNaN(got) {
		t.Errorf("of no values: got %v, want NaN", got)
	}
	for i, x := range []float64{4, 1, 10, 2} {
		r.insert(entry{i, x}, false)
	}
	for q, want := range map[float64]float64{0: 1, 10: 1.3, 25: 1.75, 50: 3, 100. / 3: 2, 60: 3.6, 75: 5.5, 90: 8.2, 100: 10} {
		if got := r.percentile(q); !near(got, want, 1e-12) {
			t.Errorf("percentile %v: got %v, want %v", q, got, want)
		}
	}
	if got := r.best(); !slices.Equal(got, []int{2, 0, 3, 1}) {
		t.Errorf("best first: got trials %v", got)
	}
	for i := range 20 {
		r.insert(entry{10 + i, 0}, false)
	}
	if got := r.best(); len(got) != 12 {
		t.Errorf("of many: got %d trials, want 12", len(got))
	}
}

func TestRungsGrowByAFactor(t *testing.T) {
	for _, tc := range []struct {
		least, top, eta float64
		s               int
		want            []float64
	}{
		{1, 27, 3, 0, []float64{1, 3, 9, 27}}, {1, 27, 3, 1, []float64{3, 9, 27}}, {2, 53, 3, 0, []float64{2, 6, 18}}, {2, 54, 3, 0, []float64{2, 6, 18, 54}}, {5, 5, 3, 0, []float64{5}},
		{1, 27, 3, 4, nil}, {1, 27, 3, 5, nil}, {0, 27, 3, 0, nil}, {1, 27, 1, 0, nil}, {5, 4, 3, 0, nil}, {-1, 9, 3, 0, nil},
	} {
		got := rungLevels(tc.least, tc.top, tc.eta, tc.s)
		if !slices.EqualFunc(got, tc.want, func(a, b float64) bool { return near(a, b, 1e-9) }) {
			t.Errorf("from %v to %v by %v, without %d: got %v, want %v", tc.least, tc.top, tc.eta, tc.s, got, tc.want)
		}
	}
	byCount, err := bracketWeights(BracketsByCount, []float64{1, 3, 9}, 3)
	sum := 1 + math.Exp(-1) + math.Exp(-2)
	if err != nil || !near(byCount[0], 1/sum, 1e-12) || !near(byCount[1], math.Exp(-1)/sum, 1e-12) || !near(byCount[2], math.Exp(-2)/sum, 1e-12) {
		t.Errorf("by their number of rungs: got %v, %v", byCount, err)
	}
	for rule, want := range map[string][]float64{Stopping: {1, 3, 9}, DeterminedRule: {1, 3, 9}} {
		a := &ASHA{Rule: rule, MaxStep: 27, Rungs: 4}
		a.setup(&tunetest.View{})
		var got []float64
		for _, r := range a.brackets[0].rungs {
			got = append(got, r.level)
		}
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return near(a, b, 1e-9) }) {
			t.Errorf("rule %q: got rungs %v, want %v", rule, got, want)
		}
	}
	five := (&ASHA{Rule: DeterminedRule, MaxStep: 100000}).determinedRungs()
	if len(five.rungs) != 4 || five.rungs[0].level != 1234 || five.rungs[3].level != 33333 {
		t.Errorf("determined rungs to 100000: got %+v, want 1234 to 33333, four below the last step", five.rungs)
	}
}

// A trial's bracket depends on the study's seed and its number alone: SplitMix64's numbers.
func TestBracketsAreDrawnByAHash(t *testing.T) {
	const golden = 0x9e3779b97f4a7c15
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		state := uint64(golden)
		if got := mix(state * uint64(i)); got != want {
			t.Errorf("number %d of seed 0: got %#x, want %#x", i, got, want)
		}
	}
	if got := pick([]float64{.5, .25, 0}, 1, 1); got < 0 || got > 2 {
		t.Errorf("weights below 1: got %d", got)
	}
	drawn := ""
	for trial := range 40 {
		drawn += fmt.Sprint(pick([]float64{.4, .3, .3}, 7, trial))
	}
	if want := "0110002010222000002011001222021211202002"; drawn != want {
		t.Errorf("of three brackets with seed 7: got %s, want %s", drawn, want)
	}
}

// solve solves the symmetric system a·x = b by Gauss' elimination, and returns the logarithm of its
// determinant.
func solve(a [][]float64, b []float64) (x []float64, logDet float64) {
	n := len(b)
	m := make([][]float64, n)
	for i := range m {
		m[i] = append(slices.Clone(a[i]), b[i])
	}
	for i := range n {
		logDet += math.Log(m[i][i])
		for k := i + 1; k < n; k++ {
			f := m[k][i] / m[i][i]
			for j := i; j <= n; j++ {
				m[k][j] -= f * m[i][j]
			}
		}
	}
	x = make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = m[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= m[i][j] * x[j]
		}
		x[i] /= m[i][i]
	}
	return x, logDet
}

// regression is what fit.forecast computes, from the other side: the values are normal with the
// covariance prior²·(1 + φφ′) + noise².
func regression(c curve, phi func(float64) float64, horizon, prior, noise float64) (mean, variance, evidence float64) {
	n := len(c.step)
	last, ph := c.score[n-1], phi(horizon)
	a, y, to := make([][]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		a[i] = make([]float64, n)
		for j := range n {
			a[i][j] = prior * prior * (1 + phi(c.step[i])*phi(c.step[j]))
		}
		a[i][i] += noise * noise
		y[i] = c.score[i] - last
		to[i] = prior * prior * (1 + ph*phi(c.step[i]))
	}
	byValue, logDet := solve(a, y)
	byPoint, _ := solve(a, to)
	mean, variance, evidence = last, noise*noise+prior*prior*(1+ph*ph), -.5*logDet
	for i := range n {
		mean += to[i] * byValue[i]
		variance -= to[i] * byPoint[i]
		evidence -= .5 * y[i] * byValue[i]
	}
	return mean, variance, evidence
}

// An outlook is the mixture of the regressions on all shapes and noises, weighted by their
// likelihood.
func TestAForecastIsAMixtureOfRegressions(t *testing.T) {
	rates := []float64{1.2, .8, .55, .4, .28, .2, .14, .1, .07, .05, .03, .015}
	powers := []float64{.3, .5, .8, 1.2, 2}
	for _, tc := range []struct {
		name    string
		c       curve
		unit    float64 // of time
		horizon float64
	}{
		{"by step", curve{[]float64{1, 2, 3, 4, 5}, []float64{.1, .3, .42, .5, .53}}, 1, 20},
		{"falling", curve{[]float64{1, 2, 4}, []float64{-2, -1.5, -1.6}}, 1, 9},
		{"every tenth step", curve{[]float64{10, 20, 30, 40}, []float64{.1, .3, .42, .5}}, 10, 200},
		{"very many", curve{[]float64{1, 400, 1000}, []float64{.1, .3, .42}}, 2, 4000},
		{"500 are not", curve{[]float64{1, 250, 500}, []float64{.1, .3, .42}}, 1, 900},
	} {
		scaled := curve{score: tc.c.score}
		for _, s := range tc.c.step {
			scaled.step = append(scaled.step, s/tc.unit)
		}
		spread := slices.Max(tc.c.score) - slices.Min(tc.c.score)
		var mean, sd, logs []float64
		add := func(phi func(float64) float64) {
			for _, noise := range []float64{.01, .05, .2} {
				m, v, e := regression(scaled, phi, tc.horizon/tc.unit, 20*spread, noise*spread)
				mean, sd, logs = append(mean, m), append(sd, math.Sqrt(v)), append(logs, e)
			}
		}
		for _, r := range rates {
			add(func(t float64) float64 { return math.Exp(-r * t) })
		}
		for _, p := range powers {
			add(func(t float64) float64 { return math.Pow(1+t, -p) })
		}
		top, sum := slices.Max(logs), 0.0
		for _, l := range logs {
			sum += math.Exp(l - top)
		}
		got := extrapolate(tc.c, tc.horizon)
		if len(got.mean) != len(mean) {
			t.Fatalf("%s: got %d parts, want %d", tc.name, len(got.mean), len(mean))
		}
		expected := 0.0
		for i := range mean {
			w := math.Exp(logs[i]-top) / sum
			expected += w * mean[i]
			if !near(got.weight[i], w, 1e-6) || !near(got.mean[i], mean[i], 1e-5*spread) || !near(got.sd[i]/sd[i], 1, 1e-4) {
				t.Errorf("%s: part %d: got weight %g, %g ± %g, want %g, %g ± %g", tc.name, i, got.weight[i], got.mean[i], got.sd[i], w, mean[i], sd[i])
			}
		}
		if !near(got.expected(), expected, 1e-5*spread) {
			t.Errorf("%s: expected %g, want %g", tc.name, got.expected(), expected)
		}
	}
	f := outlook{weight: []float64{.75, .25}, mean: []float64{1, 3}, sd: []float64{2, 1}}
	if got, want := f.above(3), .75*.15865525393+.25*.5; !near(got, want, 1e-9) || !near(f.expected(), 1.5, 1e-12) {
		t.Errorf("above 3: got %v, want %v; expected %v, want 1.5", got, want, f.expected())
	}
	flat := extrapolate(curve{[]float64{1, 2, 3}, []float64{.5, .5, .5}}, 9)
	if e := flat.expected(); !near(e, .5, 1e-6) || math.IsNaN(flat.above(.5)) {
		t.Errorf("of equal values: got %v", e)
	}
}

// What a trial has counts where its nodes are still there, and no more than they have.
func TestWhatATrialHasIsOnNodesThatAreThere(t *testing.T) {
	on := jobs.Placement{{Node: "a", Replicas: 2}, {Node: "b", Replicas: 1}, {Node: "gone", Replicas: 3}, {Node: "c", Replicas: 4}}
	nodes := []jobs.NodeSlots{{Node: "c", Slots: 3}, {Node: "b", Slots: 0}, {Node: "a", Slots: 2}}
	if got, want := remaining(on, nodes), (jobs.Placement{{Node: "a", Replicas: 2}, {Node: "c", Replicas: 3}}); !reflect.DeepEqual(got, want) {
		t.Errorf("remaining: got %v, want %v", got, want)
	}
	for n, want := range map[int]allocate.Allocation{0: {}, 1: {"a": 1}, 2: {"a": 2}, 3: {"a": 2, "b": 1}, 4: {"a": 2, "b": 1, "gone": 1}, 99: {"a": 2, "b": 1, "gone": 3, "c": 4}} {
		if got := least(on, n); !reflect.DeepEqual(got, want) {
			t.Errorf("the least %d: got %v, want %v", n, got, want)
		}
	}
	if got := allocation(on); !reflect.DeepEqual(got, allocate.Allocation{"a": 2, "b": 1, "gone": 3, "c": 4}) {
		t.Errorf("allocation: got %v", got)
	}
	if got, want := placement(allocate.Allocation{"a": 2, "b": 0, "c": 1}, nodes), (jobs.Placement{{Node: "c", Replicas: 1}, {Node: "a", Replicas: 2}}); !reflect.DeepEqual(got, want) {
		t.Errorf("placement: got %v, want %v", got, want)
	}
	if b2i(true) != 1 || b2i(false) != 0 {
		t.Error("b2i is wrong")
	}
}

// The cost of a change is what is set, else what was measured, by the job before its launcher, else
// two seconds.
func TestTheCostOfAChange(t *testing.T) {
	for _, tc := range []struct {
		set      time.Duration
		measured float64
		job      time.Duration
		want     time.Duration
	}{{0, 0, 0, 2 * time.Second}, {0, 0, 5, 5}, {0, 1.5, 5, 1500 * time.Millisecond}, {7, 1.5, 5, 7}, {0, -1, 0, 2 * time.Second}} {
		g := &Goodput{ChangeCost: tc.set}
		if got := g.cost(jobs.State{ChangeCost: tc.job}, &control.Adaptation{ChangeSeconds: tc.measured}); got != tc.want {
			t.Errorf("%+v: got %v, want %v", tc, got, tc.want)
		}
	}
}

// The work that is left is that of the steps that are left, as far as the last one is known.
func TestTheWorkThatIsLeft(t *testing.T) {
	v := &tunetest.View{}
	trial := v.Add(tune.Params{})
	p := &control.Adaptation{Progress: 30, InitialBatch: 64}
	if got := (&Goodput{MaxStep: 100}).remaining(trial, p); got != 0 {
		t.Errorf("before its first report: got %v, want 0", got)
	}
	v.Report(trial, 20, 1)
	for _, tc := range []struct {
		g    *Goodput
		want float64
	}{
		{&Goodput{}, 0}, {&Goodput{MaxStep: 100}, 30 * 64 * 4}, {&Goodput{MaxStep: 21}, 30 * 64 * .05}, {&Goodput{MaxStep: 20}, 0}, {&Goodput{MaxStep: 19}, 0},
		{&Goodput{Inner: &ASHA{MaxStep: 100}}, 30 * 64 * 4}, {&Goodput{MaxStep: 40, Inner: &ASHA{MaxStep: 100}}, 30 * 64}, {&Goodput{Inner: &Patience{}}, 0},
	} {
		if got := tc.g.remaining(trial, p); !near(got, tc.want, 1e-9) {
			t.Errorf("%+v: got %v, want %v", tc.g, got, tc.want)
		}
	}
}

func TestGoodputHasTheDefaultsItSays(t *testing.T) {
	for _, tc := range []struct {
		g           *Goodput
		least, most int
		reports     int
		interval    time.Duration
	}{
		{&Goodput{}, 1, 0, 100, time.Minute},
		{&Goodput{MinReplicas: 2, MaxReplicas: 3, ReportsPerDecision: 7, Interval: time.Second}, 2, 3, 7, time.Second},
		{&Goodput{ReportsPerDecision: -1}, 1, 0, 0, time.Minute},
	} {
		least, most := tc.g.Replicas()
		reports, interval := tc.g.Pace()
		if least != tc.least || most != tc.most || reports != tc.reports || interval != tc.interval {
			t.Errorf("%+v: got %d to %d replicas, a decision after %d reports and %v", tc.g, least, most, reports, interval)
		}
	}
	if g := (&Guard{}); g.minReports() != 4 || g.probability() != .1 {
		t.Errorf("a guard waits for %d reports and a probability of %v, want 4 and 0.1", g.minReports(), g.probability())
	}
	if g := (&Guard{MinReports: 1, Probability: .5}); g.minReports() != 1 || g.probability() != .5 {
		t.Errorf("got %d reports and a probability of %v, want 1 and 0.5", g.minReports(), g.probability())
	}
	for p, want := range map[*PBT]float64{{}: 1, {BySeconds: true}: 60, {Interval: 3, BySeconds: true}: 3} {
		if got := p.interval(); got != want {
			t.Errorf("%+v: the interval is %v, want %v", p, got, want)
		}
	}
}

// A trial that gave up its slots and starts again has nothing, and is no longer to give up any.
func TestAnotherAttemptBeginsWithNothing(t *testing.T) {
	v := &tunetest.View{}
	v.Add(tune.Params{}).State = tune.Paused
	v.Add(tune.Params{}).State = tune.Paused
	g := &Goodput{trials: map[int]*goodputTrial{0: {on: jobs.Placement{{Node: "a", Replicas: 2}}, parking: true, changes: 3, explored: 2}}, parked: []int{1, 0}}
	if p := g.Next(v); p.Kind != tune.ChoosePaused || p.Trial != 1 {
		t.Errorf("the first that was paused continues first: got %+v", p)
	}
	g.Started(v, 0)
	if got := *g.trials[0]; got.on != nil || got.parking || got.changes != 3 || got.explored != 2 || !slices.Equal(g.parked, []int{1}) {
		t.Errorf("after its start: got %+v, parked %v", got, g.parked)
	}
	if g.Ended(v, 1); len(g.parked) != 0 {
		t.Errorf("after its end: parked %v", g.parked)
	}
	if p := g.Next(v); p.Kind == tune.ChoosePaused {
		t.Errorf("none is parked: got %+v", p)
	}
}

func TestAPolicyHasTheParametersOfEachStep(t *testing.T) {
	space := tune.Space{tune.Real("x", 0, 9)}
	p := Policy{}
	for i, after := range []int{0, 4, 4, 9} {
		p = append(p, PolicyStep{After: after, Params: params(t, space, map[string]any{"x": float64(i)}), Trial: i})
	}
	for step, want := range map[int]float64{0: 0, 1: 0, 4: 0, 5: 2, 9: 2, 10: 3} {
		if got, _ := p.At(step).Get("x"); got != want {
			t.Errorf("step %d: got %v, want %v", step, got, want)
		}
	}
	for text, ok := range map[string]bool{`[{"after":0},{"after":0},{"after":3}]`: true, `[{"after":3},{"after":2}]`: false, `[]`: false, `{}`: false} {
		if _, err := ReadPolicy([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: got %v, want it read: %t", text, err, ok)
		}
	}
}

// A decision says what changed, or that nothing did.
func TestExploreSaysWhatChanged(t *testing.T) {
	if got := describe(nil); got != "the same parameters" {
		t.Errorf("got %q", got)
	}
	if got := describe([]string{"x 1 → 2", "y 3 → 4"}); got != "x 1 → 2, y 3 → 4" {
		t.Errorf("got %q", got)
	}
}

// A step is looked at once in an interval: at its first report.
func TestAStepIsDueOnceInAnInterval(t *testing.T) {
	for _, tc := range []struct {
		steps            []int
		warmup, interval int
		want             string // by report
	}{
		{[]int{1, 2, 3, 4, 5, 6}, 0, 1, "xxxxxx"}, {[]int{1, 2, 3, 4, 5, 6}, 3, 1, "..xxxx"}, {[]int{1, 2, 3, 4, 5, 6}, 0, 3, "x.x..x"}, {[]int{1, 2, 3, 4, 5, 6}, 2, 3, ".x..x."},
		{[]int{1, 5, 6, 11, 12}, 0, 5, "xx.x."},
	} {
		v := &tunetest.View{}
		trial, got := v.Add(tune.Params{}), ""
		for _, step := range tc.steps {
			v.Report(trial, step, 1)
			got += map[bool]string{true: "x", false: "."}[due(trial, step, tc.warmup, tc.interval)]
		}
		if got != tc.want {
			t.Errorf("steps %v, warmup %d, interval %d: due are %s, want %s", tc.steps, tc.warmup, tc.interval, got, tc.want)
		}
	}
}

// Bounds are those of values that go on.
func TestPrunersAtTheirBounds(t *testing.T) {
	v := &tunetest.View{}
	a := v.Add(tune.Params{})
	for i, x := range []float64{1, 3, 1, 3} { // they deviate by 1
		v.Report(a, i+1, x)
	}
	for _, tc := range []struct {
		name string
		s    tune.Pruner
		want bool
	}{
		{"at the deviation", TrialPlateau{Deviation: 1}, true},
		{"below it", TrialPlateau{Deviation: .999}, false},
		{"of the newest two", TrialPlateau{Deviation: 1, Reports: 2}, true},
		{"of the newest one", TrialPlateau{Deviation: .001, Reports: 1}, true},
		{"in grace", TrialPlateau{Deviation: 1, Grace: 5}, false},
		{"at the end of grace", TrialPlateau{Deviation: 1, Grace: 4, Reports: 1}, true},
		{"at the level", TrialPlateau{Deviation: 1, HasLevel: true, Level: 3}, true},
		{"below the level", TrialPlateau{Deviation: 1, HasLevel: true, Level: 3.1}, false},
		{"any level", TrialPlateau{Deviation: 1, Level: 9}, true},
		{"both", AllPruners{MaxStep(4), TrialTime(time.Second)}, true},
		{"one of both", AllPruners{MaxStep(4), MaxStep(5)}, false},
		{"none", AllPruners{}, false},
		{"none of any", AnyPruner{}, false},
		{"one of any", AnyPruner{MaxStep(5), MaxStep(4)}, true},
	} {
		if got := tc.s.Prune(v, 0); (got.Trial == tune.Complete) != tc.want || got.StopAll {
			t.Errorf("%s: got %+v, want it complete: %t", tc.name, got, tc.want)
		}
	}
	if got := (AllPruners{MaxStep(4), TrialTime(time.Second)}).Prune(v, 0); !strings.Contains(got.Rule, "step 4 reached and trained for 1s") {
		t.Errorf("got rule %q", got.Rule)
	}
	stop := PruneFunc(func(tune.View, int) tune.StopDecision {
		return tune.StopDecision{Trial: tune.Stop, StopAll: true, Rule: "x"}
	})
	if got := (AllPruners{MaxStep(4), stop}).Prune(v, 0); got.Trial != tune.Stop || got.StopAll {
		t.Errorf("one stops and one completes: got %+v, want stop", got)
	}
	if got := (AllPruners{stop, Number(0)}).Prune(v, 0); got.Trial != "" || !got.StopAll {
		t.Errorf("both end the study, one the trial: got %+v, want the study's end", got)
	}
	if got := (AnyPruner{MaxStep(4), stop}).Prune(v, 0); got.Trial != tune.Complete || !got.StopAll || got.Rule != "step 4 reached" {
		t.Errorf("any of both: got %+v, want the first one's answer and the study's end", got)
	}
}

// Of combined schedulers all see the report, and the first that does not continue decides.
func TestTheFirstThatDoesNotContinueDecides(t *testing.T) {
	below := func(x float64) *Threshold { return &Threshold{Lower: x} }
	complete := &ASHA{MaxStep: 2}
	for _, tc := range []struct {
		name   string
		s      tune.Scheduler
		last   []float64
		want   tune.Action
		cutoff float64 // 0: not looked at
	}{
		{"the second one", Any{below(1), below(3)}, []float64{2}, tune.Stop, 3},
		{"the first of both", Any{below(3), below(4)}, []float64{2}, tune.Stop, 3},
		{"all of none", All{}, []float64{2}, tune.Continue, 0},
		{"all: one completes", All{below(1), complete}, []float64{2, 2}, tune.Complete, 0},
		{"all: the last one's cutoff", All{below(3), below(4)}, []float64{2}, tune.Stop, 4},
		{"a bound that is not set", &Threshold{}, []float64{-1}, tune.Continue, 0},
		{"at the upper bound", &Threshold{Upper: 2}, []float64{2}, tune.Continue, 0},
		{"an upper bound of 0", &Threshold{HasUpper: true}, []float64{.1}, tune.Stop, 0},
		{"patience: by too little", &Patience{Reports: 1, MinDelta: .5}, []float64{3, 2, 3.4}, tune.Stop, 3.5},
		{"not a number", &Threshold{}, []float64{math.NaN()}, tune.Stop, 0},
	} {
		if d := decide(tc.s, tune.Max, tc.last); d.Action != tc.want || tc.cutoff != 0 && d.Cutoff != tc.cutoff {
			t.Errorf("%s: got %+v, want %s at %v", tc.name, d, tc.want, tc.cutoff)
		}
	}
}

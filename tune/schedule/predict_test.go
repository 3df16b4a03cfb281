package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A family is learning curves of 40 steps over one parameter.
type family func(x float64, step int) float64

func top(x float64) float64 { return 90 - 80*(x-0.3)*(x-0.3) }

// steady curves show from the start how they end, late ones show nothing before step 30.
func steady(x float64, step int) float64 { return top(x) * (1 - math.Exp(-float64(step)/8)) }

func late(x float64, step int) float64 {
	if step <= 30 {
		return 10
	}
	return 10 + (top(x)+luck(x)-10)*float64(step-30)/10
}

// lucky ones are steady, and each training has luck of its own.
func lucky(x float64, step int) float64 { return steady(x, step) + luck(x) }

func luck(x float64) float64 { return 2 * rand.New(rand.NewPCG(math.Float64bits(x), 1)).NormFloat64() }

// A search tells a rule of every trial in its view, and draws the noise of their values.
type search struct {
	t    *testing.T
	view *tunetest.View
	rule tune.Scheduler
	rng  *rand.Rand
	why  string // the newest forecast
}

// newSearch has ended trials that trained to their end.
func newSearch(t *testing.T, rule tune.Scheduler, curve family, ended int) *search {
	s := &search{t: t, view: &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}, Last: true}, rule: rule, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range ended {
		x := math.Mod(0.5+float64(i)*0.618, 1)
		made := s.train(x, 0, 40, curve, false)
		s.view.End(made, tune.Completed)
		s.rule.Ended(s.view, made.Number)
	}
	return s
}

// train runs a trial until the rule, if it is asked, stops it or a step is reached. Its values are
// below those of its curve.
func (s *search) train(x, below float64, steps int, curve family, judged bool) *tune.Trial {
	s.t.Helper()
	params, err := tune.NewParams("x", x)
	if err != nil {
		s.t.Fatal(err)
	}
	t := s.view.Add(params)
	s.rule.Started(s.view, t.Number)
	for step := 1; step <= steps; step++ {
		s.view.Report(t, step, curve(x, step)-below*float64(step)/40+0.1*s.rng.NormFloat64())
		if !judged {
			continue
		}
		d := s.rule.Reported(s.view, t.Number, s.rng)
		if d.Forecast != nil {
			s.why = d.Forecast.String()
		}
		if d.Action == tune.Stop {
			s.view.End(t, tune.Pruned)
			s.rule.Ended(s.view, t.Number)
			return t
		}
	}
	return t
}

// A trial must be stopped for what it shows, and for nothing else.
func TestPredictStopsForWhatATrialShows(t *testing.T) {
	for _, c := range []struct {
		name     string
		curve    family
		ended    int
		x, below float64
		stopped  bool
	}{
		{"values far below those of as good parameters", lucky, 12, 0.5, 40, true},
		{"poor parameters, and values that say so", steady, 12, 0.95, 0, true},
		{"as good as the best", steady, 12, 0.3, 0, false},
		{"parameters that are no better, and values that say nothing", late, 12, 0.42, 0, false},
		{"few trials have ended", steady, 9, 0.3, 60, false},
	} {
		s := newSearch(t, &schedule.Predict{MaxStep: 40}, c.curve, c.ended)
		got := s.train(c.x, c.below, 25, c.curve, true)
		if last, _ := got.LastStep(); (got.State == tune.Pruned) != c.stopped || last < 4 {
			t.Errorf("%s: the trial is %s at step %d, want stopped %v, and not before a tenth of 40 steps; %s", c.name, got.State, last, c.stopped, s.why)
		}
	}
}

// With noise in the ends, a trial as good as the best one but for noise goes on: the best result
// was lucky.
func TestPredictDoesNotMeasureByALuckyResult(t *testing.T) {
	s := newSearch(t, &schedule.Predict{MaxStep: 40}, lucky, 30)
	stopped := 0
	for i := range 20 {
		if s.train(0.25+0.005*float64(i), 0, 30, lucky, true).State == tune.Pruned {
			stopped++
		}
	}
	if stopped > 5 {
		t.Errorf("%d of 20 trials near the best parameters were stopped, want at most 5", stopped)
	}
}

// Trials that report once have trained to their end by then, whatever their step: there is nothing
// to save, and the program may still have its model to write.
func TestPredictLeavesTrialsThatReportOnce(t *testing.T) {
	s := &search{t: t, view: &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}}, rule: &schedule.Predict{}, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range 40 {
		x := math.Mod(0.5+float64(i)*0.618, 1)
		params, err := tune.NewParams("x", x)
		if err != nil {
			t.Fatal(err)
		}
		made := s.view.Add(params)
		s.rule.Started(s.view, made.Number)
		step := 10 + i*7%30 // where its own rule has ended it
		s.view.Report(made, step, top(x))
		if d := s.rule.Reported(s.view, made.Number, s.rng); d.Action != tune.Continue {
			t.Errorf("trial %d, which reports once, at step %d: %s (%s), want it to go on", made.Number, step, d.Action, d.Reason())
		}
		s.view.End(made, tune.Completed)
		s.rule.Ended(s.view, made.Number)
	}
}

// The best that a search with constraints is for keep them: a trial that does must not be stopped
// for being worse than trials that do not.
func TestPredictDoesNotMeasureByTrialsThatViolateConstraints(t *testing.T) {
	s := &search{t: t, rule: &schedule.Predict{MaxStep: 40}, rng: rand.New(rand.NewPCG(1, 2)),
		view: &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}, Last: true, Bounds: []tune.Constraint{{Metric: "size", Bound: 0.6}}}}
	train := func(x float64, judged bool) *tune.Trial {
		params, err := tune.NewParams("x", x)
		if err != nil {
			t.Fatal(err)
		}
		made := s.view.Add(params)
		s.rule.Started(s.view, made.Number)
		for step := 1; step <= 40; step++ { // the larger, the better
			s.view.ReportAll(made, step, map[string]float64{"value": 90 * x * (1 - math.Exp(-float64(step)/8)), "size": x})
			if !judged {
				continue
			}
			if d := s.rule.Reported(s.view, made.Number, s.rng); d.Action == tune.Stop {
				s.why = d.Reason()
				s.view.End(made, tune.Pruned)
				s.rule.Ended(s.view, made.Number)
				return made
			}
		}
		s.view.End(made, tune.Completed)
		s.rule.Ended(s.view, made.Number)
		return made
	}
	for i := range 30 {
		train(math.Mod(0.5+float64(i)*0.618, 1), false)
	}
	if got := train(0.6, true); got.State == tune.Pruned {
		last, _ := got.LastStep()
		t.Errorf("the best trial that keeps the constraint was stopped at step %d: %s", last, s.why)
	}
	if got := train(0.1, true); got.State != tune.Pruned {
		t.Errorf("a trial far below the best that keep the constraint is %s, want it to be stopped", got.State)
	}
}

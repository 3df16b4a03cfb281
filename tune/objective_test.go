package tune_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

var square = tune.Space{tune.Real("x", 0, 1), tune.Real("y", 0, 1)}

// trade has two objectives that pull apart, along y = 0; the first reports of a trial lack one of
// them.
func trade(_ context.Context, p tune.Params, r *tune.Reporter) error {
	x, y := p.Float("x"), p.Float("y")
	return errors.Join(r.Report(1, map[string]float64{"accuracy": x - y, "latency": x + y, "memory": 10 * x}),
		r.Report(2, map[string]float64{"accuracy": 99}), // not judged: it lacks the others
		r.Report(3, map[string]float64{"accuracy": x - y/2, "latency": x + y/2, "memory": 10 * x}))
}

var tradeOff = []tune.Objective{{Metric: "accuracy", Mode: tune.Max}, {Metric: "latency", Mode: tune.Min}}

// The front must be the trials that no other feasible one dominates, of the newest report that has
// all metrics.
func TestFrontHasWhatNoFeasibleTrialDominates(t *testing.T) {
	for _, bounds := range [][]tune.Constraint{nil, {{Metric: "memory", Bound: 6}}} {
		dir := t.TempDir()
		cfg := tune.Config{Space: square, Objectives: tradeOff, Constraints: bounds, Samples: 60, Seed: 3, Dir: dir, Parallel: 4, Logger: quiet,
			Suggester: &suggest.NSGA2{Population: 12}}
		res, err := tune.Run(t.Context(), trade, cfg)
		if err != nil {
			t.Fatal(err)
		}
		feasible := func(a tune.Trial) bool { return bounds == nil || 10*a.Params.Float("x") <= 6 }
		var want []int
		for _, a := range res.Trials() {
			va := res.Values(a)
			if x, y := a.Params.Float("x"), a.Params.Float("y"); !slices.Equal(va, []float64{x - y/2, x + y/2}) {
				t.Fatalf("trial %d: got values %v, want those of step 3, %v", a.Number, va, []float64{x - y/2, x + y/2})
			}
			if got := res.Violation(a); (got == 0) != feasible(a) {
				t.Fatalf("trial %d: violation %v", a.Number, got)
			}
			dominated := !feasible(a)
			for _, b := range res.Trials() {
				vb := res.Values(b)
				dominated = dominated || feasible(b) && vb[0] >= va[0] && vb[1] <= va[1] && !slices.Equal(va, vb)
			}
			if !dominated {
				want = append(want, a.Number)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int {
			return -slices.Compare(res.Values(res.Trials()[a]), res.Values(res.Trials()[b]))
		})
		var got []int
		for _, a := range res.Front() {
			got = append(got, a.Number)
		}
		if !slices.Equal(got, want) || len(got) < 2 {
			t.Errorf("bounds %v: front %v, want %v", bounds, got, want)
		}
		if best := res.BestTrial().Number; best >= 0 || len(res.Top(3)) > 0 {
			t.Errorf("there is a best trial, %d, and top %d, of two objectives", best, len(res.Top(3)))
		}
		for _, err := range []error{second(res.RunBest(t.Context())), second(res.Confirm(t.Context(), 2, 2))} {
			if err == nil || !strings.Contains(err.Error(), "choose one of Result.Front") {
				t.Errorf("got error %v, want one that names Result.Front", err)
			}
		}
		cfg.Suggester = &suggest.NSGA2{Population: 12}
		if _, err := tune.Replay(dir, cfg); err != nil {
			t.Errorf("replay: %v", err)
		}
		if read, err := tune.ReadResult(dir); err != nil || fmt.Sprint(read.Front()) != fmt.Sprint(res.Front()) {
			t.Errorf("from the log alone: %v, want the same front", err)
		}
		cfg.Objectives = []tune.Objective{tradeOff[0], {Metric: "latency", Mode: tune.Max}}
		if _, err := tune.Load(dir, cfg); err == nil || !strings.Contains(err.Error(), "latency min") {
			t.Errorf("loaded with another objective: got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// With constraints the best trial is feasible, by its best feasible report; without any that is,
// the search says what is nearest.
func TestBestTrialKeepsTheConstraints(t *testing.T) {
	f := func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		x := p.Float("x")
		return errors.Join(r.Report(1, map[string]float64{"v": 10 * x, "cost": 2 * x}), // better, and too costly
			r.Report(2, map[string]float64{"v": x, "cost": x}))
	}
	cfg := tune.Config{Space: line, Metric: "v", Mode: tune.Max, Samples: 40, Seed: 1, Logger: quiet, Constraints: []tune.Constraint{{Metric: "cost", Bound: 0.5}}}
	res, err := tune.Run(t.Context(), f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	best, want := res.BestTrial(), 0.0
	for _, a := range res.Trials() {
		x := a.Params.Float("x")
		switch {
		case 2*x <= 0.5:
			want = max(want, 10*x)
		case x <= 0.5:
			want = max(want, x)
		}
	}
	if got := res.Value(best); got != want {
		t.Errorf("best value %v, want %v", got, want)
	}
	if top := res.Top(1); len(top) != 1 || top[0].Number != best.Number {
		t.Errorf("top is not the best trial %d", best.Number)
	}
	cfg.Constraints = []tune.Constraint{{Metric: "cost", Bound: 2, AtLeast: true}}
	cfg.Space = tune.Space{tune.Real("x", 0, 0.9)}
	res, err = tune.Run(t.Context(), f, cfg)
	if !errors.Is(err, tune.ErrNoResult) || !strings.Contains(err.Error(), "want cost >= 2") || res.BestTrial().Number >= 0 {
		t.Errorf("no trial is feasible: got %v and best trial %d", err, res.BestTrial().Number)
	}
}

func TestConfigRefusesGoalsThatMakeNoSense(t *testing.T) {
	for _, tc := range []struct {
		change func(c *tune.Config)
		want   string
	}{
		{func(c *tune.Config) { c.Metric = "v" }, "Objectives: Metric or Mode are set, too"},
		{func(c *tune.Config) { c.Objectives = tradeOff[:1] }, "Objectives: got 1, want 2 to 8"},
		{func(c *tune.Config) { c.Objectives = append(slices.Clone(tradeOff), tradeOff[0]) }, `metric "accuracy" is that of Objectives[0], too`},
		{func(c *tune.Config) { c.Objectives = []tune.Objective{{Metric: "a"}, {Metric: "loss"}} }, "set the mode (Config.Mode, mode: in study.yaml) to min"},
		{func(c *tune.Config) { c.Objectives, c.Constraints = nil, []tune.Constraint{{Metric: "m"}} }, "Constraints: they need Metric or Objectives"},
		{func(c *tune.Config) { c.Scheduler = &schedule.ASHA{MaxStep: 9} }, "*schedule.ASHA judges trials by one metric, and there are 2 Objectives: use tune.FIFO"},
		{func(c *tune.Config) { c.Scheduler = schedule.Any{tune.FIFO{}, &schedule.MedianStopping{}} }, "schedule.Any judges trials by one metric"},
		{func(c *tune.Config) { c.Pruners = []tune.Pruner{schedule.Reached{Value: 1}} }, "schedule.Reached judges trials by one metric, and there are 2 Objectives: use one that limits"},
		{func(c *tune.Config) { c.Suggester = &suggest.TPE{} }, "*suggest.TPE judges trials by one metric, and there are 2 Objectives: use suggest.MOTPE or suggest.NSGA2"},
		{func(c *tune.Config) { c.Suggester = &suggest.Repeat{Suggester: &suggest.GP{}, Times: 2} }, "*suggest.Repeat judges trials by one metric"},
	} {
		cfg := tune.Config{Space: line, Objectives: tradeOff}
		tc.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
	cfg := tune.Config{Space: line, Objectives: tradeOff, Scheduler: schedule.Any{tune.FIFO{}}, Pruners: []tune.Pruner{schedule.MaxStep(3)}, Suggester: &suggest.Limit{Suggester: &suggest.MOTPE{}, Max: 2}}
	if err := cfg.Validate(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// A trial that never reports one of the metrics is told which.
func TestReportWithoutAnObjectiveIsAnError(t *testing.T) {
	_, err := tune.Run(t.Context(), func(_ context.Context, _ tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"accuracy": 1, "time": 2})
	}, tune.Config{Space: line, Objectives: tradeOff, Logger: quiet})
	if !errors.Is(err, tune.ErrNoMetric) || !strings.Contains(err.Error(), `metric "latency" was not reported, but accuracy, time`) {
		t.Errorf("got %v, want one that names latency", err)
	}
}

// Trials that were run elsewhere are learnt from, survive a resume and a replay, and are not judged
// again.
func TestAddedTrialsCountAndReplay(t *testing.T) {
	dir := t.TempDir()
	config := func() tune.Config {
		return tune.Config{Space: line, Metric: "accuracy", Samples: 8, Dir: dir, Seed: 2, Logger: quiet, Resume: tune.ResumeAuto, Suggester: &suggest.TPE{Startup: 2},
			Scheduler: &schedule.ASHA{MaxStep: 9}}
	}
	s, err := tune.NewStudy(config())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i, state := range []tune.State{tune.Completed, tune.Pruned, tune.Failed, tune.Completed} {
		x := tune.Trial{Params: tune.MustParams("x", rng.Float64()), State: state, Error: "out of luck"}
		for step := 1; step <= 3-i/2; step++ {
			x.Reports = append(x.Reports, tune.Report{Step: step, Metrics: tune.MetricsOf(map[string]float64{"accuracy": float64(10*i + step)})})
		}
		if n, err := s.AddTrial(x); err != nil || n != i {
			t.Fatalf("trial %d: got %d, %v", i, n, err)
		}
	}
	for _, tc := range []struct {
		trial tune.Trial
		want  string
	}{
		{tune.Trial{Params: tune.MustParams("x", 2), State: tune.Completed}, `parameter "x": value 2 is not in [0, 1]`},
		{tune.Trial{Params: tune.MustParams("x", 0.5), State: tune.Completed}, "no report has accuracy"},
		{tune.Trial{Params: tune.MustParams(), State: tune.Failed}, `parameter "x" is missing`},
		{tune.Trial{Params: tune.MustParams("x", 0.5), State: tune.Running}, `its state is "running"`},
		{tune.Trial{Params: tune.MustParams("x", 0.5), State: tune.Completed, Reports: []tune.Report{{Step: 1, Metrics: tune.Metrics{{"accuracy", 1}}}, {Step: 1}}}, "steps of 0 or more that increase"},
	} {
		if _, err := s.AddTrial(tc.trial); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	res, err := tune.Run(t.Context(), train(5), config())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range res.Trials()[:4] {
		got = append(got, fmt.Sprintf("%s %s %d %v %s", a.Origin, a.State, len(a.Reports), res.Value(a), a.Error))
	}
	want := []string{"elsewhere completed 3 3 ", "elsewhere pruned 3 13 ", "elsewhere failed 2 22 out of luck", "elsewhere completed 2 32 "}
	if !slices.Equal(got, want) || len(res.Trials()) != 8 {
		t.Errorf("got %d trials %q, want 8, first %q", len(res.Trials()), got, want)
	}
	replayed, err := tune.Replay(dir, config())
	if err != nil || replayed.DecisionHash != res.DecisionHash() {
		t.Errorf("replay: %v", err)
	}
	// A log in which an added trial is said to be proposed is another one.
	log, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil || strings.Count(string(log), `"origin":"elsewhere"`) != 4 {
		t.Errorf("the log has %d added trials, want 4 (%v)", strings.Count(string(log), `"origin":"elsewhere"`), err)
	}
	grid := config()
	grid.Dir, grid.Space = "", tune.Space{tune.Grid("x", 0.25, 0.5)}
	s, err = tune.NewStudy(grid)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.AddTrial(tune.Trial{Params: tune.MustParams("x", 0.5), State: tune.Failed}); err == nil || !strings.Contains(err.Error(), "a grid to try") {
		t.Errorf("added to a grid: got %v", err)
	}
}

// A trial whose second objective is no number is stopped, and is not on the front; a search in
// which no trial is feasible says so, as does one of a single trial.
func TestTrialsWithoutAFeasibleValueAreNotOnTheFront(t *testing.T) {
	run := func(samples int, values func(x float64) map[string]float64) (*tune.Result, error) {
		return tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			return r.Report(1, values(p.Float("x")))
		}, tune.Config{Space: line, Objectives: tradeOff, Constraints: []tune.Constraint{{Metric: "memory", Bound: 1}}, Samples: samples, Seed: 4, Logger: quiet, Suggester: &suggest.Auto{}})
	}
	res, err := run(20, func(x float64) map[string]float64 {
		return map[string]float64{"accuracy": 1, "latency": map[bool]float64{true: math.NaN(), false: 2}[x < 0.5], "memory": 0}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range res.Trials() {
		odd := a.Params.Float("x") < 0.5
		on := slices.ContainsFunc(res.Front(), func(b tune.Trial) bool { return b.Number == a.Number })
		if on == odd || odd != (a.State == tune.Pruned) {
			t.Errorf("trial %d with latency NaN %v: on the front %v, %s", a.Number, odd, on, a.State)
		}
	}
	for _, samples := range []int{1, 15} {
		res, err := run(samples, func(x float64) map[string]float64 {
			return map[string]float64{"accuracy": x, "latency": x, "memory": 1 + x}
		})
		if !errors.Is(err, tune.ErrNoResult) || len(res.Front()) > 0 {
			t.Errorf("%d trials, none feasible: got front %v and error %v, want none and ErrNoResult", samples, res.Front(), err)
		}
	}
	if res, err := run(1, func(x float64) map[string]float64 {
		return map[string]float64{"accuracy": x, "latency": x, "memory": 1}
	}); err != nil || len(res.Front()) != 1 {
		t.Errorf("one feasible trial: got front %v and error %v", res.Front(), err)
	}
}

package optuna_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/optuna"
)

var quiet = slog.New(slog.DiscardHandler)

var space = tune.Space{
	tune.Real("lr", 1e-4, 1).Log(), tune.Choice("optimizer", "sgd", "adam", 3), tune.Real("momentum", 0, 0.99).Quantise(0.01).When("optimizer", "sgd"), tune.Int("layers", 1, 8),
	tune.Int("width", 8, 512).Log(), tune.Bool("bias"), tune.Normal("shift", 0, 1), tune.LogNormal("scale", 0, 1),
	tune.Derived("deep", func(p tune.Params) any { return p.Int("layers") > 4 }),
}

// train fails for some parameters, is pruned for others, and ends below its best.
func train(_ context.Context, p tune.Params, r *tune.Reporter) error {
	if p.Int("layers") == 8 {
		return errors.New("out of luck")
	}
	for step := 1; step <= 4; step++ {
		value := p.Float("lr") * float64(step) * map[bool]float64{true: 1, false: 0.5}[step < 4]
		if err := r.Report(2*step, map[string]float64{"accuracy": value, "latency": float64(p.Int("width"))}); err != nil {
			return err
		}
	}
	return nil
}

// some prunes trials of one layer at step 4.
type some struct{}

func (some) Prune(v tune.View, trial int) tune.StopDecision {
	if step, _ := v.Trial(trial).LastStep(); step == 4 && v.Trial(trial).Params.Int("layers") == 1 {
		return tune.StopDecision{Trial: tune.Stop, Rule: "one layer"}
	}
	return tune.StopDecision{}
}

func search(t *testing.T, cfg tune.Config) *tune.Result {
	t.Helper()
	cfg.Space, cfg.Logger, cfg.Samples = space, quiet, 60
	r, err := tune.Run(t.Context(), train, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// describe is what must survive the way to the file and back.
func describe(r *tune.Result, reports bool) (lines []string) {
	for _, x := range r.Trials() {
		line := fmt.Sprintf("%s %v %v %v", x.State, x.Params, r.Values(x), r.Violation(x))
		for _, one := range x.Reports {
			if reports {
				line += fmt.Sprintf(" %d:%v", one.Step, one.Metrics.Map())
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestStudiesComeBackFromTheFile(t *testing.T) {
	bound := []tune.Constraint{{Metric: "latency", Bound: 100}}
	for name, cfg := range map[string]tune.Config{
		"best report":        {Metric: "accuracy", Mode: tune.Max, Pruners: []tune.Pruner{some{}}},
		"last report":        {Metric: "accuracy", Mode: tune.Max, Scope: tune.LastReport, Pruners: []tune.Pruner{some{}}},
		"constraint":         {Metric: "accuracy", Mode: tune.Max, Constraints: bound},
		"at least":           {Metric: "accuracy", Mode: tune.Min, Constraints: []tune.Constraint{{Metric: "latency", Bound: 20, AtLeast: true}}},
		"several objectives": {Objectives: []tune.Objective{{Metric: "accuracy", Mode: tune.Max}, {Metric: "latency", Mode: tune.Min}}, Constraints: []tune.Constraint{{Metric: "accuracy", Bound: 0.01, AtLeast: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := search(t, cfg)
			var text bytes.Buffer
			if err := optuna.Export("toy", r.View()).Write(&text); err != nil {
				t.Fatal(err)
			}
			f, err := optuna.Read(&text)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Space, cfg.Logger, cfg.Samples = space, quiet, 60
			s, err := tune.NewStudy(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			added, left, err := f.Import(s, cfg.Scope)
			if err != nil || added != 60 || left != 0 {
				t.Fatalf("got %d trials and %d left out (%v), want 60 and 0", added, left, err)
			}
			// Several objectives have final values only.
			reports := cfg.Objectives == nil
			got, want := describe(s.Result(), reports), describe(r, reports)
			states := map[tune.State]int{}
			for i, x := range r.Trials() {
				states[x.State]++
				if got[i] != want[i] {
					t.Errorf("trial %d:\ngot  %s\nwant %s", i, got[i], want[i])
				}
			}
			if states[tune.Failed] == 0 || states[tune.Completed] == 0 || cfg.Pruners != nil && states[tune.Pruned] == 0 {
				t.Fatalf("the search has only %v", states)
			}
			if a, b := s.Result().BestTrial().Number, r.BestTrial().Number; a != b {
				t.Errorf("best trial %d, want %d", a, b)
			}
		})
	}
}

// What Optuna 5 wrote with the script of docs/how-to/optuna.md must be read.
func TestFileOfOptunaIsRead(t *testing.T) {
	file, err := os.Open("testdata/optuna.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := optuna.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tune.NewStudy(tune.Config{Metric: "loss", Mode: tune.Min, Logger: quiet, Samples: 20, Constraints: []tune.Constraint{{Metric: "cost", Bound: 1}},
		Space: tune.Space{tune.Real("lr", 1e-4, 1).Log(), tune.Int("layers", 1, 4), tune.Choice("optimizer", "sgd", "adam"), tune.Real("momentum", 0, 1).When("optimizer", "sgd")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	added, left, err := f.Import(s, tune.BestReport)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Result()
	count := map[tune.State]int{}
	for _, x := range r.Trials() {
		count[x.State]++
	}
	for _, x := range f.Trials {
		if x.State == "COMPLETE" && x.Number == r.BestTrial().Number && float64(x.Values[0]) != r.Value(r.BestTrial()) {
			t.Errorf("best trial %d has value %v, want %v", x.Number, r.Value(r.BestTrial()), x.Values[0])
		}
	}
	if added != 12 || left != 1 || count[tune.Completed] != 9 || count[tune.Pruned] != 2 || count[tune.Failed] != 1 {
		t.Errorf("%d trials, %d left out, states %v; want 12, 1, and 9 completed, 2 pruned, 1 failed", added, left, count)
	}
}

func TestFilesWithMistakesAreErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{`, "unexpected EOF"},
		{`{"version": 2}`, "version is 2, want 1"},
		{`{"version": 1}`, "directions are missing"},
		{`{"version": 1, "directions": ["up"]}`, `directions[0] is "up", want minimize or maximize`},
		{`{"version": 1, "directions": ["maximize"], "metric_names": ["a", "b"]}`, "2 metric_names for 1 directions"},
		{`{"version": 1, "directions": ["maximize"], "trials": [{"state": "DONE"}]}`, `trials[0]: state is "DONE"`},
		{`{"version": 1, "directions": ["maximize"], "trials": [{"state": "COMPLETE", "values": [1, 2]}]}`, "trials[0]: 2 values of a complete trial for 1 directions"},
		{`{"version": 1, "directions": ["maximize"], "trials": [{"state": "FAIL", "values": ["x"]}]}`, `got "x", want a number`},
		{`{"version": 1, "directions": ["maximize"], "trials": [{"state": "FAIL", "intermediate_values": {"-1": 2}}]}`, "step -1, want 0 or more"},
		{`{"version": 1, "directions": ["maximize"], "trials": [{"state": "FAIL", "params": {"x": null}}]}`, "want a number, a bool, a string"},
		{`{"version": 1, "directions": ["maximize"]} x`, "text after the object"},
	} {
		if _, err := optuna.Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.text, err, tc.want)
		}
	}
	file := func(more string) *optuna.File {
		f, err := optuna.Read(strings.NewReader(`{"version": 1, "directions": ["maximize"], "trials": [{"number": 4, "state": "COMPLETE", "values": [1], "params": {` + more + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tc := range []struct {
		f    *optuna.File
		cfg  tune.Config
		want string
	}{
		{file(`"x": 7.0`), tune.Config{Metric: "v"}, `trials[0], number 4: tune: add trial 0: tune: parameter "x": value 7 is not in [0, 1]`},
		{file(`"y": 0.5`), tune.Config{Metric: "v"}, `parameter "x" is missing`},
		{file(`"x": 0.5`), tune.Config{Metric: "v", Mode: tune.Min}, "is to maximize, and the study's, v, to minimize"},
		{file(`"x": 0.5`), tune.Config{}, "the study has no metric"},
		{file(`"x": 0.5`), tune.Config{Objectives: []tune.Objective{{Metric: "v"}, {Metric: "w"}}}, "the file has 1 objectives, and the study 2"},
		{file(`"x": 0.5`), tune.Config{Metric: "v", Constraints: []tune.Constraint{{Metric: "cost"}}}, "no report has v, cost"},
	} {
		tc.cfg.Space, tc.cfg.Logger = tune.Space{tune.Real("x", 0, 1)}, quiet
		s, err := tune.NewStudy(tc.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := tc.f.Import(s, tune.BestReport); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
		_ = s.Close()
	}
}

// What is read can be written, and is then the same.
func FuzzRead(f *testing.F) {
	text, err := os.ReadFile("testdata/optuna.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version": 1, "study_name": "a", "directions": ["maximize", "minimize"], "metric_names": null, "trials": [{"number": 1, "state": "COMPLETE", "values": ["NaN", -1e300], "params": {"a.b": 1.0, "c": true}, "intermediate_values": {"3": "Infinity"}, "user_attrs": {"x": [1, {"y": null}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := optuna.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var written bytes.Buffer
		if err := one.Write(&written); err != nil {
			t.Fatal(err)
		}
		first := slices.Clone(written.Bytes())
		again, err := optuna.Read(&written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		written.Reset()
		if err := again.Write(&written); err != nil || !bytes.Equal(written.Bytes(), first) {
			t.Fatalf("written again it differs (%v):\n%s\n%s", err, first, written.Bytes())
		}
	})
}

func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.1, 1e300, math.Copysign(0, -1)} {
		text, err := optuna.Number(x).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got optuna.Number
		if err := got.UnmarshalJSON(text); err != nil || math.Float64bits(float64(got)) != math.Float64bits(x) {
			t.Errorf("%v through %s: got %v (%v)", x, text, got, err)
		}
	}
}

// What Optuna has of a constraint is how far the trial is beyond its bound, and below zero if it is
// kept.
func TestConstraintsOfOptunaBecomeMetrics(t *testing.T) {
	for bound, want := range map[tune.Constraint]float64{
		{Metric: "latency", Bound: 20}:                17,
		{Metric: "latency", Bound: 20, AtLeast: true}: 23,
	} {
		s, err := tune.NewStudy(tune.Config{Space: tune.Space{tune.Real("lr", 0, 1)}, Metric: "accuracy", Samples: 2, Constraints: []tune.Constraint{bound}, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		f, err := optuna.Read(strings.NewReader(`{"version": 1, "directions": ["maximize"], "trials": [
			{"state": "COMPLETE", "values": [0.5], "params": {"lr": 0.1}, "system_attrs": {"constraints": [-3]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Import(s, tune.BestReport); err != nil {
			t.Fatal(err)
		}
		s.View(func(v tune.View) {
			last, _ := v.Trial(0).Last()
			if got, _ := last.Metrics.Get("latency"); got != want || v.Violation(v.Trial(0)) != 0 {
				t.Errorf("%v: got %s %v with violation %v, want %v and 0", bound, bound.Metric, got, v.Violation(v.Trial(0)), want)
			}
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

package tune

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A foreteller stops a trial below a half at its second step, by a forecast.
type foreteller struct {
	FIFO
	Mean float64
	// last is used for every decision.
	last Forecast
}

func (s *foreteller) Reported(v View, trial int, _ *rand.Rand) Decision {
	last, _ := v.Trial(trial).Last()
	d := Go()
	d.Rule, d.Value = "seer", last.Value
	s.last = Forecast{Step: 9, Mean: s.Mean + last.Value, Low: last.Value, High: 1, Chance: 0.02, Bound: 0.1, Best: 1, Target: 0.9}
	d.Forecast = &s.last
	if last.Step == 2 && last.Value < 0.5 {
		d.Action = Stop
	}
	return d
}

// A decision's forecast is in the log and in the trial's reports, says in words why the trial was
// stopped, and replay holds the log to it.
func TestAForecastIsKeptAndReplayed(t *testing.T) {
	dir := t.TempDir()
	train := func(_ context.Context, p Params, r *Reporter) error {
		for step := 1; step <= 3; step++ {
			if err := r.Report(step, map[string]float64{"accuracy": p.Float("x")}); err != nil {
				if want := "seer: 0.35 expected at step 9 (80 %: 0.25 to 1); a chance of 2 % to end as well as the best, trial 0 with 0.9, and the bound is 10 %"; !strings.Contains(err.Error(), want) || !errors.Is(err, ErrStop) {
					t.Errorf("the trial was told %q, want %q", err, want)
				}
				return err
			}
		}
		return nil
	}
	config := func(s Scheduler) Config {
		return Config{Space: Space{Real("x", 0, 1)}, Points: []Point{{"x": 0.75}, {"x": 0.25}}, Samples: 2, Metric: "accuracy", Mode: Max, Dir: dir, Scheduler: s}
	}
	result, err := Run(t.Context(), train, config(&foreteller{Mean: 0.1}))
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Result{result, read} {
		done, stopped := r.Trials()[0], r.Trials()[1]
		if n := len(stopped.Reports); n != 2 || stopped.Reports[0].Forecast == nil || stopped.Reports[0].Forecast.Mean != 0.35 {
			t.Errorf("the stopped trial has reports %+v, want two with a mean of 0.35", stopped.Reports)
		}
		if f := stopped.Forecast(); f == nil || f.Step != 9 || f.Low != 0.25 {
			t.Errorf("the stopped trial is predicted to end at %+v, want at step 9 from 0.25", f)
		}
		if got := stopped.Reason(); !strings.HasPrefix(got, "seer: 0.35 expected at step 9") {
			t.Errorf("the trial was stopped by %q, want the rule and its forecast", got)
		}
		if done.Forecast() != nil || done.Reports[0].Forecast == nil || done.Reports[0].Forecast.Mean != 0.85 {
			t.Errorf("the completed trial has forecast %+v and reports %+v, want no forecast, and reports that keep theirs", done.Forecast(), done.Reports)
		}
	}
	replayed, err := Replay(dir, config(&foreteller{Mean: 0.1}))
	if err != nil || replayed.DecisionHash != result.DecisionHash() {
		t.Errorf("replayed to hash %s: %v, want %s", replayed.DecisionHash, err, result.DecisionHash())
	}
	diverged, ok := errors.AsType[*DivergedError](func() error { _, err := Load(dir, config(&foreteller{Mean: 0.2})); return err }())
	if !ok || !strings.Contains(diverged.Got, `"mean":0.85`) || !strings.Contains(diverged.Want, `"mean":0.95`) {
		t.Errorf("with another forecast the log says %+v, want 0.85 in the log and 0.95 recomputed", diverged)
	}
}

// Logs of rules that predict nothing have no forecast.
func TestALogWithoutForecastsStaysAsItWas(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(t.Context(), func(_ context.Context, p Params, r *Reporter) error {
		return r.Report(1, map[string]float64{"accuracy": p.Float("x")})
	}, Config{Space: Space{Real("x", 0, 1)}, Samples: 2, Metric: "accuracy", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, studydir.LogName))
	if err != nil || strings.Contains(string(text), "forecast") {
		t.Errorf("the log is %v\n%s\nwant no forecast in it", err, text)
	}
}

func TestAForecastSaysItInWords(t *testing.T) {
	for _, c := range []struct {
		f    Forecast
		want string
	}{
		{Forecast{Step: 50, Mean: 0.61334, Low: 0.5512, High: 0.66331, Chance: 0.0123, Bound: 0.1, Best: 1, Rival: 7, Target: 0.7101},
			"0.6133 expected at step 50 (80 %: 0.5512 to 0.6633); a chance of 1.2 % to end as well as the best, trial 7 with 0.7101, and the bound is 10 %"},
		{Forecast{Step: 9, Mean: -3, Low: -4, High: -2, Chance: 1e-9, Bound: 0.05, Best: 3, Rival: 2, Target: -1},
			"-3 expected at step 9 (80 %: -4 to -2); a chance of less than 0.01 % to end as well as the best 3, the last of which is trial 2 with -1, and the bound is 5 %"},
	} {
		if got := c.f.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

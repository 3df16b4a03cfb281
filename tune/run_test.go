package tune_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune"
)

var quiet = slog.New(slog.DiscardHandler)

// curve is 1.8^-x-like: better with more steps and with x near 0.3.
func curve(x float64, step int) float64 {
	return (1 - math.Pow(1.8, -float64(step))) * (1 - (x-0.3)*(x-0.3))
}

func train(steps int) tune.Trainable {
	return func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		for step := 1; step <= steps; step++ {
			if err := r.Report(step, map[string]float64{"accuracy": curve(p.Float("x"), step)}); err != nil {
				return err
			}
		}
		return nil
	}
}

var line = tune.Space{tune.Real("x", 0, 1)}

func TestRunFindsTheBestOfItsSamples(t *testing.T) {
	for _, parallel := range []int{1, 8} {
		for _, dir := range []string{"", t.TempDir()} {
			res, err := tune.Run(t.Context(), train(5), tune.Config{Space: line, Metric: "accuracy", Samples: 50, Parallel: parallel, Dir: dir, Seed: 1, Logger: quiet})
			if err != nil {
				t.Fatalf("parallel %d dir %q: %v", parallel, dir, err)
			}
			if n := len(res.Trials()); n != 50 {
				t.Errorf("parallel %d: got %d trials, want 50", parallel, n)
			}
			if x := res.BestTrial().Params.Float("x"); math.Abs(x-0.3) > 0.05 {
				t.Errorf("parallel %d: got best x %v, want one near 0.3", parallel, x)
			}
			if got, want := res.Value(res.BestTrial()), curve(res.BestTrial().Params.Float("x"), 5); got != want {
				t.Errorf("parallel %d: got best reward %v, want %v", parallel, got, want)
			}
			if best := res.Trials()[res.BestTrial().Number]; best.State != tune.Completed || len(best.Reports) != 5 || best.Attempts != 1 {
				t.Errorf("parallel %d: best trial is %s with %d reports in %d attempts, want completed, 5, 1", parallel, best.State, len(best.Reports), best.Attempts)
			}
		}
	}
}

// The example of Ray's BasicVariantGenerator: 4 samples, a grid of 2 and three points make 6
// trials.
func TestPointsTakeThePlaceOfSamples(t *testing.T) {
	res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"v": p.Float("b")})
	}, tune.Config{Space: tune.Space{tune.Grid("a", 1, 2), tune.Int("b", 0, 9)}, Samples: 4, Logger: quiet,
		Points: []tune.Point{{"a": 2, "b": 2}, {"a": 1}, {"b": 7}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range res.Trials() {
		b := "?"
		if x.Number == 0 || x.Number == 2 || x.Number == 3 {
			b = fmt.Sprint(x.Params.Int("b"))
		}
		got = append(got, fmt.Sprintf("%s a=%d b=%s", x.Origin, x.Params.Int("a"), b))
	}
	want := "point a=2 b=2|point a=1 b=?|point a=1 b=7|point a=2 b=7|suggester a=1 b=?|suggester a=2 b=?"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("trials:\ngot  %s\nwant %s", s, want)
	}
}

func TestTrialsFailEachInItsClassAndTheSearchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries [6]atomic.Int32
		res, err := tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
			n := tries[r.Trial()].Add(1)
			report := func(v float64) error { return r.Report(int(n), map[string]float64{"v": v}) }
			switch r.Trial() {
			case 0:
				panic("out of ideas")
			case 1:
				return tune.Fail(tune.OutOfMemory, errors.New("48 GiB wanted"))
			case 2:
				if n <= 2 {
					return tune.Fail(tune.NodeLost, errors.New("host is gone"))
				}
				return report(2)
			case 3:
				<-ctx.Done() // hangs, but listens
				return ctx.Err()
			case 4:
				return nil // says nothing
			default:
				return report(p.Float("x"))
			}
		}, tune.Config{Space: line, Samples: 6, Metric: "v", Parallel: 2, ReportTimeout: time.Minute, Retries: tune.Retries{OutOfMemory: 1}, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			state   tune.State
			failure tune.Failure
			tries   int32
			text    string
		}{
			{tune.Failed, tune.UserCode, 1, "panic: out of ideas"},
			{tune.Failed, tune.OutOfMemory, 2, "48 GiB wanted"},
			{tune.Completed, tune.NodeLost, 3, "host is gone"},
			{tune.Failed, tune.Silent, 1, "no report for 1m0s, after its start"},
			{tune.Failed, tune.UserCode, 1, "returned without a report"},
			{tune.Completed, "", 1, ""},
		} {
			x := res.Trials()[i]
			if x.State != want.state || x.Failure != want.failure || tries[i].Load() != want.tries || !strings.Contains(x.Error, want.text) {
				t.Errorf("trial %d: got %s %q after %d tries, error %q; want %s %q after %d, %q", i, x.State, x.Failure, tries[i].Load(), x.Error, want.state, want.failure, want.tries, want.text)
			}
		}
		if res.BestTrial().Number != 2 {
			t.Errorf("best: got trial %d, want 2", res.BestTrial().Number)
		}
	})
}

func TestATrialThatNeverReturnsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		res, err := tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
			if r.Trial() == 0 {
				<-release // deaf to ctx
				return r.Report(1, map[string]float64{"v": 9})
			}
			return r.Report(1, map[string]float64{"v": 1})
		}, tune.Config{Space: line, Samples: 3, ReportTimeout: time.Minute, Grace: time.Second, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 61*time.Second {
			t.Errorf("the search took %v, want 1m1s", took)
		}
		if x := res.Trials()[0]; x.State != tune.Failed || x.Failure != tune.Silent || !strings.Contains(x.Error, "abandoned") {
			t.Errorf("trial 0: got %s %q: %s", x.State, x.Failure, x.Error)
		}
		if n := len(res.Trials()); n != 3 || res.BestTrial().Number != 1 {
			t.Errorf("got %d trials, best %d; want 3, 1", n, res.BestTrial().Number)
		}
		close(release)
	})
}

func TestValuesThatAreNotFiniteEndTheTrialAndNeverWin(t *testing.T) {
	for _, keep := range []bool{false, true} {
		res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			v := []float64{math.NaN(), math.Inf(-1), math.Inf(1), 3}[r.Trial()]
			for step := range 3 {
				if err := r.Report(step, map[string]float64{"loss": v}); err != nil {
					return err
				}
			}
			return nil
		}, tune.Config{Space: line, Samples: 4, Mode: tune.Min, KeepDiverged: keep, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if res.BestTrial().Number != 3 || res.Value(res.BestTrial()) != 3 {
			t.Errorf("keep %t: got best trial %d with %v, want 3 with 3", keep, res.BestTrial().Number, res.Value(res.BestTrial()))
		}
		for _, x := range res.Trials()[:3] {
			state, reports := tune.Pruned, 1
			if keep {
				state, reports = tune.Completed, 3
			}
			if x.State != state || len(x.Reports) != reports {
				t.Errorf("keep %t trial %d: got %s after %d reports (%s), want %s after %d", keep, x.Number, x.State, len(x.Reports), x.Rule, state, reports)
			}
		}
	}
}

func TestAnUnknownMetricIsAnErrorThatNamesWhatWasReported(t *testing.T) {
	for _, tc := range []struct {
		metric   string
		reported map[string]float64
		want     string
	}{
		{"acuracy", map[string]float64{"loss": 1, "accuracy": 2}, `trial 0 step 1: metric "acuracy" was not reported, but accuracy, loss`}, //nolint:misspell // the name is to be wrong
		{"", map[string]float64{"loss": 1, "accuracy": 2}, "Config.Metric is not set, and the first report has accuracy, loss"},
		{"", map[string]float64{"loss": 1}, `metric "loss" looks like one to minimize: set the mode (Config.Mode, mode: in study.yaml) to min`},
	} {
		runs := 0
		res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			runs++
			return r.Report(1, tc.reported)
		}, tune.Config{Space: line, Samples: 10, Metric: tc.metric, Logger: quiet})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("metric %q: got %v, want %q", tc.metric, err, tc.want)
		}
		if runs != 1 || res == nil {
			t.Errorf("metric %q: got %d trials and result %v, want the search to end at the first", tc.metric, runs, res)
		}
	}
}

func TestATrialMayGoOnAfterAReportThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
			for step := range 5 {
				err := r.Report(step, map[string]float64{"v": 1})
				if again := r.Report(-1, map[string]float64{"v": 1}); again == nil || err != nil {
					return fmt.Errorf("step %d: %v; step -1: %v", step, err, again)
				}
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}, tune.Config{Space: line, Metric: "v", Grace: time.Second, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if x := res.Trials()[0]; x.State != tune.Completed || len(x.Reports) != 5 {
			t.Errorf("got %s with %d reports: %s", x.State, len(x.Reports), x.Error)
		}
	})
}

// growing is a Runner with places that may become more.
type growing struct {
	tune.Runner
	free chan struct{} // holds one for each place that is free
}

func (g *growing) Fits(tune.Resources) error { return nil }

func (g *growing) Acquire(ctx context.Context, _ tune.Resources) (tune.Place, error) {
	select {
	case <-g.free:
		return growingPlace{g}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type growingPlace struct{ of *growing }

func (p growingPlace) Location() string { return "here" }
func (p growingPlace) Release()         { p.of.free <- struct{}{} }

// Places that come while a search runs get trials, too.
func TestAsManyTrialsRunAsFit(t *testing.T) {
	var running atomic.Int32
	g := &growing{free: make(chan struct{}, 10)}
	all := make(chan struct{}) // closed when three trials run at once
	g.Runner = tune.InProcess(func(ctx context.Context, _ tune.Params, r *tune.Reporter) error {
		if n := running.Add(1); n == 3 {
			close(all)
		}
		g.free <- struct{}{} // another place, three times
		select {
		case <-all:
		case <-time.After(10 * time.Second):
			return errors.New("no other trial began")
		}
		return r.Report(1, map[string]float64{"value": 1})
	})
	g.free <- struct{}{}
	cfg := tune.Config{Space: tune.Space{tune.Grid("x", 1, 2, 3)}, Metric: "value", Runner: g, Parallel: tune.AsManyAsFit}
	result := mustRun(t, cfg)
	for _, x := range result.Trials() {
		if x.State != tune.Completed {
			t.Errorf("trial %d is %s: %s", x.Number, x.State, x.Error)
		}
	}
	cfg.Runner = nil
	if _, err := tune.Run(t.Context(), func(context.Context, tune.Params, *tune.Reporter) error { return nil }, cfg); err == nil || !strings.Contains(err.Error(), "AsManyAsFit") {
		t.Errorf("without places: got %v, want an error", err)
	}
}

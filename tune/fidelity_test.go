package tune_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

func TestLevelsOfAFidelity(t *testing.T) {
	for _, x := range []struct {
		f      tune.Fidelity
		levels []float64
		steps  []int
	}{
		{tune.Fidelity{Parameter: "width", Low: 16, High: 128, Eta: 2}, []float64{16, 32, 64, 128}, []int{16, 32, 64, 128}},
		{tune.Fidelity{Parameter: "width", Low: 16, High: 128}, []float64{16, 48, 128}, []int{16, 48, 128}},
		{tune.Fidelity{Parameter: "share", Low: 0.1, High: 1, Eta: 2}, []float64{0.1, 0.2, 0.4, 1}, []int{100, 200, 400, 1000}},
		{tune.Fidelity{Parameter: "layers", Low: 1, High: 3, Eta: 1.5}, []float64{1, 2, 3}, []int{1, 2, 3}},
		{tune.Fidelity{Parameter: "size", Low: 64, High: 64}, []float64{64}, []int{64}},
		{tune.Fidelity{Parameter: "size", Low: 60, High: 64}, []float64{60, 64}, []int{60, 64}},
	} {
		var steps []int
		got := x.f.Levels()
		for _, level := range got {
			steps = append(steps, x.f.Step(level))
		}
		if !slices.EqualFunc(got, x.levels, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) || !slices.Equal(steps, x.steps) {
			t.Errorf("%+v: got levels %v at steps %v, want %v at %v", x.f, got, steps, x.levels, x.steps)
		}
	}
}

func TestAFidelityThatMakesNoSenseIsRefusedByName(t *testing.T) {
	for _, x := range []struct {
		f         tune.Fidelity
		scheduler tune.Scheduler
		want      string
	}{
		{tune.Fidelity{Low: 1, High: 2}, tune.FIFO{}, "no parameter"},
		{tune.Fidelity{Parameter: "w", Low: 0, High: 2}, tune.FIFO{}, "low is 0"},
		{tune.Fidelity{Parameter: "w", Low: 3, High: 2}, tune.FIFO{}, "high is 2 and low 3"},
		{tune.Fidelity{Parameter: "w", Low: 1, High: math.NaN()}, tune.FIFO{}, "finite"},
		{tune.Fidelity{Parameter: "w", Low: 1, High: 2, Eta: 1}, tune.FIFO{}, "eta is 1"},
		{tune.Fidelity{Parameter: "w", Low: 0.001, High: 1.5}, tune.FIFO{}, "1000 times"},
		{tune.Fidelity{Parameter: "w", Low: 1, High: 1e10}, tune.FIFO{}, "want at most 2147483647"},
		{tune.Fidelity{Parameter: "x", Low: 1, High: 2}, tune.FIFO{}, `"x" is in the space`},
		{tune.Fidelity{Parameter: "w", Low: 1, High: 2}, nil, "no Scheduler"},
		{tune.Fidelity{Parameter: "w", Low: 1, High: 2}, &schedule.Goodput{}, "divides nodes"},
	} {
		cfg := tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: &x.f, Scheduler: x.scheduler}
		err := cfg.Validate()
		var field *tune.FieldError
		if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, &field) || field.Field != "Fidelity" {
			t.Errorf("%+v: got %v, want an error of Fidelity that says %q", x.f, err, x.want)
		}
	}
}

// A default scheduler decides who goes on to the next level, as one that is named does, and is held
// to the same.
func TestADefaultSchedulerGoesWithAFidelity(t *testing.T) {
	f := &tune.Fidelity{Parameter: "w", Low: 1, High: 9}
	cfg := tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: f, DefaultScheduler: &schedule.Predict{MinStep: 1, MaxStep: 9}}
	if err := cfg.Validate(); err != nil {
		t.Errorf("with schedule.Predict by default: %v", err)
	}
	for _, one := range []tune.Scheduler{&schedule.PBT{Population: 4, Interval: 1}, &schedule.Goodput{}} {
		cfg.DefaultScheduler = one
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%T", one)) {
			t.Errorf("with %T by default: got %v, want an error that names it", one, err)
		}
	}
}

// wide is what a trial of a width comes to: little width flatters small x.
func wide(p tune.Params) float64 {
	x, w := p.Float("x"), p.Float("width")
	return x*math.Log(w) + (1-x)*16/w
}

func fidelityConfig(dir string, scheduler tune.Scheduler) tune.Config {
	return tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Fidelity: &tune.Fidelity{Parameter: "width", Low: 16, High: 128, Eta: 2},
		Metric: "v", Mode: tune.Max, Samples: 16, Seed: 3, Dir: dir, Resume: tune.ResumeAuto, Suggester: &suggest.TPE{Startup: 4},
		Scheduler: scheduler, Logger: slog.New(slog.DiscardHandler)}
}

var fidelityRules = []struct {
	name string
	make func() tune.Scheduler
}{
	{"promotion", func() tune.Scheduler {
		return &schedule.ASHA{Rule: schedule.Promotion, MinStep: 16, MaxStep: 128, Eta: 2}
	}},
	{"stopping", func() tune.Scheduler { return &schedule.ASHA{MinStep: 16, MaxStep: 128, Eta: 2} }},
	{"hyperband", func() tune.Scheduler { return &schedule.Hyperband{MaxStep: 128, Eta: 2} }},
	{"predict", func() tune.Scheduler { return &schedule.Predict{MaxStep: 128, MinTrials: 3} }},
	{"median", func() tune.Scheduler { return &schedule.MedianStopping{} }},
	{"percentile", func() tune.Scheduler { return &schedule.Percentile{Startup: 1} }},
	{"fifo", func() tune.Scheduler { return tune.FIFO{} }},
}

// A trial begins at the lowest fidelity, with Hyperband at that of its bracket; the rule decides
// who is run again at the next, with the same parameters; and only the highest one counts for the
// best.
func TestTheRuleDecidesAtWhichFidelityATrialRuns(t *testing.T) {
	for _, rule := range fidelityRules {
		runs := map[int][]int{} // by trial: its widths
		cfg := fidelityConfig(t.TempDir(), rule.make())
		result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			runs[r.Trial()] = append(runs[r.Trial()], p.Int("width"))
			if err := r.Checkpoint(1, func(string) error { return errors.New("written") }); err != nil {
				return err
			}
			if _, _, ok := r.Restore(); ok {
				return errors.New("it goes on from a checkpoint")
			}
			for epoch := 1; epoch <= 3; epoch++ { // the last one counts
				if err := r.Report(epoch, map[string]float64{"v": wide(p) - float64(3-epoch)}); err != nil {
					return err
				}
			}
			return nil
		}, cfg)
		if err != nil {
			t.Errorf("%s: %v", rule.name, err)
			continue
		}
		levels, full, best := []int{16, 32, 64, 128}, 0, -1
		for _, x := range result.Trials() {
			widths := runs[x.Number]
			first := max(slices.Index(levels, widths[0]), 0)
			if first > 0 && rule.name != "hyperband" || !slices.Equal(widths, levels[first:first+len(widths)]) || len(x.Reports) != len(widths) {
				t.Fatalf("%s: trial %d ran at widths %v with %d reports, want those that follow each other in %v, each with a report", rule.name, x.Number, widths, len(x.Reports), levels)
			}
			for i, r := range x.Reports {
				p, _ := x.Params.With("width", widths[i])
				if r.Step != widths[i] || r.Value != wide(p) {
					t.Errorf("%s: trial %d has value %v at step %d, want %v at %d", rule.name, x.Number, r.Value, r.Step, wide(p), widths[i])
				}
			}
			if widths[len(widths)-1] < 128 {
				if v := result.Value(x); !math.IsNaN(v) {
					t.Errorf("%s: trial %d ran at %v and counts with %v", rule.name, x.Number, widths, v)
				}
				continue
			}
			full++
			if x.State != tune.Completed {
				t.Errorf("%s: trial %d is %s after the highest fidelity", rule.name, x.Number, x.State)
			}
			if best < 0 || result.Value(x) > result.Value(result.Trials()[best]) {
				best = x.Number
			}
		}
		if b := result.BestTrial(); b.Number != best || b.Params.Int("width") != 128 {
			t.Errorf("%s: the best is trial %d with %v, want trial %d at width 128", rule.name, b.Number, b.Params, best)
		}
		if full == 0 || rule.name != "fifo" && full == len(runs) {
			t.Errorf("%s: %d of %d trials ran at the highest fidelity, want some", rule.name, full, len(runs))
		}
		if _, err := tune.Replay(cfg.Dir, fidelityConfig("", rule.make())); err != nil {
			t.Errorf("%s: %v", rule.name, err)
		}
		read, err := tune.ReadResult(cfg.Dir)
		if err != nil || read.BestTrial().Number != best || read.DecisionHash() != result.DecisionHash() {
			t.Errorf("%s: from the log alone: %v, best trial %d", rule.name, err, read.BestTrial().Number)
		}
		if again, err := result.RunBest(context.Background()); err != nil || again.Params.Int("width") != 128 || len(again.Reports) != 1 {
			t.Errorf("%s: run once more: %v: %v with %d reports, want one at width 128", rule.name, err, again.Params, len(again.Reports))
		}
	}
}

func TestARunAtAFidelityThatReportsNothingHasFailed(t *testing.T) {
	cfg := fidelityConfig("", tune.FIFO{})
	cfg.Samples = 1
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		if p.Int("width") > 16 {
			return nil
		}
		return r.Report(1, map[string]float64{"v": 1})
	}, cfg)
	if x := result.Trials()[0]; !errors.Is(err, tune.ErrNoResult) || x.State != tune.Failed || !strings.Contains(err.Error(), "only results at width 128 count") {
		t.Errorf("got %s (%v), want failed, and that only width 128 counts", x.State, err)
	}
}

// drive runs a study with up to four trials at once, whose runs end in an order of their own.
func drive(s *tune.Study, broken func() bool) error {
	var running []tune.Trial
	for !broken() {
		for len(running) < 4 {
			x, err := s.TryAsk()
			if errors.Is(err, tune.ErrWait) || errors.Is(err, tune.ErrDone) && len(running) > 0 {
				break
			}
			if errors.Is(err, tune.ErrDone) {
				return nil
			}
			if err != nil {
				return err
			}
			running = append(running, x)
		}
		slices.SortFunc(running, func(a, b tune.Trial) int {
			turn := func(x tune.Trial) float64 {
				return math.Mod(1e4*math.Sin(float64(x.Number)+x.Params.Float("width")/1000), 1)
			}
			return cmp.Compare(turn(a), turn(b))
		})
		x := running[0]
		for step := 1; step <= 2; step++ {
			if d, err := s.Tell(x.Number, step, map[string]float64{"v": wide(x.Params) - float64(2-step)}); err != nil || d.Action != tune.Continue {
				return fmt.Errorf("trial %d step %d: %v: %v", x.Number, step, d.Action, err)
			}
		}
		if err := s.Finish(x.Number, nil); err != nil {
			return err
		}
		running = running[1:]
	}
	return nil
}

// The log is cut after each of its events and within lines, as a kill -9 may leave it: the search
// goes on with the same decisions, and replays.
func TestASearchOverFidelitiesGoesOnWithTheSameDecisionsFromAnyCut(t *testing.T) {
	every := 16
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		every = 1
	}
	for _, rule := range fidelityRules {
		finish := func(dir string) (hash string, log []byte) {
			t.Helper()
			s, err := tune.NewStudy(fidelityConfig(dir, rule.make()))
			if err != nil {
				t.Fatalf("%s: %v", rule.name, err)
			}
			if err := drive(s, func() bool { return false }); err != nil {
				t.Fatalf("%s: %v", rule.name, err)
			}
			hash = s.Result().DecisionHash()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			log, err = os.ReadFile(filepath.Join(dir, "log.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := tune.Replay(dir, fidelityConfig("", rule.make())); err != nil || again.DecisionHash != hash {
				t.Fatalf("%s: replay: %v", rule.name, err)
			}
			return hash, log
		}
		want, log := finish(t.TempDir())
		at := 0
		for i, line := range bytes.SplitAfter(log, []byte("\n")) {
			at += len(line)
			if (i+1)%every != 0 {
				continue
			}
			for _, cut := range []int{at, at - len(line)/2} {
				dir := t.TempDir()
				f, err := os.Create(filepath.Join(dir, "log.jsonl"))
				if err == nil {
					_, err = io.Copy(f, bytes.NewReader(log[:cut]))
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
				if got, _ := finish(dir); got != want {
					t.Errorf("%s: cut at byte %d of %d, after event %d: the decisions are others: hash %.8s, want %.8s", rule.name, cut, len(log), i, got, want)
				}
			}
		}
	}
}

// A run at a fidelity is a process of its own, which checkpoints in vain: nothing is carried to the
// next level.
func TestRunsAtAFidelityInProcessesOfTheirOwn(t *testing.T) {
	cfg := jobsConfig(t, processes(t, "well"))
	cfg.Fidelity, cfg.Scheduler = &tune.Fidelity{Parameter: "width", Low: 1, High: 9}, tune.FIFO{}
	result := mustRun(t, cfg)
	for _, x := range result.Trials() {
		if x.State != tune.Completed || len(x.Reports) != 3 || x.Attempts != 3 || len(x.Checkpoints) != 0 {
			t.Errorf("trial %d is %s with %d reports, %d attempts and %d checkpoints, want completed, 3, 3, none", x.Number, x.State, len(x.Reports), x.Attempts, len(x.Checkpoints))
		}
		for i, r := range x.Reports {
			if want := float64(10*x.Params.Int("x") + 4); r.Value != want || r.Step != []int{1, 3, 9}[i] {
				t.Errorf("trial %d reports %v at step %d, want %v, the last of each run, at 1, 3 and 9", x.Number, r.Value, r.Step, want)
			}
		}
	}
	if got := result.BestTrial().Params.Int("width"); got != 9 {
		t.Errorf("the best ran at width %d, want 9", got)
	}
}

package tune_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// A search may be resumed with more samples, another suggester and other pruners. Its log has what
// decided when.
func TestALogReplaysAfterResumesWithOtherRules(t *testing.T) {
	dir := t.TempDir()
	asha := func() tune.Scheduler {
		return &schedule.Patience{Reports: 50, Inner: &schedule.ASHA{MaxStep: 8, Eta: 2, Guard: &schedule.Guard{MinReports: 6}}}
	}
	openings := []func() tune.Config{
		func() tune.Config { return tune.Config{Samples: 6, Scheduler: asha(), Suggester: &suggest.Sobol{}} },
		func() tune.Config { return tune.Config{Samples: 9, Scheduler: asha(), Suggester: &suggest.Sobol{}} },
		func() tune.Config {
			return tune.Config{Samples: 14, Scheduler: asha(), Suggester: &suggest.Limit{Max: 2, Suggester: &suggest.TPE{Startup: 3, PriorWeight: 0.5}}}
		},
		func() tune.Config {
			return tune.Config{Samples: 17, Scheduler: asha(), Pruners: []tune.Pruner{schedule.Reached{Value: 1e9}, schedule.TrialTime(time.Hour), schedule.Number(99)}}
		},
		func() tune.Config { return tune.Config{Samples: 20, Scheduler: asha(), Suggester: &suggest.Sobol{}} },
	}
	full := func(cfg tune.Config) tune.Config {
		cfg.Space, cfg.Metric, cfg.Mode, cfg.Dir, cfg.Seed = line, "v", tune.Max, dir, 5
		cfg.Parallel, cfg.Resume, cfg.Logger = 3, tune.ResumeAuto, quiet
		return cfg
	}
	var hash string
	for _, make := range openings {
		res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			for step := 1; step <= 8; step++ {
				if err := r.Report(step, map[string]float64{"v": value(p, step)}); err != nil {
					return err
				}
			}
			return nil
		}, full(make()))
		if err != nil {
			t.Fatal(err)
		}
		hash = res.DecisionHash()
	}
	wantEvents := 0
	if err := tune.ReadLog(dir, func(tune.Event) error { wantEvents++; return nil }); err != nil {
		t.Fatal(err)
	}
	known := []any{&suggest.TPE{}, &suggest.Limit{}, schedule.Reached{}, schedule.TrialTime(0), schedule.Number(0)}
	got, err := tune.Replay(dir, full(openings[4]()), known...)
	if err != nil || got.DecisionHash != hash || got.Proposals != 20 || got.Events != wantEvents {
		t.Errorf("got %+v, %v, want 20 proposals in %d events and hash %.8s", got, err, wantEvents, hash)
	}
	if got, err := tune.Replay(dir, full(openings[2]()), append(known, &suggest.Sobol{})...); err != nil || got.DecisionHash != hash {
		t.Errorf("with the rules of another opening: got %+v, %v, want hash %.8s", got, err, hash)
	}
	if read, err := tune.ReadResult(dir); err != nil || read.DecisionHash() != hash || read.View().Plan().Trials != 20 {
		t.Errorf("from the log alone: %v, want 20 trials and hash %.8s", err, hash)
	}
	_, err = tune.Replay(dir, full(openings[4]()))
	if err == nil || !strings.Contains(err.Error(), "*suggest.Limit cannot be restored from the log; give Replay a value of that type") {
		t.Errorf("without the types: got %v, want an error that names *suggest.Limit", err)
	}
	// Rules that no opening had are a question: would they have decided the same?
	if _, err := tune.Replay(dir, full(tune.Config{Suggester: &suggest.TPE{}, Scheduler: asha()}), known...); !diverges(err) {
		t.Errorf("with rules that no opening had: got %v, want a difference", err)
	}
}

func diverges(err error) bool {
	var d *tune.DivergedError
	return errors.As(err, &d)
}

// A scheduler that would have decided otherwise cannot take over, and the error says that it is
// another one.
func TestAnotherSchedulerThatDiffersIsNamed(t *testing.T) {
	cfg := tune.Config{Space: line, Metric: "v", Samples: 8, Dir: t.TempDir(), Resume: tune.ResumeAuto, Logger: quiet, Scheduler: &schedule.ASHA{MaxStep: 8, Eta: 2}}
	run := func() error {
		_, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			for step := 1; step <= 8; step++ {
				if err := r.Report(step, map[string]float64{"v": value(p, step)}); err != nil {
					return err
				}
			}
			return nil
		}, cfg)
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	cfg.Scheduler = nil
	want := `the scheduler was schedule.ASHA{"Eta":2,"MaxStep":8} and is now tune.FIFO: put it back, or search in another folder`
	if err := run(); !diverges(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a difference and %s", err, want)
	}
}

// A resume with other rules says so.
func TestResumesSayWhatChanged(t *testing.T) {
	var log strings.Builder
	cfg := tune.Config{Space: line, Metric: "v", Samples: 2, Dir: t.TempDir(), Resume: tune.ResumeAuto, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 2 {
		if _, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			return r.Report(1, map[string]float64{"v": 1})
		}, cfg); err != nil {
			t.Fatal(err)
		}
		cfg.Samples, cfg.Suggester = 4, &suggest.Sobol{}
	}
	if got := log.String(); !strings.Contains(got, "the suggester was tune.Random and is now suggest.Sobol; Samples was 2 and is now 4") || !strings.Contains(got, filepath.Join(cfg.Dir, "log.jsonl")) {
		t.Errorf("got the log %s, want the change of Samples", got)
	}
}

// A log without an event shows nothing, and is not taken for one that was recomputed.
func TestAnEmptyLogIsNotReplayed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.jsonl"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := tune.Replay(dir, tune.Config{Space: tune.Space{tune.Grid("x", 1)}, Metric: "value"})
	if err == nil || !strings.Contains(err.Error(), "it has no event") {
		t.Errorf("got %v, want an error", err)
	}
}

package tune_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// A study that begins takes the default scheduler. One that began with FIFO, before there was a
// default, keeps it, and its decisions. Both replay, and can be loaded, with the default that they
// may have had.
func TestAStudyThatHasBegunKeepsFIFO(t *testing.T) {
	ctx := context.Background()
	report := func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		for step := 1; step <= 6; step++ {
			if err := r.Report(step, map[string]float64{"v": p.Float("x") * float64(step)}); err != nil {
				return err
			}
		}
		return nil
	}
	config := func(dir string, samples int) tune.Config {
		return tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}, Metric: "v", Mode: tune.Max, Samples: samples, Parallel: 1, Seed: 5, Dir: dir, Resume: tune.ResumeAuto}
	}
	dir := t.TempDir()
	stopped := func(cfg tune.Config) int {
		result, err := tune.Run(ctx, report, cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range result.Trials() {
			if x.State == tune.Pruned {
				n++
			}
		}
		return n
	}
	stopped(config(filepath.Join(dir, "old"), 20))
	again, begun := config(filepath.Join(dir, "old"), 40), config(filepath.Join(dir, "new"), 40)
	again.DefaultScheduler, begun.DefaultScheduler = &schedule.Predict{}, &schedule.Predict{}
	if n := stopped(again); n != 0 {
		t.Errorf("the study began with FIFO, and %d of its trials were stopped", n)
	}
	if n := stopped(begun); n < 10 {
		t.Errorf("%d of 40 random trials were stopped by the default scheduler, want 10 or more", n)
	}
	begun.DefaultScheduler, begun.Samples = &schedule.Predict{}, 50 // it goes on with what it began with
	if n := stopped(begun); n < 15 {
		t.Errorf("%d of 50 random trials were stopped by the default scheduler, want 15 or more", n)
	}
	for name, cfg := range map[string]tune.Config{"old": again, "new": begun} {
		cfg.DefaultScheduler = &schedule.Predict{}
		if _, err := tune.Replay(cfg.Dir, cfg); err != nil {
			t.Errorf("replay of the %s study: %v", name, err)
		}
		cfg.DefaultScheduler = &schedule.Predict{}
		if result, err := tune.Load(cfg.Dir, cfg); err != nil {
			t.Errorf("load of the %s study: %v", name, err)
		} else if got, want := result.View().Plan().Scheduler, map[string]string{"old": "tune.FIFO", "new": "schedule.Predict"}[name]; got != want {
			t.Errorf("the %s study is loaded with %s, want %s", name, got, want)
		}
	}
	begun.Objectives = []tune.Objective{{Metric: "v", Mode: tune.Max}, {Metric: "w", Mode: tune.Min}}
	begun.Metric, begun.Mode, begun.Dir = "", tune.Auto, filepath.Join(dir, "several")
	if _, err := tune.Run(ctx, report, begun); err == nil || !strings.Contains(err.Error(), "DefaultScheduler") {
		t.Errorf("with two objectives: %v, want an error that names DefaultScheduler", err)
	}
	elastic := config("", 1)
	elastic.DefaultScheduler = &schedule.Goodput{}
	if err := elastic.Validate(); err == nil || !strings.Contains(err.Error(), "DefaultScheduler") {
		t.Errorf("with schedule.Goodput by default: %v, want an error that names DefaultScheduler", err)
	}
}

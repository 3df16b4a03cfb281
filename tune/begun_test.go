package tune_test

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// begunConfig is that of the studies in testdata/begun.
func begunConfig(name string) tune.Config {
	cfg := tune.Config{Name: name, Metric: "accuracy", Mode: tune.Max, Samples: 12, Seed: 7, Resume: tune.ResumeAuto, Logger: slog.New(slog.DiscardHandler),
		Space: tune.Space{tune.Real("rate", 1e-4, 1).Log(), tune.Choice("optimizer", "sgd", "adam"), tune.Real("momentum", 0, 0.9).When("optimizer", "sgd"), tune.Int("layers", 1, 4)}}
	switch name {
	case "asha":
		cfg.Suggester, cfg.Scheduler = &suggest.TPE{}, &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 9}
		cfg.Pruners = []tune.Pruner{schedule.Reached{Value: 0.999, TrialOnly: true}}
	case "pbt":
		cfg.Samples, cfg.Scheduler = 4, &schedule.PBT{Interval: 2, Synchronous: true}
	case "hyperband":
		cfg.Scheduler = &schedule.Hyperband{MaxStep: 9}
	}
	now := time.Date(2026, 11, 1, 13, 0, 0, 0, time.UTC)
	cfg.Now = func() time.Time { now = now.Add(time.Second); return now }
	return cfg
}

// begunValue is what a trial of these studies reports.
func begunValue(p tune.Params, step int) float64 {
	x := math.Log10(p.Float("rate")) + 2
	m, _ := p.Get("momentum")
	f, _ := m.(float64)
	return (1 - x*x/8 + f/10) * (1 - math.Exp(-float64(step)/float64(2+p.Int("layers"))))
}

// driveBegun runs two trials at a time, each up to nine steps, to the end of the study.
func driveBegun(t *testing.T, s *tune.Study) {
	t.Helper()
	type run struct {
		trial tune.Trial
		step  int
	}
	var all []*run
	for n := 0; ; n++ {
		for len(all) < 2 {
			x, err := s.TryAsk()
			if errors.Is(err, tune.ErrWait) || errors.Is(err, tune.ErrDone) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &run{trial: x})
		}
		if len(all) == 0 {
			return
		}
		r := all[n%len(all)]
		r.step++
		d, err := s.Tell(r.trial.Number, r.step, map[string]float64{"accuracy": begunValue(r.trial.Params, r.step)})
		if err == nil && (d.Action != tune.Continue || r.step == 9) {
			err = s.Finish(r.trial.Number, nil)
			all = slices.DeleteFunc(all, func(x *run) bool { return x == r })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Studies whose logs an older build began go on, and end with the decisions that the older build
// would have made. The logs and hashes are from the build of commit 784fd50c1, which wrote 25
// reports of each study, closed it, resumed it, and ran it to its end.
func TestAStudyThatAnOlderBuildBeganGoesOn(t *testing.T) {
	for name, want := range map[string]string{
		"asha":      "f29ae3cf4258846117c797e8b7f3838bdafe331462f4c72947ee1a89ac107659",
		"pbt":       "85d74c252fa649938566235b2be2a247c11bf58b3db49a4de995de6fbcd6dcc5",
		"hyperband": "17e9f86e0a63c3ae32904bbc19e0a64b850dc0de4756fb009c75f02f7cd1b839",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "begun", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := begunConfig(name)
			cfg.Dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(cfg.Dir, "log.jsonl"), text, 0o666); err != nil {
				t.Fatal(err)
			}
			s, err := tune.NewStudy(cfg)
			if err != nil {
				t.Fatal(err)
			}
			driveBegun(t, s)
			if got := s.Result().DecisionHash(); got != want {
				t.Errorf("the hash of the decisions is %s, want %s", got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

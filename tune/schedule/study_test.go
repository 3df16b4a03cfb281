package schedule_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

const steps = 9

// train goes to step 9, from its checkpoint if it has one, and keeps one with every report.
func train(_ context.Context, p tune.Params, r *tune.Reporter) error {
	first, value := 1, 0.0
	if dir, step, ok := r.Restore(); ok {
		b, err := os.ReadFile(filepath.Join(dir, "value"))
		if err != nil {
			return err
		}
		if value, err = strconv.ParseFloat(string(b), 64); err != nil {
			return err
		}
		first = step + 1
	}
	for step := first; step <= steps; step++ {
		value += (p.Float("quality") - value) * 0.3
		if err := r.Checkpoint(step, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "value"), strconv.AppendFloat(nil, value, 'g', -1, 64), 0o666)
		}); err != nil {
			return err
		}
		if err := r.Report(step, map[string]float64{"accuracy": value}); err != nil {
			return err
		}
	}
	return nil
}

func config(name string, dir string) tune.Config {
	cfg := tune.Config{Space: tune.Space{tune.Real("quality", 0.1, 1)}, Metric: "accuracy", Mode: tune.Max, Samples: 14, Seed: 3, Parallel: 4,
		Dir: dir, Suggester: &suggest.TPE{Startup: 4}}
	switch name {
	case "stopping":
		cfg.Scheduler = &schedule.ASHA{MaxStep: steps}
	case "stopping with a guard":
		cfg.Scheduler = &schedule.ASHA{MaxStep: steps, Guard: &schedule.Guard{}}
	case "brackets":
		cfg.Scheduler = &schedule.ASHA{MaxStep: steps, Brackets: 2}
	case "promotion":
		cfg.Scheduler, cfg.Parallel = &schedule.ASHA{MaxStep: steps, Rule: schedule.Promotion}, 1 // in one order, so that some are surely promoted
	case "promotion with a guard":
		cfg.Scheduler = &schedule.ASHA{MaxStep: steps, Rule: schedule.Promotion, Guard: &schedule.Guard{RandomShare: 0.1}}
	case "optuna":
		cfg.Scheduler = &schedule.ASHA{Rule: schedule.OptunaRule, MinStep: 1}
	case "determined":
		cfg.Scheduler = &schedule.ASHA{Rule: schedule.DeterminedRule, MaxStep: steps}
	case "hyperband":
		cfg.Scheduler = &schedule.Hyperband{MaxStep: steps}
	case "ray's hyperband":
		cfg.Scheduler = &schedule.Hyperband{MaxStep: steps, Table: schedule.RayTable}
	case "optuna's hyperband":
		cfg.Scheduler = &schedule.OptunaHyperband{MaxStep: steps}
	case "predict":
		cfg.Scheduler = &schedule.Predict{MaxStep: steps}
	case "median":
		cfg.Scheduler = &schedule.MedianStopping{}
	case "percentile":
		cfg.Scheduler = schedule.Any{&schedule.Percentile{Startup: 2}, &schedule.Patience{Reports: 2}}
	case "population":
		cfg.Scheduler, cfg.Suggester = &schedule.PBT{Interval: 2}, nil
	case "population in step":
		cfg.Scheduler, cfg.Suggester = &schedule.PBT{Interval: 2, Synchronous: true}, nil
	case "pruners":
		cfg.Pruners = []tune.Pruner{schedule.MaxStep(4), schedule.Number(9)}
	default:
		panic(name)
	}
	return cfg
}

// A parallel search under each scheduler must end, leave no trial behind that could go on, go on
// from checkpoints without a step lost or done twice, and replay to the same decisions.
func TestStudiesEndAndReplay(t *testing.T) {
	for _, name := range []string{"stopping", "stopping with a guard", "brackets", "promotion", "promotion with a guard", "optuna", "determined", "hyperband", "ray's hyperband",
		"optuna's hyperband", "predict", "median", "percentile", "population", "population in step", "pruners"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			result, err := tune.Run(context.Background(), train, config(name, dir))
			if err != nil {
				t.Fatal(err)
			}
			explained, completed, resumed, changed := 0, 0, 0, 0
			for _, trial := range result.Trials() {
				for i, r := range trial.Reports {
					if r.Step != i+1 && len(trial.Changes) == 0 {
						t.Errorf("trial %d: report %d is of step %d", trial.Number, i, r.Step)
					}
				}
				if trial.State == tune.Failed || trial.State == tune.Pending || trial.State == tune.Running {
					t.Errorf("trial %d is %s: %s", trial.Number, trial.State, trial.Error)
				}
				if trial.Rule != "" {
					explained++
				}
				if trial.State == tune.Completed {
					completed++
					want := (steps)
					if name == "pruners" {
						want = 4
					}
					got := lastStep(&trial)
					if n := len(trial.Changes); n > 0 { // the checkpoint it was given may be of the last step: then it had nothing to report any more
						got = max(got, trial.Changes[n-1].DonorStep)
					}
					if got != want {
						t.Errorf("trial %d is completed at step %d, want %d", trial.Number, got, want)
					}
				}
				if trial.Attempts > 1 {
					resumed++
				}
				changed += len(trial.Changes)
				if q := trial.Params.Float("quality"); len(trial.Changes) == 0 && lastStep(&trial) > 0 {
					want := q * (1 - math.Pow(0.7, float64(lastStep(&trial))))
					last, _ := trial.Last()
					if math.Abs(last.Value-want) > 1e-9 {
						t.Errorf("trial %d: value %v at step %d, want %v: it did not go on from where it was", trial.Number, last.Value, lastStep(&trial), want)
					}
				}
			}
			if completed == 0 || explained == 0 && !strings.HasPrefix(name, "population") {
				t.Errorf("%d trials completed, %d have a rule", completed, explained)
			}
			if pauses := name == "promotion" || strings.HasSuffix(name, "hyperband") && !strings.HasPrefix(name, "optuna") || name == "population in step"; pauses && resumed == 0 {
				t.Error("no trial went on after a pause")
			}
			if strings.HasPrefix(name, "population") && changed == 0 {
				t.Error("no trial was copied")
			}
			replayed, err := tune.Replay(dir, config(name, dir))
			if err != nil {
				t.Fatal(err)
			}
			if replayed.DecisionHash != result.DecisionHash() {
				t.Errorf("replayed to hash %s, want %s", replayed.DecisionHash, result.DecisionHash())
			}
			read, err := tune.ReadResult(dir)
			if err != nil {
				t.Fatal(err)
			}
			if read.DecisionHash() != result.DecisionHash() || !reflect.DeepEqual(read.Trials(), result.Trials()) || read.View().Plan().Scheduler != result.View().Plan().Scheduler {
				t.Errorf("from the log alone: got hash %s and trials\n%+v\nwant %s and\n%+v", read.DecisionHash(), read.Trials(), result.DecisionHash(), result.Trials())
			}
			t.Logf("%d trials, %d completed, %d went on, %d copies, best %.3f", len(result.Trials()), completed, resumed, changed, result.Value(result.BestTrial()))
		})
	}
}

func TestAStudyRefusesAWrongScheduler(t *testing.T) {
	cfg := config("stopping", "")
	cfg.Scheduler = &schedule.ASHA{}
	if _, err := tune.Run(context.Background(), train, cfg); err == nil || !strings.Contains(err.Error(), "MaxStep is 0") {
		t.Errorf("got %v, want an error about MaxStep", err)
	}
}

// lastStep is the step of a trial's newest report, or -1.
func lastStep(t *tune.Trial) int {
	if step, ok := t.LastStep(); ok {
		return step
	}
	return -1
}

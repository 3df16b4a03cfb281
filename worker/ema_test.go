package worker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// A modelLog is an evaluator that notes the parameters at each evaluation.
type modelLog struct {
	program *nn.Program
	seen    [][]float32
}

func (l *modelLog) Evaluate(context.Context) (worker.Scores, error) {
	l.seen = append(l.seen, parametersOf(l.program))
	return worker.Scores{Loss: float64(len(l.seen)), Accuracy: 0.5, Examples: 1}, nil
}

// The averages follow the formula after each step, and are the same on all workers to the last bit,
// whoever updates the parameters. Training and its evaluations are what they are without them.
func TestAveragesOfWeightsFollowTheFormula(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		rig     rigConfig
		warmUp  bool
	}{
		"three workers":     {3, rigConfig{}, true},
		"update on workers": {2, rigConfig{onWorker: true}, false}, "two devices": {2, rigConfig{devices: 2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			logs, first := make([]*modelLog, c.workers), make([][]float32, c.workers)
			rigs, epochs, errs := fitJob(t, "dist_sync", c.workers, c.rig, func(rank int, f *worker.FitConfig) {
				logs[rank] = &modelLog{program: f.Evaluator.(*worker.ImageEvaluator).Program}
				first[rank] = parametersOf(logs[rank].program)
				f.Evaluator, f.EvaluateSteps, f.EMA = logs[rank], 1, &worker.EMA{Decay: 0.75, WarmUp: c.warmUp, Result: true}
			})
			plain, _, more := fitJob(t, "dist_sync", c.workers, c.rig, func(_ int, f *worker.FitConfig) { f.EvaluateSteps = 1 })
			if err := errors.Join(append(errs, more...)...); err != nil {
				t.Fatal(err)
			}
			want := first[0]
			seen := logs[0].seen
			for step := range len(seen) / 2 {
				d := 0.75
				if c.warmUp {
					d = min(d, (1+float64(step))/(10+float64(step)))
				}
				for k, v := range seen[2*step] {
					want[k] += float32(float32(1-d) * (v - want[k]))
				}
				if i := firstDifference(seen[2*step+1], want); i >= 0 {
					t.Fatalf("after step %d average %d is %v, want %v", step, i, seen[2*step+1][i], want[i])
				}
			}
			if last := seen[len(seen)-2]; firstDifference(last, want) < 0 || firstDifference(last, parametersOf(plain[0].programs[0])) >= 0 {
				t.Error("the parameters are not those of a run without averages")
			}
			for rank, r := range rigs {
				for d, program := range r.programs {
					if i := firstDifference(parametersOf(program), want); i >= 0 {
						t.Errorf("rank %d device %d ends with another average %d", rank, d, i)
					}
				}
				test := epochs[rank][len(epochs[rank])-1].Test
				if v, ok := test.Get("ema_loss"); !ok || v != test.Loss+1 {
					t.Errorf("rank %d: ema_loss is %v, want that of the evaluation after the one with loss %v", rank, v, test.Loss)
				}
			}
		})
	}
}

// A worker that joins gets the averages of the others, bit for bit, also if one is lost meanwhile.
func TestAJoinerGetsTheAveragesOfWeights(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 60, batch: 3, epochs: 4, parameters: 3,
				change: func(w *elasticWorker, c *worker.FitConfig) {
					w.models = &modelLog{program: w.program}
					c.Evaluator, c.EMA = w.models, &worker.EMA{Decay: 0.9, Result: true}
				},
				at: func(j *elasticJob, w *elasticWorker, n int) {
					switch {
					case w.number == 0 && n == 5:
						j.start(2, true)
					case w.number == 0 && n == 12 && lost:
						j.kill(w, false)
					case w.number == 1 && n == 18:
						j.start(3, true)
					}
				}})
			j.wantEnds(nil)
			of := j.workers[1]
			seen := of.models.seen
			for _, w := range j.workers {
				if w.killed {
					continue
				}
				if i := firstDifference(parametersOf(w.program), parametersOf(of.program)); i >= 0 {
					t.Errorf("lost=%v: worker %d has another average %d than worker %d", lost, w.number, i, of.number)
				}
			}
			if len(j.workers) != 4 || firstDifference(seen[len(seen)-1], parametersOf(of.program)) >= 0 || firstDifference(seen[len(seen)-2], parametersOf(of.program)) < 0 {
				t.Errorf("lost=%v: %d workers, want 4 that end with the averages of the last evaluation", lost, len(j.workers))
			}
		})
	}
}

// A run with averages resumes with the very bits of one that was not cut off, and a checkpoint's
// averages can be exported.
func TestAveragesOfWeightsResumeAndExport(t *testing.T) {
	for workers, steps := range map[int]uint64{1: 4, 3: 3} { // in the middle of an epoch, and at its end, where statistics are averaged
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			fit := func(c worker.CheckpointConfig, steps uint64, ema *worker.EMA) ([]*fitRig, error) {
				rigs, _, errs := fitJob(t, "dist_sync", workers, rigConfig{}, func(_ int, f *worker.FitConfig) {
					f.Checkpoint, f.MaxSteps, f.EMA = c, steps, ema
				})
				return rigs, errors.Join(errs...)
			}
			average, dir := &worker.EMA{Decay: 0.9, WarmUp: true, Result: true}, t.TempDir()
			whole, err := fit(worker.CheckpointConfig{Dir: dir}, 0, average)
			if err != nil {
				t.Fatal(err)
			}
			cut := t.TempDir()
			if _, err := fit(worker.CheckpointConfig{Dir: cut}, steps, average); err != nil {
				t.Fatal(err)
			}
			again, err := fit(worker.CheckpointConfig{Dir: cut, Resume: true}, 0, average)
			if err != nil {
				t.Fatal(err)
			}
			for rank, r := range again {
				if i := firstDifference(r.values(), whole[0].values()); i >= 0 {
					t.Errorf("rank %d: value %d differs from that of the uncut run", rank, i)
				}
			}
			to := filepath.Join(t.TempDir(), "model.safetensors")
			if _, err := checkpoint.ExportAverages(t.Context(), dir, to); err != nil {
				t.Fatal(err)
			}
			list, values := exported(t, to)
			if list != stateDict {
				t.Errorf("the export has %s, want %s", list, stateDict)
			}
			for _, p := range append(slices.Clone(whole[0].programs[0].Params()), whole[0].programs[0].State()...) {
				if i := firstDifference(values[p.Name], p.Value); i >= 0 {
					t.Errorf("the export's %s differs at %d", p.Name, i)
				}
			}
			if workers > 1 {
				return // what is refused is so before workers meet
			}
			none := t.TempDir()
			if _, err := fit(worker.CheckpointConfig{Dir: none}, steps, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := checkpoint.ExportAverages(t.Context(), none, to); err == nil || !strings.Contains(err.Error(), "no moving averages") {
				t.Errorf("export without averages: got error %v", err)
			}
			if _, err := fit(worker.CheckpointConfig{Dir: none, Resume: true}, 0, average); err == nil || !strings.Contains(err.Error(), "without FitConfig.EMA") {
				t.Errorf("resume of a run without averages: got error %v", err)
			}
			if _, err := fit(worker.CheckpointConfig{Dir: cut, Resume: true}, 0, nil); err != nil {
				t.Errorf("resume without averages: %v", err)
			}
		})
	}
}

func TestAveragesOfWeightsSayWhatDoesNotFit(t *testing.T) {
	for want, c := range map[string]struct {
		rig   rigConfig
		ema   worker.EMA
		early *worker.EarlyStop
	}{
		"EMA.Decay is 0":         {},
		"EMA.Decay is 1":         {ema: worker.EMA{Decay: 1}},
		"with store dist_async":  {rig: rigConfig{store: newStore(t, "dist_async")}, ema: worker.EMA{Decay: 0.9}},
		"store of 2 local steps": {rig: rigConfig{local: 2}, ema: worker.EMA{Decay: 0.9}},
		"Result and EarlyStop":   {ema: worker.EMA{Decay: 0.9, Result: true}, early: &worker.EarlyStop{Patience: 1, Restore: true}},
	} {
		r := newRig(t, c.rig)
		r.cfg.EMA, r.cfg.EarlyStop = &c.ema, c.early
		if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

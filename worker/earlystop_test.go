package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/worker"
)

// scripted is an evaluator whose losses are given, one for each evaluation; the last one repeats.
// It notes the model at each.
type scripted struct {
	losses []float64
	model  func() []float32
	seen   [][]float32
}

func (s *scripted) Evaluate(context.Context) (worker.Scores, error) {
	if s.model != nil {
		s.seen = append(s.seen, s.model())
	}
	loss := s.losses[0]
	if len(s.losses) > 1 {
		s.losses = s.losses[1:]
	}
	return worker.Scores{Loss: loss, Accuracy: 1 - loss, Examples: 1}, nil
}

// All workers stop after the same step, by what rank 0 has found where evaluations differ; the best
// model comes back, and its checkpoint stays.
func TestARunThatGetsNoBetterEndsEarly(t *testing.T) {
	for _, workers := range []int{1, 3} {
		dir := t.TempDir()
		evaluators := make([]*scripted, workers)
		var mu sync.Mutex
		rigs, epochs, errs := fitJob(t, "dist_sync", workers, rigConfig{}, func(rank int, c *worker.FitConfig) {
			program := c.Evaluator.(*worker.ImageEvaluator).Program // shares the trained one's memory
			e := &scripted{losses: []float64{0.9, 0.5, 0.499, 0.6, 0.7}}
			if rank > 0 {
				e.losses = []float64{0.9, 0.8, 0.7, 0.6, 0.5}
			}
			mu.Lock()
			evaluators[rank] = e
			mu.Unlock()
			c.Evaluator, c.Epochs = e, 10
			c.EarlyStop = &worker.EarlyStop{Patience: 2, MinDelta: 0.01, Restore: true}
			c.Checkpoint = worker.CheckpointConfig{Dir: dir, Keep: 1}
			e.model = func() (all []float32) {
				for _, p := range append(slices.Clone(program.Params()), program.State()...) {
					all = append(all, p.Value...)
				}
				return all
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for rank, r := range rigs {
			if len(epochs[rank]) != 4 {
				t.Errorf("%d workers: rank %d made %d epochs, want 4: two are no better by 0.01 than the second one", workers, rank, len(epochs[rank]))
			}
			if i := firstDifference(r.values(), evaluators[0].seen[1]); i >= 0 {
				t.Errorf("%d workers: rank %d: value %d is not that of the best evaluation", workers, rank, i)
			}
		}
		best := map[int]string{1: "step-00000016", 3: "step-00000006"}[workers]
		folders, _ := filepath.Glob(filepath.Join(dir, "step-*"))
		if len(folders) != 2 || filepath.Base(folders[0]) != best {
			t.Errorf("%d workers: checkpoints %v stay, want the newest and the best one, %s", workers, folders, best)
		}
		if workers > 1 {
			continue
		}
		// Resumed, nothing is left to do, and the best model comes from its checkpoint.
		again := newRig(t, rigConfig{})
		again.cfg.Evaluator, again.cfg.Epochs = &scripted{losses: []float64{1}}, 10
		again.cfg.EarlyStop = &worker.EarlyStop{Patience: 2, MinDelta: 0.01, Restore: true}
		again.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Keep: 1, Resume: true}
		more, err := worker.Fit(t.Context(), again.cfg)
		if err != nil || len(more) != 0 {
			t.Errorf("resumed: got %d epochs and error %v, want none", len(more), err)
		}
		if i := firstDifference(again.values(), evaluators[0].seen[1]); i >= 0 {
			t.Errorf("resumed: value %d is not that of the best evaluation", i)
		}
		if _, err := os.Stat(filepath.Join(dir, best)); err != nil {
			t.Errorf("resumed: the best checkpoint is gone: %v", err)
		}
	}
}

// Within an epoch, too, and a better model is saved where no checkpoint is due. More is better for
// an accuracy.
func TestARunEndsEarlyWithinAnEpoch(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, rigConfig{})
	r.cfg.Evaluator = &scripted{losses: []float64{0.9, 0.8, 0.85}}
	r.cfg.EvaluateSteps, r.cfg.Epochs = 3, 5
	r.cfg.EarlyStop = &worker.EarlyStop{Metric: "accuracy", Patience: 1}
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Keep: 1, EveryEpochs: 100}
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Evaluations after steps 3 and 6, and at the end of the epoch, after step 8.
	if len(epochs) != 1 || len(epochs[0].Losses) != 8 || len(epochs[0].Evaluations) != 2 {
		t.Errorf("got %d epochs, the first with %d steps, want one with all 8", len(epochs), len(epochs[0].Losses))
	}
	if _, err := os.Stat(filepath.Join(dir, "step-00000006")); err != nil {
		t.Errorf("the best model, after step 6, was not saved: %v", err)
	}
	r = newRig(t, rigConfig{})
	r.cfg.Evaluator = &scripted{losses: []float64{0.8, 0.85}}
	r.cfg.EvaluateSteps = 3
	r.cfg.EarlyStop = &worker.EarlyStop{Patience: 1}
	epochs, err = worker.Fit(t.Context(), r.cfg)
	if err != nil || len(epochs) != 1 || len(epochs[0].Losses) != 6 || epochs[0].Test.Loss != 0.85 {
		t.Errorf("got %d epochs and error %v, want one that ends after step 6 with the loss 0.85", len(epochs), err)
	}
}

// Workers that join go by what the others know, and all end after the same step.
func TestAJoinerStopsEarlyWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 60, batch: 3, epochs: 9,
			change: func(w *elasticWorker, c *worker.FitConfig) {
				losses := []float64{0.5, 0.6, 0.7, 0.8}
				if w.joining {
					losses = []float64{0.1}
				}
				c.Evaluator, c.EarlyStop = &scripted{losses: losses}, &worker.EarlyStop{Patience: 3, Restore: true}
			},
			at: func(j *elasticJob, w *elasticWorker, n int) {
				if w.number == 0 && n == 13 { // in the second epoch
					j.start(2, true)
				}
			}})
		j.wantEnds(nil)
		for _, w := range j.workers {
			if last := w.epochs[len(w.epochs)-1].Epoch; last != 3 {
				t.Errorf("worker %d ended after epoch %d, want 3", w.number, last)
			}
			if !slices.Equal(w.values, j.workers[0].values) {
				t.Errorf("worker %d has other values than worker 0", w.number)
			}
		}
	})
}

func TestEarlyStopSaysWhatDoesNotFit(t *testing.T) {
	for want, stop := range map[string]worker.EarlyStop{
		"Patience is 0":                         {},
		`Mode is "less"`:                        {Patience: 1, Mode: "less"},
		"MinDelta is -1":                        {Patience: 1, MinDelta: -1},
		`EarlyStop.Metric is "f1", want one of`: {Patience: 1, Metric: "f1"},
	} {
		r := newRig(t, rigConfig{})
		r.cfg.EarlyStop = &stop
		if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got error %v, want one with %s", stop, err, want)
		}
	}
	r := newRig(t, rigConfig{})
	r.cfg.Evaluator, r.cfg.EarlyStop = nil, &worker.EarlyStop{Patience: 1}
	if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "without an Evaluator") {
		t.Errorf("without an evaluator: got error %v", err)
	}
}

// Early stopping and a divided evaluation both tell the workers of each other; however many sums
// the metrics have, neither is in the other's way.
func TestARunEndsEarlyWithMetricsOfAnyNumberOfSums(t *testing.T) {
	for classes := range 3 { // top1 alone has two sums: as many as early stopping tells, with those of loss and accuracy
		_, epochs, errs := fitJob(t, "dist_sync", 2, rigConfig{}, func(_ int, c *worker.FitConfig) {
			e := c.Evaluator.(*worker.ImageEvaluator)
			e.Metrics = []metrics.Metric{metrics.TopK{K: 1}}
			if classes > 0 {
				e.Metrics = append(e.Metrics, metrics.IoU{Classes: classes})
			}
			c.Epochs, c.EarlyStop = 2, &worker.EarlyStop{Metric: "top1", Patience: 5}
		})
		if err := errors.Join(errs...); err != nil || len(epochs[0]) != 2 {
			t.Errorf("%d sums: got %d epochs and error %v, want 2 and none", 2+3*classes, len(epochs[0]), err)
		}
	}
}

// The only worker that holds the values of the best evaluation is lost while it gives them to the
// others: these keep the values of the last step, and say so. With checkpoints all have the best
// ones.
func TestTheWorkerWithTheBestValuesIsLostDuringRestore(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, checkpoints := range []bool{false, true} {
			for k, when := range []string{"paragon/best/0", "paragon/best/2"} {
				if !slow() && silent != (checkpoints == (k == 0)) { // each pair of two of the three
					continue
				}
				t.Run(fmt.Sprintf("silent=%v/checkpoints=%v/%s", silent, checkpoints, when), func(t *testing.T) {
					dir := t.TempDir()
					synctest.Test(t, func(t *testing.T) {
						var log bytes.Buffer
						j := runElastic(t, elasticPlan{workers: 1, servers: 2, examples: 60, batch: 3, epochs: 9, parameters: 3, log: &log,
							change: func(w *elasticWorker, c *worker.FitConfig) {
								e := &scripted{losses: []float64{0.5, 0.6, 0.7, 0.8}, model: func() []float32 { return slices.Clone(w.program.Params()[0].Value) }}
								w.scores = e
								c.Evaluator, c.EarlyStop = e, &worker.EarlyStop{Patience: 3, Restore: true}
								if checkpoints {
									c.Checkpoint = worker.CheckpointConfig{Dir: dir, EveryEpochs: 1}
								}
							},
							at: func(j *elasticJob, w *elasticWorker, n int) {
								if w.number == 0 && n == 25 { // after the best evaluation
									j.start(1, true)
								}
							},
							wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
								return hooked(store, func(ctx context.Context, key string) {
									if w.number == 0 && key == when {
										time.Sleep(10 * time.Millisecond)
										w.j.kill(w, silent)
										hang(ctx)
									}
								})
							}})
						j.wantEnds(nil)
						if len(j.workers) != 2 || !j.workers[0].killed {
							t.Fatalf("got %d workers, the first one killed: %v, want 2, and it was", len(j.workers), j.workers[0].killed)
						}
						best, last := j.workers[0].scores.seen[0], j.workers[0].scores.seen[3]
						got, want := j.workers[1].values, last
						if checkpoints {
							want = best
						}
						if i := firstDifference(got, want); i >= 0 {
							t.Errorf("value %d is %v, want %v; of the best evaluation it is %v, of the last step %v", i, got[i], want[i], best[i], last[i])
						}
						if said := strings.Contains(log.String(), "the values of the best evaluation are not there any more"); said == checkpoints {
							t.Errorf("the log says that the best values are gone: %v", said)
						}
					})
				})
			}
		}
	}
}

package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/worker"
)

// A pieceLog notes which pieces an evaluator was given, in each evaluation of its worker.
type pieceLog struct {
	worker.DividedEvaluator
	pieces [][]int
}

func (l *pieceLog) EvaluatePieces(ctx context.Context, pieces []int) ([]float64, error) {
	l.pieces = append(l.pieces, pieces)
	return l.DividedEvaluator.EvaluatePieces(ctx, pieces)
}

// Each batch is evaluated by one worker, and the scores are those of the whole set, the same on all
// workers to the last bit; counts are those of one worker.
func TestEvaluationIsDividedAndAddedUpExactly(t *testing.T) {
	own := []metrics.Metric{metrics.TopK{K: 1}, metrics.F1{Classes: 2}, metrics.Perplexity{}}
	for _, workers := range []int{2, 3, 5} {
		logs := make([]*pieceLog, workers)
		rigs, epochs, errs := fitJob(t, "dist_sync", workers, rigConfig{}, func(rank int, c *worker.FitConfig) {
			e := c.Evaluator.(*worker.ImageEvaluator)
			e.Metrics = own
			logs[rank] = &pieceLog{DividedEvaluator: e}
			c.Evaluator, c.Epochs = logs[rank], 2
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for evaluation := range 2 {
			var all []int
			for _, l := range logs {
				all = append(all, l.pieces[evaluation]...)
			}
			slices.Sort(all)
			if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(all, want) { // 60 images in batches of 8
				t.Errorf("%d workers: pieces %v were evaluated, want each once", workers, all)
			}
		}
		whole, err := logs[0].DividedEvaluator.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for rank := range rigs {
			got := *epochs[rank][1].Test
			if fmt.Sprint(got) != fmt.Sprint(*epochs[0][1].Test) {
				t.Errorf("%d workers: rank %d has the scores %v, rank 0 %v", workers, rank, got, *epochs[0][1].Test)
			}
			if got.Accuracy != whole.Accuracy || got.Examples != 60 || math.Abs(got.Loss-whole.Loss) > 1e-12 {
				t.Errorf("%d workers: rank %d: got %v, want %v as one worker has it", workers, rank, got, whole)
			}
			if len(got.Metrics) != 5 || got.Metrics[0].Value != got.Accuracy || got.Metrics[1] != whole.Metrics[1] || math.Abs(got.Metrics[4].Value-math.Exp(got.Loss)) > 1e-12 {
				t.Errorf("%d workers: rank %d: metrics are %v, want %v", workers, rank, got.Metrics, whole.Metrics)
			}
		}
	}
}

// numbers is an evaluator of pieces that are numbers: its sums are how many there are, their sum,
// and an awkward float64 for each.
type numbers struct {
	pieces int
	during func(pieces []int) error // called while they are evaluated
}

func (n *numbers) Pieces() int { return n.pieces }
func (n *numbers) Sums() int   { return 3 }
func (n *numbers) Evaluate(context.Context) (worker.Scores, error) {
	return worker.Scores{Examples: n.pieces, Accuracy: float64(n.pieces * (n.pieces - 1) / 2)}, nil
}
func (n *numbers) Scores(sums []float64) worker.Scores {
	return worker.Scores{Examples: int(sums[0]), Accuracy: sums[1], Loss: sums[2]}
}
func (n *numbers) EvaluatePieces(_ context.Context, pieces []int) ([]float64, error) {
	if n.during != nil {
		if err := n.during(pieces); err != nil {
			return nil, err
		}
	}
	sums := make([]float64, 3)
	for _, p := range pieces {
		sums[0]++
		sums[1] += float64(p)
		sums[2] += math.Pi * float64(p) * 1e-300
	}
	return sums, nil
}

// A worker that is lost in the middle of an evaluation neither hangs it nor takes its pieces with
// it, loudly or silently, rank 0 included; one that joined takes part in the next one.
func TestAWorkerIsLostInTheMiddleOfAnEvaluation(t *testing.T) {
	for _, lost := range []int{0, 1, 2} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("worker=%d/silent=%v", lost, silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const pieces = 17
					var mu sync.Mutex
					evaluated := map[int]int{} // by worker
					j := runElastic(t, elasticPlan{workers: 3, servers: 2, examples: 60, batch: 3, epochs: 3,
						change: func(w *elasticWorker, c *worker.FitConfig) {
							c.EvaluateSteps = 4
							c.Evaluator = &numbers{pieces: pieces, during: func(pieces []int) error {
								mu.Lock()
								evaluated[w.number] += len(pieces)
								mu.Unlock()
								if w.number == lost && w.trainer.Steps() == 4 {
									w.j.kill(w, silent)
									return errFault
								}
								return nil
							}}
						},
						at: func(j *elasticJob, w *elasticWorker, n int) {
							if n == 6 && w.number != lost && j.first("join") {
								j.start(3, true)
							}
						}})
					j.wantEnds(nil)
					j.wantOnce()
					scores := 0
					for _, w := range j.workers {
						for _, e := range w.epochs {
							all := []worker.Scores{*e.Test}
							for _, within := range e.Evaluations {
								all = append(all, within.Scores)
							}
							for _, s := range all {
								scores++
								if s.Examples != pieces || s.Accuracy != pieces*(pieces-1)/2 || math.Abs(s.Loss/1e-300-math.Pi*s.Accuracy) > 1e-9 {
									t.Errorf("worker %d epoch %d: got %+v, want all %d pieces", w.number, e.Epoch, s, pieces)
								}
							}
						}
					}
					if scores < 10 || evaluated[3] == 0 {
						t.Errorf("got %d evaluations, and worker 3 evaluated %d pieces, want it to take part", scores, evaluated[3])
					}
				})
			})
		}
	}
}

// Metrics of one's own are in lines, the table and the lines that a search reads.
func TestOwnMetricsAreReported(t *testing.T) {
	var lines, table bytes.Buffer
	progress, err := os.Create(filepath.Join(t.TempDir(), "progress"))
	if err != nil {
		t.Fatal(err)
	}
	defer progress.Close()
	r := newRig(t, rigConfig{})
	r.cfg.Evaluator.(*worker.ImageEvaluator).Metrics = []metrics.Metric{metrics.TopK{K: 2}}
	r.cfg.Epochs, r.cfg.EvaluateSteps = 1, 5
	r.cfg.Observers = []worker.Observer{worker.NewMetricsLines(&lines), worker.NewProgress(progress)}
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.WriteReport(&table, epochs); err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(progress.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{lines.String(), " top2=1.000000 train_loss="}, {string(shown), "Epoch 0: top2 1.000000\n"},
		{string(shown), "Epoch 0: step 5: top2 1.000000\n"}, {table.String(), "top2"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("got %q, want it to have %q", c.text, c.want)
		}
	}
	if v, ok := epochs[0].Test.Get("top2"); v != 1 || !ok {
		t.Errorf("Get: got %v, %v, want 1", v, ok)
	}
	r = newRig(t, rigConfig{})
	r.cfg.Evaluator.(*worker.ImageEvaluator).Metrics = []metrics.Metric{metrics.TopK{}}
	if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "TopK.K is 0") {
		t.Errorf("an invalid metric: got error %v", err)
	}
}

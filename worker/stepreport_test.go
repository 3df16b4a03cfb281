package worker_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// The scheduler tells what Fit has done on each worker, also of those that have left.
func TestTheSchedulerTellsWhatFitDoes(t *testing.T) {
	const workers, epochs = 2, 2
	job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 1})
	stores := job.Stores(t, "dist_sync")
	set := images(t, 80)
	programs := make([]*nn.Program, workers)
	for r := range programs {
		programs[r] = mlpOf(t, 2, 6)
	}
	steps, losses := make([]uint64, workers), make([]float64, workers)
	tests := make([]*worker.Scores, workers)
	dir := t.TempDir()
	onWorkers(t, stores, func(rank int, store kvstore.Store) error {
		trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd", LearningRate: 0.25}})
		if err != nil {
			return err
		}
		defer trainer.Close()
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs[rank : rank+1], Dataset: set, Workers: workers, Rank: rank})
		if err != nil {
			return err
		}
		defer feed.Close()
		fitted, err := worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: epochs, Evaluator: fixedScores{}, Checkpoint: worker.CheckpointConfig{Dir: dir}})
		if err != nil {
			return err
		}
		last := fitted[len(fitted)-1]
		steps[rank], losses[rank], tests[rank] = trainer.Steps(), last.Losses[len(last.Losses)-1], last.Test
		return nil
	})
	if err := stores[1].Close(); err != nil { // its last record goes with that
		t.Fatal(err)
	}
	var got control.Telemetry
	_, err := control.Ask(t.Context(), func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := job.Control(ctx, string(request))
		return []byte(answer), err
	}, control.Request{Op: control.OpTelemetry}, &got)
	if err != nil {
		t.Fatal(err)
	}
	node := got.Nodes[len(got.Nodes)-1]
	if node.Rank != 1 || node.State != control.NodeGone {
		t.Fatalf("the last node is %+v, want worker 1, which has left", node)
	}
	value := func(metric string) float64 {
		for i, c := range got.Columns {
			if c.Metric == metric {
				return float64(node.Values[i])
			}
		}
		t.Errorf("there is no %s", metric)
		return 0
	}
	near := func(metric string, want float64) {
		if v := value(metric); !(v > want*0.999999 && v < want*1.000001) && v != want {
			t.Errorf("%s is %v, want %v", metric, v, want)
		}
	}
	near("steps", float64(steps[1]))
	near("examples", 40*epochs)
	near("loss", losses[1])
	near("learning_rate", 0.25)
	near("epoch", epochs-1)
	near("test_loss", 0.5)
	near("test_accuracy", 0.75)
	near("test_score", 0.875)
	if !slices.Equal(got.Scores, []string{"top5"}) {
		t.Errorf("the scores have the names %q, want top5", got.Scores)
	}
	parts := value("compute_seconds") + value("wait_seconds") + value("data_seconds") + value("save_seconds")
	if total := value("step_seconds"); total <= 0 || parts > total*1.001 || value("compute_seconds") <= 0 {
		t.Errorf("the steps took %v s in all, and their parts %v s", total, parts)
	}
}

// fixedScores is an Evaluator that has always the same result.
type fixedScores struct{}

func (fixedScores) Evaluate(context.Context) (worker.Scores, error) {
	return worker.Scores{Loss: 0.5, Accuracy: 0.75, Examples: 4, Metrics: []metrics.Measured{{Name: "top5", Value: 0.875}}}, nil
}

// A reportedStore notes what it is told.
type reportedStore struct {
	kvstore.Store
	steps       []kvstore.StepReport
	evaluations []kvstore.Evaluation
	checkpoints atomic.Int32
}

func (s *reportedStore) ReportStep(r kvstore.StepReport) { s.steps = append(s.steps, r) }
func (s *reportedStore) ReportEvaluation(e kvstore.Evaluation) {
	s.evaluations = append(s.evaluations, e)
}
func (s *reportedStore) ReportCheckpoint(took time.Duration) { s.checkpoints.Add(1) }

// Fit tells the store of every step once, with its examples, losses and learning rate, of every
// evaluation and of every checkpoint.
func TestFitReportsEveryStep(t *testing.T) {
	for _, adapts := range []bool{false, true} {
		store := &reportedStore{Store: newStore(t, "local")}
		r := newRig(t, rigConfig{store: store, optimizer: optim.Config{Name: "sgd", LearningRate: 0.5, Schedule: optim.Schedule{Kind: "factor", Factor: 0.5, Every: 5}}})
		r.cfg.Epochs, r.cfg.Checkpoint = 3, worker.CheckpointConfig{Dir: t.TempDir()}
		if adapts {
			decided(r)
		}
		epochs, err := worker.Fit(t.Context(), r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		var of, train time.Duration // of the whole run: what follows the last step of an epoch belongs to the first one of the next
		for _, e := range epochs {
			examples := 0
			train += e.Train
			for k, loss := range e.Losses {
				if i == len(store.steps) {
					t.Fatalf("adapts=%t: %d steps were reported, want more", adapts, i)
				}
				s := store.steps[i]
				want := s.Examples
				if adapts {
					want = e.Batches[k]
				}
				if s.Loss != loss || s.Epoch != uint64(e.Epoch) || s.GlobalBatch != want {
					t.Errorf("adapts=%t: step %d: got %+v, want loss %v, epoch %d and a batch of %d", adapts, i, s, loss, e.Epoch, want)
				}
				if rate := 0.5 * math.Pow(0.5, float64(i/5)); !adapts && math.Abs(s.LearningRate-rate) > 1e-12 || s.LearningRate <= 0 {
					t.Errorf("adapts=%t: step %d: the learning rate is %v, want %v", adapts, i, s.LearningRate, rate)
				}
				if s.Total < s.Compute+s.Wait+s.Data+s.Save || s.Compute <= 0 || s.Wait < 0 || s.Data < 0 || s.Save < 0 {
					t.Errorf("adapts=%t: step %d took %v: %+v", adapts, i, s.Total, s)
				}
				examples += s.Examples
				of += s.Total
				i++
			}
			if examples != e.Examples || of > train {
				t.Errorf("adapts=%t: after epoch %d: the reports of the epoch have %d examples, all reports %v, want %d and at most %v", adapts, e.Epoch, examples, of, e.Examples, train)
			}
		}
		if i != len(store.steps) || len(store.evaluations) != len(epochs) || store.evaluations[0].Loss != epochs[0].Test.Loss || int(store.checkpoints.Load()) != len(epochs) {
			t.Errorf("adapts=%t: %d steps, %d evaluations and %d checkpoints were reported, want %d, %d and as many", adapts, len(store.steps), len(store.evaluations), store.checkpoints.Load(), i, len(epochs))
		}
	}
}

package worker_test

import (
	"context"
	"testing"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
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
	parts := value("compute_seconds") + value("wait_seconds") + value("data_seconds") + value("save_seconds")
	if total := value("step_seconds"); total <= 0 || parts > total*1.001 || value("compute_seconds") <= 0 {
		t.Errorf("the steps took %v s in all, and their parts %v s", total, parts)
	}
}

// fixedScores is an Evaluator that has always the same result.
type fixedScores struct{}

func (fixedScores) Evaluate(context.Context) (worker.Scores, error) {
	return worker.Scores{Loss: 0.5, Accuracy: 0.75, Examples: 4}, nil
}

package worker_test

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A round that could not be exchanged is an error of Sync, whether a step or Sync itself closed it:
// a worker that took it for done would train on by itself.
func TestSyncSaysThatARoundWasNotExchanged(t *testing.T) {
	for _, steps := range []int{1, 2, 3} {
		store := &faultyStore{Store: newStore(t, "local", kvstore.WithLocalSteps(2)), kind: "exchange", at: 1}
		trainer := newTrainer(t, worker.Config{Store: store, Programs: []*nn.Program{bowl(t, 3)}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
		var err error
		for range steps {
			err = errors.Join(err, trainer.Step(t.Context(), []int{4}))
		}
		if got := trainer.Sync(t.Context()); !errors.Is(got, errFault) {
			t.Errorf("Sync after %d steps of rounds of 2: got %v, want %v (the steps said %v)", steps, got, errFault, err)
		}
	}
}

package countmodel

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// Every example counts once an epoch, also where a worker's last batch is short.
func TestParametersCountExamples(t *testing.T) {
	const examples, epochs = 23, 3
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	program, err := Compile(examples)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: Optimizer})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	feed, err := NewFeed(program, 4, 1, 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: epochs}); err != nil {
		t.Fatal(err)
	}
	want := slices.Repeat([]int{epochs}, examples)
	if got, err := Counts(program); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and error %v, want %d of each", got, err, epochs)
	}
	program.Params()[1].Value[5]++
	if _, err := Counts(program); err == nil {
		t.Error("parameters that differ: want an error")
	}
}

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
	if got := Counts(program); !slices.Equal(got, want) {
		t.Errorf("got %v, want %d of each", got, epochs)
	}
	// This contribution reaches one parameter alone.
	program.Params()[1].Value[5]++
	if got := Counts(program); !slices.Equal(got, want) {
		t.Errorf("got %v, want %d of each: one parameter does not count alone", got, epochs)
	}
	for _, p := range program.Params() {
		p.Value[5] += p.Value[5]
	}
	if got := Counts(program); got[5] != 2*epochs {
		t.Errorf("got %d, want %d", got[5], 2*epochs)
	}
}

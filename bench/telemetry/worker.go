package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// The model has eight layers of 256·256 weights, 18 keys and 2.1 MB in all: steps of 10 to 50 ms on one core, and more requests for a second of computing
// than a large network has.
const (
	layers, width, classes = 8, 256, 16
	batch, examples        = 256, 65_536
	forever                = 1 << 30 // epochs
)

// work is a worker of the job. It trains until SIGTERM.
func work() (err error) {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	g := gorgonia.NewGraph()
	x, labels := nn.Input(g, "x", batch, width), nn.Labels(g, "labels", batch)
	h := x
	for i := range layers {
		h = nn.ReLU(nn.Linear(h, fmt.Sprint("hidden", i), nn.LinearConfig{Out: width}))
	}
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(nn.Linear(h, "out", nn.LinearConfig{Out: classes}), labels), nn.Config{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 1e-4}})
	if err != nil {
		return err
	}
	defer trainer.Close()
	f := &feed{}
	if f.Partition, err = worker.NewPartition(examples, batch, kv.NumWorkers(), kv.Rank(), sampler.Seed(1)); err != nil {
		return err
	}
	if f.x, err = program.Input("x"); err != nil {
		return err
	}
	if f.labels, err = program.Labels("labels"); err != nil {
		return err
	}
	for i := range f.x { // the same examples in all steps: only the time matters
		f.x[i] = float32(i*31%100) / 100
	}
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: f, Epochs: forever, Stop: term.Done()})
	if errors.Is(err, worker.ErrStopped) {
		return nil
	}
	return err
}

// A feed gives the same inputs to each step, with labels of the examples' numbers.
type feed struct {
	*worker.Partition
	x      []float32
	labels nn.LabelInput
	rows   [batch]int32
	left   []int
}

func (f *feed) Begin(_ context.Context, epoch, step int) error {
	f.left = slices.Collect(f.From(epoch, step))
	return nil
}

func (f *feed) Next(context.Context) ([]int, error) {
	n := min(batch, len(f.left))
	for row, i := range f.left[:n] {
		f.rows[row] = int32(i % classes)
	}
	f.labels.Set(f.rows[:n])
	f.left = f.left[n:]
	return []int{n}, nil
}

func (f *feed) Close() error { return nil }

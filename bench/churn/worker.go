package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// The model has 1024·1024 + 1024·128 weights and a few: 4.7 MB. An epoch is short, since each change in it is one more division of all its
// examples, which every worker that comes derives again.
const (
	width, classes  = 1024, 128
	batch, examples = 4, 4_000
	forever         = 1 << 30 // epochs
)

// work is a worker of the job. It trains until SIGTERM.
func work() (err error) {
	ctx := context.Background()
	pause, err := time.ParseDuration(os.Getenv(stepEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", stepEnv, err)
	}
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) { // in order: the others go on
			err = kv.Close()
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	g := gorgonia.NewGraph()
	x, labels := nn.Input(g, "x", batch, width), nn.Labels(g, "labels", batch)
	hidden := nn.ReLU(nn.Linear(x, "hidden", nn.LinearConfig{Out: width}))
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(nn.Linear(hidden, "out", nn.LinearConfig{Out: classes}), labels), nn.Config{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "adam", LearningRate: 1e-4}})
	if err != nil {
		return err
	}
	defer trainer.Close()
	f := &feed{pause: pause}
	if f.Partition, err = worker.NewPartition(examples, batch, kv.NumWorkers(), kv.Rank(), sampler.Seed(1)); err != nil {
		return err
	}
	if f.x, err = program.Input("x"); err != nil {
		return err
	}
	if f.labels, err = program.Labels("labels"); err != nil {
		return err
	}
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: f, Epochs: forever, Leave: term.Done()})
	return err
}

// A feed makes examples of their numbers.
type feed struct {
	*worker.Partition
	pause  time.Duration
	x      []float32
	labels nn.LabelInput
	rows   [batch]int32
	left   []int
}

func (f *feed) Begin(_ context.Context, epoch, step int) error {
	f.left = slices.Collect(f.From(epoch, step))
	return nil
}

func (f *feed) Next(ctx context.Context) ([]int, error) {
	time.Sleep(f.pause)
	n := min(batch, len(f.left))
	for row, i := range f.left[:n] {
		for k := range width {
			f.x[row*width+k] = float32((i*31+k*17)%100) / 100
		}
		f.rows[row] = int32(i % classes)
	}
	f.labels.Set(f.rows[:n])
	f.left = f.left[n:]
	return []int{n}, nil
}

func (f *feed) Close() error { return nil }

// Package perceptron is the worker of benchmarks that run whole jobs: it trains a multilayer perceptron on random numbers until it gets a signal.
package perceptron

import (
	"context"
	"errors"
	"fmt"
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

// A Config says what is trained.
type Config struct {
	Layers  int // hidden ones
	Width   int // of the input and of each hidden layer
	Classes int

	Batch, Examples int // of a worker's step, and of an epoch
	Optimizer       optim.Config
	Pause           time.Duration // before each step
}

const forever = 1 << 30 // epochs

// Train is a worker of the job that the environment describes. On SIGTERM it leaves, if the job can go on without it, or else all stop; both are nil.
func Train(ctx context.Context, c Config) (err error) {
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) { // in order
			err = kv.Close()
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	program, err := c.compile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: c.Optimizer})
	if err != nil {
		return err
	}
	defer trainer.Close()
	f, err := c.newFeed(program, kv.NumWorkers(), kv.Rank())
	if err != nil {
		return err
	}
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: f, Epochs: forever, Leave: term.Done()})
	return err
}

func (c *Config) compile() (*nn.Program, error) {
	g := gorgonia.NewGraph()
	h, labels := nn.Input(g, "x", c.Batch, c.Width), nn.Labels(g, "labels", c.Batch)
	for i := range c.Layers {
		h = nn.ReLU(nn.Linear(h, fmt.Sprint("hidden", i), nn.LinearConfig{Out: c.Width}))
	}
	return nn.Compile(nn.SoftmaxCrossEntropy(nn.Linear(h, "out", nn.LinearConfig{Out: c.Classes}), labels), nn.Config{Threads: 1})
}

// A feed makes examples of their numbers.
type feed struct {
	*worker.Partition
	c      *Config
	x      []float32
	labels nn.LabelInput
	rows   []int32
	left   []int
}

func (c *Config) newFeed(program *nn.Program, workers, rank int) (f *feed, err error) {
	f = &feed{c: c, rows: make([]int32, c.Batch)}
	if f.Partition, err = worker.NewPartition(c.Examples, c.Batch, workers, rank, sampler.Seed(1)); err != nil {
		return nil, err
	}
	if f.x, err = program.Input("x"); err != nil {
		return nil, err
	}
	f.labels, err = program.Labels("labels")
	return f, err
}

func (f *feed) Begin(_ context.Context, epoch, step int) error {
	f.left = slices.Collect(f.From(epoch, step))
	return nil
}

func (f *feed) Next(ctx context.Context) ([]int, error) {
	if f.c.Pause > 0 {
		select {
		case <-time.After(f.c.Pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n := min(f.c.Batch, len(f.left))
	for row, i := range f.left[:n] {
		x := f.x[row*f.c.Width:][:f.c.Width]
		for k := range x {
			x[k] = float32((i*31+k*17)%100) / 100
		}
		f.rows[row] = int32(i % f.c.Classes)
	}
	f.labels.Set(f.rows[:n])
	f.left = f.left[n:]
	return []int{n}, nil
}

func (f *feed) Close() error { return nil }

// Package pacedmodel is a training program for tests and benchmarks of jobs that adapt: a small
// network whose steps take as long as those of a device of a given speed.
//
// A worker waits for a fixed time a step and for each example, beside which the network's own
// computing is nothing. So many workers on few processors are as fast as with a device each, and
// the speed of the machine matters little. Gradients, noise, exchange and membership are real.
package pacedmodel

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// A Config says what is trained, and how fast.
type Config struct {
	Examples, Epochs int
	// InitialBatch and MaxBatch are worker.AdaptConfig's.
	InitialBatch, MaxBatch int
	Seed                   uint64
	// Step and Example are how long a device takes: for a step, and for each of its examples.
	Step, Example time.Duration
	// Checkpoint is where it saves, and goes on from if there is one; empty: nowhere.
	Checkpoint string
	// Epoch, if set, is called on each worker at the end of an epoch. After an error all
	// workers stop, with a checkpoint if there is a place for one, and Train returns it on the
	// worker that it was for.
	Epoch func(e worker.EpochInfo, rank, workers int) error
	// Leave is worker.FitConfig's.
	Leave <-chan struct{}
}

// Train is a worker of the job that the environment describes.
func Train(ctx context.Context, c Config) (err error) {
	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	o := &epochs{call: c.Epoch, store: store, stop: make(chan struct{})}
	defer func() {
		if errors.Is(err, worker.ErrStopped) {
			// Epoch asked for it, here or on another worker.
			err = errors.Join(o.err, store.Close())
			return
		}
		err = kvstore.Leave(store, err)
	}()
	own := (c.InitialBatch-1)/store.InitialWorkers() + 1
	program, err := compile(own, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	f := &feed{data: newExamples(c.Examples, c.Seed), step: c.Step, example: c.Example}
	if f.Partition, err = worker.NewPartition(c.Examples, own, store.NumWorkers(), store.Rank(), sampler.Seed(c.Seed)); err != nil {
		return err
	}
	if err := f.take(program); err != nil {
		return err
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.05}})
	if err != nil {
		return err
	}
	defer trainer.Close()
	_, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: f, Epochs: c.Epochs, Stop: o.stop, Leave: c.Leave, Observers: []worker.Observer{o},
		Checkpoint: worker.CheckpointConfig{Dir: c.Checkpoint, Resume: c.Checkpoint != ""},
		Adapt: &worker.AdaptConfig{InitialBatch: c.InitialBatch, MaxBatch: c.MaxBatch, Program: func(_, batch int) (*nn.Program, error) {
			return compile(batch, program)
		}},
	})
	if err == nil {
		// It was told to stop with the last epoch.
		err = o.err
	}
	return err
}

// epochs is the worker.Observer that calls Config.Epoch.
type epochs struct {
	call  func(e worker.EpochInfo, rank, workers int) error
	store kvstore.Store
	stop  chan struct{}
	// err is what call returned.
	err error
}

func (o *epochs) Begin(worker.Run)     {}
func (o *epochs) Step(worker.StepInfo) {}
func (o *epochs) End()                 {}

func (o *epochs) Epoch(e worker.EpochInfo) {
	if o.call == nil || o.err != nil {
		return
	}
	if o.err = o.call(e, o.store.Rank(), o.store.NumWorkers()); o.err != nil {
		close(o.stop)
	}
}

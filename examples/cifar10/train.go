package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (err error) {
	if err := s.model.resolve(); err != nil {
		return err
	}
	trainSet, testSet, err := s.images.load(ctx, s.training.seed)
	if err != nil {
		return err
	}
	store, err := program.Join(ctx, s.leave, s.store.name, s.store.options()...)
	if err != nil {
		return err
	}
	defer func() { err = program.Leave(store, err, s.checkpoint.Dir != "") }()
	if err := s.output.Prepare(store.Rank()); err != nil {
		return err
	}

	network, err := compile(s, store.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.close()) }()
	if store.Rank() == 0 {
		fmt.Println(program.MemoryPlan(network.training, s.model.devices))
	}
	if err := s.start.initialise(ctx, network.training[0], store.Rank()); err != nil {
		return err
	}
	feed, err := s.newFeed(network, trainSet, store)
	if err != nil {
		return err
	}
	defer feed.Close()
	trainer, err := s.newTrainer(ctx, network, trainSet.Len(), store)
	if err != nil {
		return err
	}
	defer trainer.Close()

	epochs, err := worker.Fit(ctx, s.fit(trainer, feed, network, testSet))
	if err != nil {
		return err
	}
	s.output.WriteHash(network.training[0].Params())
	title := fmt.Sprintf("%s (%s stem) on %s", s.model.name, s.model.stem, s.images.name())
	return s.output.Report(title, "cifar10.png", store.Rank(), epochs)
}

// newFeed gives the programs of this worker its part of the images.
func (s *settings) newFeed(n *network, images *data.ImageSet, store kvstore.Store) (*worker.ImageFeed, error) {
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: n.training,
		Dataset:  images,
		Workers:  store.NumWorkers(),
		Rank:     store.Rank(),
		Seed:     s.training.seed,
		Augment:  s.training.augmentation(),
	})
	if err != nil {
		return nil, kvstore.Final(err)
	}
	return feed, nil
}

// newTrainer tells the servers how to update, and brings rank 0's parameters to all workers.
func (s *settings) newTrainer(ctx context.Context, n *network, images int, store kvstore.Store) (*worker.Trainer, error) {
	update, err := s.updateFor(images, store.InitialWorkers(), n.training[0])
	if err != nil {
		return nil, kvstore.Final(err)
	}
	outer, err := s.store.outer()
	if err != nil {
		return nil, kvstore.Final(err)
	}
	return worker.NewTrainer(ctx, worker.Config{
		Store:          store,
		Programs:       n.training,
		Optimizer:      update,
		Outer:          outer,
		UpdateOnWorker: s.store.updateOnWorker,
		Compression:    s.store.compression,
	})
}

// fit says how long to train, when to evaluate and save, and who watches.
func (s *settings) fit(trainer *worker.Trainer, feed *worker.ImageFeed, n *network, testSet *data.ImageSet) worker.FitConfig {
	return worker.FitConfig{
		Trainer: trainer,
		Feed:    feed,
		Adapt:   s.adapting(n.training),

		Epochs:     s.training.epochs,
		MaxSteps:   s.training.maxSteps,
		Checkpoint: s.checkpoint,
		Stop:       s.stop,
		Leave:      s.leave,

		Evaluator:     &worker.ImageEvaluator{Program: n.evaluation, Logits: n.logits, Dataset: testSet, Augment: normalise},
		EvaluateSteps: s.training.evalSteps,
		EarlyStop:     s.training.stopsEarly(),
		EMA:           s.training.averages(),

		Observers: s.output.Observers(s.model.devices),
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (err error) {
	trainSet, testSet, err := s.images.load(ctx, s.training.seed)
	if err != nil {
		return err
	}
	store, err := program.Join(ctx, s.leave, s.store)
	if err != nil {
		return err
	}
	defer func() { err = program.Leave(store, err, s.checkpoint.Dir != "") }()
	if err := s.output.Prepare(store.Rank()); err != nil {
		return err
	}
	n, err := s.compile(store.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if store.Rank() == 0 {
		fmt.Printf("Model: %d parameters\n", s.model.config.Parameters(3, 32, 32))
		fmt.Println(program.MemoryPlan(n.training, s.model.devices))
	}
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: n.training,
		Dataset:  trainSet,
		Workers:  store.NumWorkers(),
		Rank:     store.Rank(),
		Seed:     s.training.seed,
		Augment:  s.training.augmentation(),
	})
	if err != nil {
		return kvstore.Final(err)
	}
	defer feed.Close()

	// This tells the servers how to update, and brings rank 0's parameters to all workers.
	trainer, err := worker.NewTrainer(ctx, worker.Config{
		Store:     store,
		Programs:  n.training,
		Optimizer: s.updateFor(trainSet.Len(), store.InitialWorkers(), n.training[0]),
	})
	if err != nil {
		return err
	}
	defer trainer.Close()

	epochs, err := worker.Fit(ctx, worker.FitConfig{
		Trainer:    trainer,
		Feed:       feed,
		Epochs:     s.training.epochs,
		MaxSteps:   s.training.maxSteps,
		Checkpoint: s.checkpoint,
		Stop:       s.stop,
		Leave:      s.leave,

		Evaluator:     &worker.ImageEvaluator{Program: n.evaluation, Logits: n.logits, Dataset: testSet, Augment: normalise},
		EvaluateSteps: s.training.evalSteps,
		EMA:           s.training.averages(),

		Observers: s.output.Observers(s.model.devices),
	})
	if err != nil {
		return err
	}
	s.output.WriteHash(n.training[0].Params())
	title := fmt.Sprintf("%s/%d on %s", s.model.name, s.model.config.Patch, s.images.name())
	return s.output.Report(title, "vit.png", store.Rank(), epochs)
}

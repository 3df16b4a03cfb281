package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/data/text"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (err error) {
	if err := s.model.resolve(); err != nil {
		return err
	}
	tokenizer, err := s.text.open()
	if err != nil {
		return err
	}
	s.model.vocabulary = tokenizer.Size()
	if err := s.startAs(ctx); err != nil {
		return err
	}
	if s.training.epochs == 0 {
		return s.sampleAlone(ctx, tokenizer)
	}
	trainSet, testSet, err := s.text.load(tokenizer, s.model.context)
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
		fmt.Printf("Text: %d %s in windows of %d, %d windows to train on, %d to evaluate\n", trainSet.NumTokens()+testSet.NumTokens(), s.text.unit(), s.model.context, trainSet.Len(), testSet.Len())
		fmt.Printf("Model: %d parameters\n", s.model.gpt().Parameters())
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

	fit := s.fit(trainer, feed, network, testSet)
	if s.checkpoint.Dir != "" {
		fit.Observers = append(fit.Observers, configWriter{ctx, s.checkpoint.Dir, s.model.gpt()})
	}
	epochs, err := worker.Fit(ctx, fit)
	if err != nil {
		return err
	}
	s.output.WriteHash(network.training[0].Params())
	title := fmt.Sprintf("GPT (%d layers, %d wide) on %s", s.model.layers, s.model.width, s.text.name())
	if err := s.output.Report(title, "gpt.png", store.Rank(), epochs); err != nil || store.Rank() != 0 {
		return err
	}
	return s.sample.write(ctx, os.Stdout, tokenizer, s.model.gpt(), network.training[0])
}

// sampleAlone writes with the model of --init-from, without training it.
func (s *settings) sampleAlone(ctx context.Context, tokenizer text.Tokenizer) (err error) {
	network, err := compile(*s, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.close()) }()
	if err := s.start.initialise(ctx, network.training[0], 0); err != nil {
		return err
	}
	return s.sample.write(ctx, os.Stdout, tokenizer, s.model.gpt(), network.training[0])
}

// newFeed gives the programs of this worker its part of the text.
func (s *settings) newFeed(n *network, trainSet windows, store kvstore.Store) (*worker.TokenFeed, error) {
	feed, err := worker.NewTokenFeed(worker.TokenFeedConfig{
		Programs:     n.training,
		Windows:      trainSet,
		Workers:      store.NumWorkers(),
		Rank:         store.Rank(),
		Seed:         s.training.seed,
		Accumulation: s.training.accumulation,
	})
	if err != nil {
		return nil, kvstore.Final(err)
	}
	return feed, nil
}

// newTrainer tells the servers how to update, and brings rank 0's parameters to all workers.
func (s *settings) newTrainer(ctx context.Context, n *network, windows int, store kvstore.Store) (*worker.Trainer, error) {
	update, err := s.updateFor(windows, store.InitialWorkers(), n.training[0])
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
func (s *settings) fit(trainer *worker.Trainer, feed *worker.TokenFeed, n *network, testSet windows) worker.FitConfig {
	return worker.FitConfig{
		Trainer: trainer,
		Feed:    feed,
		Adapt:   s.adapting(n.training),

		Epochs:     s.training.epochs,
		MaxSteps:   s.training.maxSteps,
		Checkpoint: s.checkpoint,
		Stop:       s.stop,
		Leave:      s.leave,

		Evaluator:     &worker.TokenEvaluator{Program: n.evaluation, Windows: testSet},
		EvaluateSteps: s.training.evalSteps,
		EarlyStop:     s.training.stopsEarly(),

		Observers: s.output.Observers(s.model.devices),
	}
}

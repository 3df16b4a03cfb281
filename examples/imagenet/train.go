package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (err error) {
	if err := s.model.resolve(); err != nil {
		return err
	}
	images, err := openSets(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	classes, err := s.images.countClasses(images.train)
	if err != nil {
		return kvstore.Final(err)
	}
	store, err := program.Join(ctx, s.leave, s.store)
	if err != nil {
		return err
	}
	defer func() { err = program.Leave(store, err, s.checkpoint.Dir != "") }()
	if err := s.output.Prepare(store.Rank()); err != nil {
		return err
	}
	if store.Rank() == 0 {
		fmt.Printf("Images: %d of %v to train on, %d to evaluate, %d classes\n", images.train.Len(), images.train.Shape(), images.val.Len(), classes)
	}

	network, err := compile(s, classes, store.Rank())
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
	feed, err := s.newFeed(network, images.train, store)
	if err != nil {
		return kvstore.Final(err)
	}
	defer feed.Close()
	trainer, err := s.newTrainer(ctx, network, images.train.Len(), store)
	if err != nil {
		return err
	}
	defer trainer.Close()

	epochs, err := worker.Fit(ctx, s.fit(trainer, feed, network, images.val))
	if err != nil {
		return err
	}
	s.output.WriteHash(network.training[0].Params())
	return s.output.Report(fmt.Sprintf("%s at %d pixels", s.model.name, s.images.size), "imagenet.png", store.Rank(), epochs)
}

// initialise gives rank 0's program the model of --init-from: NewTrainer brings it to the others.
func (s *startSettings) initialise(ctx context.Context, p *nn.Program, rank int) error {
	if rank != 0 || s.file == "" {
		return nil
	}
	done, err := worker.ImportPart(ctx, p, s.file, s.importing)
	if err != nil {
		return orFinal(fmt.Errorf("--init-from: %w", err))
	}
	fmt.Printf("Loaded the model from %s\n", done.From)
	return worker.WriteImported(os.Stdout, done, p)
}

// newFeed gives the programs of this worker its part of the images.
func (s *settings) newFeed(n *network, images *data.Images, store kvstore.Store) (*worker.ImageFeed, error) {
	order, err := s.images.orderOf(images)
	if err != nil {
		return nil, err
	}
	return worker.NewImageFeed(worker.ImageFeedConfig{
		Programs:    n.training,
		Dataset:     images,
		Workers:     store.NumWorkers(),
		Rank:        store.Rank(),
		Seed:        s.training.seed,
		Augment:     normalise,
		Mix:         s.augment.mix(n.classes),
		Readers:     s.images.readers,
		BadExamples: s.images.bad,
		Order:       order,
	})
}

// newTrainer tells the servers how to update, and brings rank 0's parameters to all workers.
func (s *settings) newTrainer(ctx context.Context, n *network, images int, store kvstore.Store) (*worker.Trainer, error) {
	update, err := s.update(images, store.InitialWorkers())
	if err != nil {
		return nil, kvstore.Final(err)
	}
	update.WeightDecayFactors = program.WithoutDecay(n.training[0].Params())
	return worker.NewTrainer(ctx, worker.Config{Store: store, Programs: n.training, Optimizer: update})
}

// fit says how long to train, when to evaluate and save, and who watches.
func (s *settings) fit(trainer *worker.Trainer, feed *worker.ImageFeed, n *network, val *data.Images) worker.FitConfig {
	return worker.FitConfig{
		Trainer: trainer,
		Feed:    feed,

		Epochs:     s.training.epochs,
		MaxSteps:   s.training.maxSteps,
		Checkpoint: s.checkpoint,
		Stop:       s.stop,
		Leave:      s.leave,

		Evaluator: &worker.ImageEvaluator{
			Program: n.evaluation, Logits: n.logits, Dataset: val, Augment: normalise, Readers: s.images.readers, BadExamples: s.images.bad, Metrics: metricsOf(n.classes),
		},
		EvaluateSteps: s.training.evalSteps,
		EMA:           s.training.averages(),

		Observers: s.output.Observers(s.model.devices),
	}
}

// metricsOf are measured besides the loss and the accuracy, which is that of the first guess.
func metricsOf(classes int) []metrics.Metric {
	if classes <= 5 {
		return nil
	}
	return []metrics.Metric{metrics.TopK{K: 5}}
}

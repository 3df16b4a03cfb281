package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/metrics/plot"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (err error) {
	if s.devices, err = nn.ParseDevices(s.devices); err != nil {
		return kvstore.Final(fmt.Errorf("--devices: %w", err))
	}
	if s.threads == 0 {
		s.threads = worker.DefaultThreads(len(s.devices))
	}
	images, err := openSets(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	classes, err := s.countClasses(images.train)
	if err != nil {
		return kvstore.Final(err)
	}
	store, err := program.Join(ctx, s.leave, s.store)
	if err != nil {
		return err
	}
	defer func() { err = program.Leave(store, err, s.checkpoint.Dir != "") }()
	if store.Rank() == 0 {
		if err := os.MkdirAll(s.out, 0o777); err != nil { // better now than after hours
			return kvstore.Final(fmt.Errorf("--out: %w", err))
		}
		fmt.Printf("Images: %d of %v to train on, %d to evaluate, %d classes\n", images.train.Len(), images.train.Shape(), images.val.Len(), classes)
	}
	programs, evaluation, logits, err := compile(s, classes, store.Rank())
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range append([]*nn.Program{evaluation}, programs...) {
			err = errors.Join(err, p.Close())
		}
	}()
	if store.Rank() == 0 {
		fmt.Println(program.MemoryPlan(programs, s.devices))
	}
	if err := s.initialise(ctx, programs[0], store); err != nil {
		return err
	}
	feed, err := s.feed(programs, images.train, store, classes)
	if err != nil {
		return kvstore.Final(err)
	}
	defer feed.Close()
	update, err := s.update(images.train.Len(), store.InitialWorkers())
	if err != nil {
		return kvstore.Final(err)
	}
	update.WeightDecayFactors = program.WithoutDecay(programs[0].Params())
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: programs, Optimizer: update})
	if err != nil {
		return err
	}
	defer trainer.Close()

	epochs, err := worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: s.epochs, MaxSteps: s.maxSteps, Checkpoint: s.checkpoint, Stop: s.stop, Leave: s.leave, EvaluateSteps: s.evalSteps, EMA: s.averages(),
		Evaluator: &worker.ImageEvaluator{
			Program: evaluation, Logits: logits, Dataset: images.val, Augment: normalise, Readers: s.readers, BadExamples: s.bad, Metrics: s.metrics(classes),
		},
		Observers: []worker.Observer{worker.NewGPUs(os.Stdout, s.devices), s.progress(), worker.NewMetricsLines(os.Stdout), worker.TensorBoard(filepath.Join(s.out, "tensorboard"))},
	})
	if err != nil {
		return err
	}
	if s.printHash {
		fmt.Printf("parameters %x\n", program.Hash(programs[0].Params()))
	}
	return report(s, store.Rank(), epochs)
}

// normalise is what all images go through.
var normalise = data.Augment{Mean: data.ImageNetMean, Std: data.ImageNetStd}

// feed gives the programs their images.
func (s *settings) feed(programs []*nn.Program, images *data.Images, store kvstore.Store, classes int) (*worker.ImageFeed, error) {
	order, err := s.orderOf(images)
	if err != nil {
		return nil, err
	}
	cfg := worker.ImageFeedConfig{
		Programs: programs, Dataset: images, Workers: store.NumWorkers(), Rank: store.Rank(), Seed: s.seed, Augment: normalise, Readers: s.readers, BadExamples: s.bad, Order: order,
	}
	if s.mixes() {
		cfg.Mix = data.Mix{Mixup: s.mixup, CutMix: s.cutMix, Classes: classes, Smoothing: s.smoothing}
	}
	return worker.NewImageFeed(cfg)
}

// progress prints the progress of rank 0, or of all ranks.
func (s *settings) progress() *worker.Progress {
	p := worker.NewProgress(os.Stdout)
	if !s.allRanks {
		p.OnlyRankZero()
	}
	return p
}

// averages is the moving average of --ema; nil: there is none.
func (s *settings) averages() *worker.EMA {
	if s.ema == 0 {
		return nil
	}
	return &worker.EMA{Decay: s.ema, WarmUp: true, Result: true}
}

// metrics are measured besides the loss and the accuracy, which is that of the first guess.
func (s *settings) metrics(classes int) []metrics.Metric {
	if classes <= 5 {
		return nil
	}
	return []metrics.Metric{metrics.TopK{K: 5}}
}

// initialise gives rank 0's program the model of --init-from: NewTrainer brings it to the others.
func (s *settings) initialise(ctx context.Context, p *nn.Program, store kvstore.Store) error {
	if store.Rank() != 0 || s.initFrom == "" {
		return nil
	}
	done, err := worker.ImportPart(ctx, p, s.initFrom, s.importing)
	if err != nil {
		return orFinal(fmt.Errorf("--init-from: %w", err))
	}
	fmt.Printf("Loaded the model from %s\n", done.From)
	return worker.WriteImported(os.Stdout, done, p)
}

// update is the update rule that the flags ask for, with so many examples and workers.
func (s *settings) update(examples, workers int) (optim.Config, error) {
	perStep := s.batch * max(len(s.devices), 1)
	perEpoch := ((examples+workers-1)/workers + perStep - 1) / perStep
	cfg := optim.Config{Name: s.optimizer, LearningRate: s.learningRate, WeightDecay: s.weightDecay}
	if s.learningRate == 0 {
		cfg.LearningRate = 0.1 * float64(perStep*workers) / 256
	}
	switch s.optimizer {
	case "nag", "sgd", "lars":
		cfg.Momentum = s.momentum
	}
	warm := min(s.warmEpochs, float64(s.epochs)/10)
	cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: uint64(s.epochs * perEpoch), Warmup: uint64(warm * float64(perEpoch))}
	return cfg, cfg.Validate()
}

// report prints the table of the run, once or on each worker, and draws rank 0's curves.
func report(s settings, rank int, epochs []worker.EpochInfo) error {
	// A run that had come to its end was resumed.
	if len(epochs) == 0 {
		return nil
	}
	if rank == 0 || s.allRanks {
		fmt.Println()
		if err := worker.WriteReport(os.Stdout, epochs); err != nil {
			return err
		}
	}
	if rank != 0 {
		return nil
	}
	// Another worker may have been rank 0 at the start.
	if err := os.MkdirAll(s.out, 0o777); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	path := filepath.Join(s.out, "imagenet.png")
	if err := plot.Curves(path, worker.Curves(fmt.Sprintf("%s at %d pixels", s.model, s.imageSize), epochs)...); err != nil {
		return err
	}
	fmt.Println("Curves:", path)
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// A runConfig is one run.
type runConfig struct {
	cell
	Seed  uint64 `json:"seed"`
	Adapt bool   `json:"adapt"`
}

// A result is what a run came to.
type result struct {
	runConfig

	// Accuracy is that on all test images.
	Accuracy float64 `json:"accuracy"`

	Steps uint64 `json:"steps"`

	// Batch is the mean of the steps' batches, and Largest the largest of them.
	Batch   float64 `json:"batch"`
	Largest int     `json:"largest"`

	// Gain is the one at the end.
	Gain float64 `json:"gain"`
}

// train is one worker of a run. Rank 0 writes the result.
func train(ctx context.Context, c runConfig, folder, path string) (err error) {
	m, err := c.model()
	if err != nil {
		return err
	}
	trainSet, testSet, err := data.LoadCIFAR10(folder)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := kvstore.Create(ctx, "dist_sync", kvstore.WithLogger(logger))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(store, err) }()
	workers := store.NumWorkers()
	compile := func(batch int, cfg nn.Config, outputs func(logits *gorgonia.Node)) (*nn.Program, error) {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: c.Seed})
		images, labels := nn.Input(g, "images", batch, 3, 32, 32), nn.Labels(g, "labels", batch)
		logits := m.build(images)
		loss := nn.SoftmaxCrossEntropy(logits, labels)
		if outputs != nil {
			outputs(logits)
			cfg.Outputs = gorgonia.Nodes{logits}
		}
		cfg.Threads, cfg.Seed = 1, uint64(store.Rank())
		return nn.Compile(loss, cfg)
	}
	program, err := compile(initialBatch/workers, nn.Config{}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	var logits *gorgonia.Node
	evaluation, err := compile(128, nn.Config{Inference: true, Share: program}, func(n *gorgonia.Node) { logits = n })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evaluation.Close()) }()
	normalise := data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}
	augment := normalise
	augment.Flip = true
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{program}, Dataset: trainSet.Head(m.examples), Workers: workers, Rank: store.Rank(), Seed: c.Seed, Augment: augment,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, feed.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: c.optimizer(m), Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trainer.Close()) }()
	last := &lastEvaluator{left: m.epochs, of: &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: testSet, Augment: normalise}}
	fit := worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: m.epochs, Evaluator: last}
	if c.Adapt {
		fit.Adapt = &worker.AdaptConfig{InitialBatch: initialBatch, MaxBatch: maxBatch, Accumulation: true, Model: free{}, Program: func(_, batch int) (*nn.Program, error) {
			return compile(batch, nn.Config{Share: program, MomentumBatch: program.Batch()}, nil)
		}}
	}
	epochs, err := worker.Fit(ctx, fit)
	if err != nil || store.Rank() != 0 {
		return err
	}
	r := result{runConfig: c, Accuracy: epochs[len(epochs)-1].Test.Accuracy, Steps: trainer.Steps(), Batch: initialBatch, Largest: initialBatch, Gain: 1}
	if math.IsNaN(r.Accuracy) {
		return errors.New("the accuracy is not a number")
	}
	if c.Adapt {
		examples := 0
		for _, e := range epochs {
			for _, n := range e.Batches {
				examples += n
				r.Largest = max(r.Largest, n)
			}
			r.Gain = e.Adapt.Gain
		}
		r.Batch = float64(examples) / float64(max(r.Steps, 1))
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}

// A lastEvaluator evaluates at the end of the last epoch alone: the other ones' scores are not
// read.
type lastEvaluator struct {
	// left counts the epochs that are still to end.
	left int

	of worker.Evaluator
}

func (e *lastEvaluator) Evaluate(ctx context.Context) (worker.Scores, error) {
	if e.left--; e.left > 0 {
		return worker.Scores{}, nil
	}
	return e.of.Evaluate(ctx)
}

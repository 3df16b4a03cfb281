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
	build := builder{model: m, seed: c.Seed, rank: store.Rank()}
	program, _, err := build.compile(initialBatch/store.NumWorkers(), nn.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	evaluation, logits, err := build.compile(128, nn.Config{Inference: true, Share: program})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evaluation.Close()) }()

	normalise := data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}
	augment := normalise
	augment.Flip = true
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{program}, Dataset: trainSet.Head(m.examples), Workers: store.NumWorkers(), Rank: store.Rank(), Seed: c.Seed, Augment: augment,
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
		fit.Adapt = build.adapting(program)
	}
	epochs, err := worker.Fit(ctx, fit)
	if err != nil || store.Rank() != 0 {
		return err
	}
	return c.resultOf(epochs, trainer.Steps()).write(path)
}

// A builder compiles a model for one worker.
type builder struct {
	model
	seed uint64
	rank int
}

// compile builds the model for a batch size. A program for inference has the logits as its output.
func (b *builder) compile(batch int, cfg nn.Config) (*nn.Program, *gorgonia.Node, error) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: b.seed})
	images, labels := nn.Input(g, "images", batch, 3, 32, 32), nn.Labels(g, "labels", batch)
	logits := b.build(images)
	loss := nn.SoftmaxCrossEntropy(logits, labels)
	if cfg.Inference {
		cfg.Outputs = gorgonia.Nodes{logits}
	}
	cfg.Threads, cfg.Seed = 1, uint64(b.rank)
	p, err := nn.Compile(loss, cfg)
	return p, logits, err
}

// adapting lets the batch grow. The programs of other batches share the parameters of the first.
func (b *builder) adapting(first *nn.Program) *worker.AdaptConfig {
	return &worker.AdaptConfig{InitialBatch: initialBatch, MaxBatch: maxBatch, Accumulation: true, Model: free{}, Program: func(_, batch int) (*nn.Program, error) {
		p, _, err := b.compile(batch, nn.Config{Share: first, MomentumBatch: first.Batch()})
		return p, err
	}}
}

// resultOf sums up a run.
func (c *runConfig) resultOf(epochs []worker.EpochInfo, steps uint64) *result {
	r := &result{runConfig: *c, Accuracy: epochs[len(epochs)-1].Test.Accuracy, Steps: steps, Batch: initialBatch, Largest: initialBatch, Gain: 1}
	if !c.Adapt {
		return r
	}
	examples := 0
	for _, e := range epochs {
		for _, n := range e.Batches {
			examples += n
			r.Largest = max(r.Largest, n)
		}
		r.Gain = e.Adapt.Gain
	}
	r.Batch = float64(examples) / float64(max(r.Steps, 1))
	return r
}

func (r *result) write(path string) error {
	if math.IsNaN(r.Accuracy) {
		return errors.New("the accuracy is not a number")
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

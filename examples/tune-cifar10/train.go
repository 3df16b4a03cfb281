package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/worker"
)

// train is one worker of one trial.
func (s settings) train(ctx context.Context, p tune.Params, r *tune.Reporter) (err error) {
	trainSet, testSet, err := s.load()
	if err != nil {
		return err
	}
	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	reports := &reporting{r: r, stop: make(chan struct{})}
	defer func() {
		if errors.Is(err, worker.ErrStopped) && reports.err != nil {
			// All workers were told to stop after the same epoch.
			err = errors.Join(reports.err, store.Close())
			return
		}
		err = kvstore.Leave(store, err)
	}()
	fmt.Printf("worker %d of %d: %v\n", store.Rank(), store.NumWorkers(), p)

	training, evaluation, logits, err := s.compile(p.Int("batch"), store.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evaluation.Close(), training.Close()) }()
	normalise := data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{training}, Dataset: trainSet, Workers: store.NumWorkers(), Rank: store.Rank(), Seed: 1, Augment: normalise,
	})
	if err != nil {
		return err
	}
	defer feed.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{training}, Optimizer: update(p)})
	if err != nil {
		return err
	}
	defer trainer.Close()
	observers, err := observers(r, reports)
	if err != nil {
		return err
	}
	_, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: s.epochs, Stop: reports.stop,
		Evaluator: &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: testSet, Augment: normalise},
		Observers: observers,
	})
	if err == nil {
		// The trial was told to stop with its last epoch.
		err = reports.err
	}
	return err
}

// update is the optimizer of a trial. Each optimizer has a learning rate of its own in the space.
func update(p tune.Params) optim.Config {
	name := p.Text("optimizer")
	cfg := optim.Config{Name: name, LearningRate: p.Float(name + "_lr"), WeightDecay: p.Float("weight_decay")}
	if p.Has("momentum") {
		cfg.Momentum = p.Float("momentum")
	}
	return cfg
}

// observers watch a trial. It writes TensorBoard's files where the search runs on this machine.
func observers(r *tune.Reporter, reports *reporting) ([]worker.Observer, error) {
	list := []worker.Observer{reports, worker.NewProgress(os.Stdout)}
	folder, err := r.Folder()
	if err != nil {
		return nil, err
	}
	if folder != "" {
		list = append(list, worker.TensorBoard(filepath.Join(folder, "tensorboard")))
	}
	return list, nil
}

// reporting is a worker.Observer that reports each epoch to the search, and stops the worker if
// that says so.
type reporting struct {
	r    *tune.Reporter
	stop chan struct{}

	// err is the answer to the last report; once it is an error, no more are made.
	err error
}

func (o *reporting) Begin(worker.Run)     {}
func (o *reporting) Step(worker.StepInfo) {}
func (o *reporting) End()                 {}

func (o *reporting) Epoch(e worker.EpochInfo) {
	if o.err != nil || e.Test == nil {
		return
	}
	o.err = o.r.Report(e.Epoch+1, map[string]float64{"accuracy": e.Test.Accuracy, "loss": e.Loss})
	if o.err != nil {
		close(o.stop)
	}
}

// validate looks at what no worker of a trial should be the first to see.
func (s settings) validate() error {
	if s.workers < 1 {
		return fmt.Errorf("--workers is %d, want at least 1", s.workers)
	}
	if most := data.MaxSynthetic; min(s.examples, s.tests) < 0 || s.data == "" && max(s.examples, s.tests) > most {
		return fmt.Errorf("--train-examples is %d and --test-examples %d, want at least 1, or 0 for all; of synthetic images at most %d", s.examples, s.tests, most)
	}
	return nil
}

// load reads CIFAR-10, or draws images like it: the same ones in all trials.
func (s settings) load() (train, test *data.ImageSet, err error) {
	if s.data == "" {
		return data.Synthetic(orElse(s.examples, 2000), 1), data.Synthetic(orElse(s.tests, 500), 1<<32), nil
	}
	if train, test, err = data.LoadCIFAR10(s.data); err != nil {
		return nil, nil, err
	}
	if s.examples > train.Len() || s.tests > test.Len() {
		return nil, nil, fmt.Errorf("--train-examples is %d and --test-examples %d, want at most the %d and %d images of %s", s.examples, s.tests, train.Len(), test.Len(), s.data)
	}
	return train.Head(orElse(s.examples, train.Len())), test.Head(orElse(s.tests, test.Len())), nil
}

func orElse(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// compile makes the program that trains, and one that evaluates its parameters.
func (s settings) compile(batch, rank int) (training, evaluation *nn.Program, logits *gorgonia.Node, err error) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 1})
	images, labels := nn.Input(g, "images", batch, 3, 32, 32), nn.Labels(g, "labels", batch)
	switch s.model {
	case "lenet":
		logits = nn.LeNet(images, nn.LeNetConfig{Classes: 10})
	case "resnet18":
		logits = nn.ResNet18(images, nn.ResNetConfig{Classes: 10, Stem: nn.ImageNet})
	default:
		return nil, nil, nil, fmt.Errorf("--model is %q, want lenet or resnet18", s.model)
	}
	loss, threads := nn.SoftmaxCrossEntropy(logits, labels), worker.DefaultThreads(1)
	if training, err = nn.Compile(loss, nn.Config{Threads: threads, Seed: uint64(rank)}); err != nil {
		return nil, nil, nil, err
	}
	evaluation, err = nn.Compile(loss, nn.Config{Threads: threads, Inference: true, Share: training, Outputs: gorgonia.Nodes{logits}})
	if err != nil {
		return nil, nil, nil, errors.Join(err, training.Close())
	}
	return training, evaluation, logits, nil
}

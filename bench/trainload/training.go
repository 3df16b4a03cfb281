package main

import (
	"context"
	"errors"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// normalise is what is done to each image.
var normalise = data.Augment{Mean: data.ImageNetMean, Std: data.ImageNetStd}

// A training is a network with what trains it.
type training struct {
	config
	store   kvstore.Store
	program *nn.Program
	trainer *worker.Trainer
}

func newTraining(ctx context.Context, c config, dtype nn.DType) (t *training, err error) {
	t = &training{config: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 1})
	logits := c.build(nn.Input(g, "images", c.batch, 3, c.size, c.size), nn.ResNetConfig{Classes: 1000, Stem: nn.ImageNet, Width: c.width})
	loss := nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", c.batch))
	if t.program, err = nn.Compile(loss, nn.Config{DType: dtype, Threads: worker.DefaultThreads(1)}); err != nil {
		return t, err
	}
	if t.store, err = kvstore.Create(ctx, "local"); err != nil {
		return t, err
	}
	t.trainer, err = worker.NewTrainer(ctx, worker.Config{
		Store: t.store, Programs: []*nn.Program{t.program}, Optimizer: optim.Config{Name: "nag", LearningRate: 1e-3, Momentum: 0.9},
	})
	return t, err
}

// spell trains on some batches of an epoch, and measures those behind the first ones.
func (t *training) spell(ctx context.Context, images data.Dataset, epoch, prefetch int) (s spell, err error) {
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{t.program}, Dataset: images, Workers: 1, Seed: 1, Augment: normalise, Readers: t.read, Prefetch: prefetch,
	})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, feed.Close()) }()
	resetPeak()
	if err := feed.Begin(ctx, epoch, 0); err != nil {
		return s, err
	}
	m := startMeter()
	for step := range t.warm + t.steps {
		if step == t.warm {
			m, s.waited = startMeter(), 0
		}
		begun := time.Now()
		counts, err := feed.Next(ctx)
		if err != nil {
			return s, err
		}
		s.waited += time.Since(begun).Seconds()
		if err := t.trainer.Step(ctx, counts); err != nil {
			return s, err
		}
	}
	if err := t.trainer.Flush(ctx); err != nil {
		return s, err
	}
	s.images = t.steps * t.batch
	m.stop(&s)
	return s, nil
}

func (t *training) close() (err error) {
	if t.trainer != nil {
		err = errors.Join(err, t.trainer.Close())
	}
	if t.store != nil {
		err = errors.Join(err, t.store.Close())
	}
	if t.program != nil {
		err = errors.Join(err, t.program.Close())
	}
	return err
}

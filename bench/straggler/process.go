package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// process is one process of a job.
func process() error {
	return processes.Main(slog.LevelError, nil, func(ctx context.Context, cfg cluster.Config) error {
		var s settings
		if err := json.Unmarshal([]byte(os.Getenv(settingsEnv)), &s); err != nil {
			return fmt.Errorf("%s: %w", settingsEnv, err)
		}
		r, err := train(ctx, s, cfg)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	})
}

// train is a worker's part.
func train(ctx context.Context, s settings, cfg cluster.Config) (r report, err error) {
	trainSet, testSet, err := loadData(s.Data)
	if err != nil {
		return r, err
	}
	opts := []kvstore.Option{kvstore.WithLogger(cfg.Logger)}
	if s.Mode.Staleness >= 0 {
		opts = append(opts, kvstore.WithStaleness(uint64(s.Mode.Staleness)))
	}
	rate := s.Rate / float64(s.Workers*s.Batch)
	update := worker.Config{Logger: cfg.Logger, Optimizer: optim.Config{Name: "sgd", LearningRate: rate, Reduction: optim.Sum}}
	if s.Mode.Local > 0 {
		opts = append(opts, kvstore.WithLocalSteps(s.Mode.Local))
		update.Optimizer = optim.Config{Name: "sgd", LearningRate: s.Rate}
		update.Outer = optim.Config{Name: "sgd", LearningRate: 1}
	}
	kv, err := kvstore.Create(cluster.WithConfig(ctx, cfg), s.Mode.Store, opts...)
	if err != nil {
		return r, err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	m, err := newModel(trainSet.Shape(), s.Batch)
	if err != nil {
		return r, err
	}
	defer m.close()
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{m.training}, Dataset: trainSet, Workers: s.Workers, Rank: kv.Rank(), Seed: 1, Augment: m.normalise, Readers: 1,
	})
	if err != nil {
		return r, err
	}
	defer feed.Close()
	update.Store, update.Programs = kv, []*nn.Program{m.training}
	trainer, err := worker.NewTrainer(ctx, update)
	if err != nil {
		return r, err
	}
	defer trainer.Close()
	var saved []savedModel
	if r, saved, err = spell(ctx, s, kv, trainer, feed, m); err != nil {
		return r, err
	}
	for _, k := range saved { // after the spell, so that it takes none of its time
		for i, p := range m.training.Params() {
			copy(p.Value, k.values[i])
		}
		scores, err := (&worker.ImageEvaluator{Program: m.evaluation, Logits: m.logits, Dataset: testSet, Augment: m.normalise}).Evaluate(ctx)
		if err != nil {
			return r, err
		}
		k.Accuracy = scores.Accuracy
		r.Snapshots = append(r.Snapshots, k.snapshot)
	}
	return r, nil
}

// A savedModel is the model at a snapshot.
type savedModel struct {
	snapshot
	values [][]float32
}

// snapshots is how many rank 0 keeps of a spell.
const snapshots = 16

// spell trains until the time is over: at least one step, and whole rounds of local steps.
func spell(ctx context.Context, s settings, kv kvstore.Store, trainer *worker.Trainer, feed worker.Feed, m *model) (r report, all []savedModel, err error) {
	keep := func(took time.Duration) {
		k := savedModel{snapshot: snapshot{Seconds: took.Seconds()}}
		k.Examples = float64(r.Steps * s.Workers * s.Batch) // all workers are at the same step
		if s.Mode.Store == "dist_async" {
			k.Examples = float64(kv.Staleness(m.training.Params()[0].Name).Round) * float64(s.Batch)
		}
		for _, p := range m.training.Params() {
			k.values = append(k.values, slices.Clone(p.Value))
		}
		all = append(all, k)
	}
	if err := kv.Barrier(ctx); err != nil {
		return r, nil, err
	}
	start := time.Now()
	if kv.Rank() == 0 {
		keep(0)
	}
	local := max(s.Mode.Local, 1)
	more := func() bool { return time.Since(start) < s.Spell || r.Steps == 0 || r.Steps%local != 0 }
	for epoch := 0; more(); epoch++ {
		if err := feed.Begin(ctx, epoch, 0); err != nil {
			return r, nil, err
		}
		for step := 0; step < feed.Steps() && more(); step++ {
			counts, err := feed.Next(ctx)
			if err != nil {
				return r, nil, err
			}
			if err := trainer.Step(ctx, counts); err != nil {
				return r, nil, err
			}
			time.Sleep(s.pause(kv.Rank(), time.Since(start)))
			r.Steps++
			if kv.Rank() == 0 && r.Steps%local == 0 && time.Since(start) >= s.Spell*time.Duration(len(all))/snapshots {
				if err := trainer.Flush(ctx); err != nil {
					return r, nil, err
				}
				keep(time.Since(start))
			}
		}
	}
	if err := trainer.Flush(ctx); err != nil {
		return r, nil, err
	}
	if age := trainer.TakeStaleness(); age != nil {
		r.Missed, r.Lead = age.Missed, age.Lead
	}
	return r, all, nil
}

// pause is how long a worker's step pauses that far into the spell.
func (s *settings) pause(rank int, into time.Duration) time.Duration {
	slow := s.Workers - 1
	if s.Wander > 0 {
		slow = int(into/s.Wander) % s.Workers
	}
	if rank != slow {
		return s.Pause
	}
	return time.Duration(float64(s.Pause) * s.Slow)
}

// A model is the perceptron, for training and for its test.
type model struct {
	training, evaluation *nn.Program
	logits               *gorgonia.Node
	normalise            data.Augment
}

func newModel(shape data.Shape, batch int) (*model, error) {
	build := func(batch int) (logits, loss *gorgonia.Node) {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 1})
		images, labels := nn.Input(g, "images", batch, shape.Channels, shape.Height, shape.Width), nn.Labels(g, "labels", batch)
		logits = nn.MLP(images, nn.MLPConfig{Hidden: []int{64}, Classes: 10})
		return logits, nn.SoftmaxCrossEntropy(logits, labels)
	}
	m := &model{normalise: data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}}
	if shape.Channels == 1 {
		m.normalise = data.Augment{Mean: data.MNISTMean, Std: data.MNISTStd}
	}
	_, loss := build(batch)
	var err error
	if m.training, err = nn.Compile(loss, nn.Config{Threads: 1}); err != nil {
		return nil, err
	}
	m.logits, loss = build(100)
	m.evaluation, err = nn.Compile(loss, nn.Config{Threads: 1, Inference: true, Share: m.training, Outputs: gorgonia.Nodes{m.logits}})
	if err != nil {
		m.training.Close()
		return nil, err
	}
	return m, nil
}

func (m *model) close() {
	m.evaluation.Close()
	m.training.Close()
}

func loadData(folder string) (train, test *data.ImageSet, err error) {
	if folder != "" {
		return data.LoadMNIST(folder)
	}
	return data.Synthetic(2000, 1), data.Synthetic(500, 1<<32), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
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
	trainSet, testSet, err := loadData(ctx, s)
	if err != nil {
		return err
	}
	outer, err := s.outer()
	if err != nil {
		return kvstore.Final(err)
	}
	store, err := program.Join(ctx, s.leave, s.store, s.storeOptions()...)
	if err != nil {
		return err
	}
	defer func() { err = program.Leave(store, err, s.checkpoint.Dir != "") }()
	if store.Rank() == 0 {
		if err := os.MkdirAll(s.out, 0o777); err != nil { // better now than after hours
			return kvstore.Final(fmt.Errorf("--out: %w", err))
		}
	}

	programs, evaluation, logits, err := compile(s, store.Rank())
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
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: programs, Dataset: trainSet, Workers: store.NumWorkers(), Rank: store.Rank(), Seed: s.seed, Augment: s.augmentation(),
	})
	if err != nil {
		return kvstore.Final(err)
	}
	defer feed.Close()
	update, err := s.update(trainSet.Len(), store.InitialWorkers(), programs[0])
	if err != nil {
		return kvstore.Final(err)
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{
		Store: store, Programs: programs, Optimizer: update, Outer: outer, UpdateOnWorker: s.updateOnWorker, Compression: s.compression,
	})
	if err != nil {
		return err
	}
	defer trainer.Close()

	epochs, err := worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Adapt: adapting(s, programs), Epochs: s.epochs, MaxSteps: s.maxSteps, Checkpoint: s.checkpoint, Stop: s.stop, Leave: s.leave,
		Evaluator:     &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: testSet, Augment: normalise},
		EvaluateSteps: s.evalSteps, EarlyStop: s.stopsEarly(), EMA: s.averages(),
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
var normalise = data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}

// augmentation is what the images to train on go through.
func (s *settings) augmentation() data.Augment {
	augment := normalise
	if s.augment {
		augment.Pad, augment.Flip = 4, true
	}
	return augment
}

// update is the optimizer's config for a number of images and of workers. With --adapt steps are
// those at the initial batch.
func (s *settings) update(images, workers int, p *nn.Program) (optim.Config, error) {
	perEpoch := stepsPerEpoch(*s, images, workers)
	if s.adapts && s.adapt.InitialBatch > 0 {
		perEpoch = (images-1)/s.adapt.InitialBatch + 1
	}
	update, err := optimizer(*s, perEpoch)
	if err == nil && s.decayWeightsOnly {
		update.WeightDecayFactors = program.WithoutDecay(p.Params())
	}
	return update, err
}

// stopsEarly is --early-stop, of the test loss.
func (s *settings) stopsEarly() *worker.EarlyStop {
	if s.earlyStop == 0 {
		return nil
	}
	return &worker.EarlyStop{Patience: s.earlyStop, Restore: true}
}

// averages is --ema.
func (s *settings) averages() *worker.EMA {
	if s.ema == 0 {
		return nil
	}
	return &worker.EMA{Decay: s.ema, WarmUp: true, Result: true}
}

// initialise gives rank 0's program the model of --init-from: NewTrainer brings it to the others.
func (s *settings) initialise(ctx context.Context, program *nn.Program, store kvstore.Store) error {
	if store.Rank() != 0 || s.initFrom == "" {
		return nil
	}
	done, err := worker.ImportPart(ctx, program, s.initFrom, s.importing)
	if err != nil {
		return orMissing(fmt.Errorf("--init-from: %w", flagged(err)))
	}
	fmt.Printf("Loaded the model from %s\n", done.From)
	return worker.WriteImported(os.Stdout, done, program)
}

// flagged names flags where an import or a compilation names fields.
func flagged(err error) error {
	text := err.Error()
	told := strings.NewReplacer("Config.Freeze", "--freeze", "ImportConfig.Skip", "--init-skip", "ImportConfig.Rename", "--init-rename", "ImportConfig.IgnoreMismatched", "--init-ignore-mismatched").Replace(text)
	return flagError{err, told}
}

// A flagError is an error in the words of the command line.
type flagError struct {
	error
	text string
}

func (e flagError) Error() string { return e.text }
func (e flagError) Unwrap() error { return e.error }

// progress shows the run once, or on each worker.
func (s *settings) progress() *worker.Progress {
	p := worker.NewProgress(os.Stdout)
	if !s.allRanks {
		p.OnlyRankZero()
	}
	return p
}

// loadData reads CIFAR-10, or draws images like it.
func loadData(ctx context.Context, s settings) (train, test *data.ImageSet, err error) {
	if s.data == "" {
		if s.download {
			return nil, nil, kvstore.Final(errors.New("--download needs --data, the folder to fetch into"))
		}
		fmt.Println("No --data: training on synthetic images (--data takes CIFAR-10).")
		return data.Synthetic(orElse(s.trainExamples, 10_000), s.seed), data.Synthetic(orElse(s.testImages, 2_000), s.seed+1<<32), nil
	}
	if s.download {
		if err := data.FetchCIFAR10(ctx, http.DefaultClient, s.data); err != nil {
			return nil, nil, err
		}
	}
	train, test, err = data.LoadCIFAR10(s.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, kvstore.Final(fmt.Errorf("%w, or let --download do it", err))
	case err != nil:
		return nil, nil, err
	}
	if s.trainExamples > train.Len() || s.testImages > test.Len() {
		return nil, nil, kvstore.Final(fmt.Errorf("--train-examples is %d and --test-examples %d, want at most the %d and %d images of %s, or 0 for all", s.trainExamples, s.testImages, train.Len(), test.Len(), s.data))
	}
	return train.Head(orElse(s.trainExamples, train.Len())), test.Head(orElse(s.testImages, test.Len())), nil
}

// orMissing says of an error of a file that is not there that no restart can mend it.
func orMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return kvstore.Final(err)
	}
	return err
}

func orElse(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// stepsPerEpoch is how many steps an epoch has with so many workers.
func stepsPerEpoch(s settings, examples, workers int) int {
	perStep := s.batch * len(s.devices)
	return ((examples+workers-1)/workers + perStep - 1) / perStep
}

// optimizer is the update rule that the flags ask for.
func optimizer(s settings, stepsPerEpoch int) (optim.Config, error) {
	cfg := optim.Config{Name: s.optimizer, LearningRate: s.learningRate, Momentum: s.momentum, WeightDecay: s.weightDecay}
	steps, warmup := s.epochs*stepsPerEpoch, uint64(s.warmEpochs*float64(stepsPerEpoch))
	switch s.schedule {
	case "constant":
	case "cosine":
		cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: uint64(steps)}
	case "linear", "onecycle":
		cfg.Schedule = optim.Schedule{Kind: "polynomial", Power: 1, Steps: uint64(steps)}
		if s.schedule == "onecycle" && warmup == 0 {
			warmup = uint64(steps / 4)
		}
	default:
		return cfg, fmt.Errorf("--schedule is %q, want constant, cosine, linear or onecycle", s.schedule)
	}
	cfg.Schedule.Warmup = warmup
	return cfg, cfg.Validate()
}

// storeOptions are the options of the store that the flags ask for.
func (s *settings) storeOptions() (opts []kvstore.Option) {
	if s.staleness >= 0 {
		opts = append(opts, kvstore.WithStaleness(uint64(s.staleness)))
	}
	if s.localSteps > 0 {
		opts = append(opts, kvstore.WithLocalSteps(s.localSteps))
	}
	return opts
}

// outer is the servers' update rule with local steps; none without.
func (s *settings) outer() (optim.Config, error) {
	if s.localSteps == 0 {
		return optim.Config{}, nil
	}
	cfg := optim.Config{Name: "nag", LearningRate: s.outerRate, Momentum: s.outerMomentum}
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
	path := filepath.Join(s.out, "cifar10.png")
	set := "CIFAR-10"
	if s.data == "" {
		set = "synthetic images"
	}
	if err := plot.Curves(path, worker.Curves(fmt.Sprintf("%s (%s stem) on %s", s.model, s.stem, set), epochs)...); err != nil {
		return err
	}
	fmt.Println("Curves:", path)
	return nil
}

package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// trainingSettings say how long a run trains, what it learns from and how it updates the network.
type trainingSettings struct {
	// epochs and maxSteps end the run; 0 of maxSteps is no limit.
	epochs   int
	maxSteps uint64

	// evalSteps are the steps between evaluations within an epoch; 0: none.
	evalSteps int

	// earlyStop is how many evaluations in a row may bring nothing better; 0: as many as there
	// are.
	earlyStop int

	// ema is the decay of the moving average of the weights; 0: there is none.
	ema float64

	optimizer string
	schedule  string

	// learningRate is what the schedule begins at, after warmEpochs of linear growth.
	learningRate, warmEpochs float64
	momentum, weightDecay    float64

	// clip bounds the norm of the gradients of all parameters together; 0: no bound.
	clip float64

	// decayWeightsOnly spares biases and batch normalisations the weight decay.
	decayWeightsOnly bool

	// smoothing is the share of each label that goes to all classes; classWeights has a weight for
	// each class, or none.
	smoothing    float64
	classWeights []float64

	// augment crops and flips the images at random.
	augment bool

	// seed is the same on all workers.
	seed uint64
}

func trainingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "epochs", Value: 5, Usage: "passes over the data"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch; with --adapt, steps of the initial batch (0: none)"},
		&cli.IntFlag{Name: "early-stop", Usage: "end after N evaluations in a row without a smaller test loss; the best model is the result, and its checkpoint stays (0: train all epochs)"},
		&cli.Float64Flag{Name: "ema", Usage: "keep a moving average of the weights with this decay, such as 0.999, after a warm-up; it is evaluated, too, saved with checkpoints, and the result (0: none)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.StringFlag{Name: "optimizer", Value: "adam", Usage: "sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lars or lamb"},
		&cli.Float64Flag{Name: "lr", Value: 0.001, Usage: "learning rate"},
		&cli.Float64Flag{Name: "momentum", Usage: "momentum of sgd, nag, rmsprop and lars"},
		&cli.Float64Flag{Name: "weight-decay", Usage: "weight decay"},
		&cli.Float64Flag{Name: "clip", Usage: "largest norm of the gradients of all parameters together, such as 1; updates then wait for the last gradient (0: no bound)"},
		&cli.BoolFlag{Name: "decay-weights-only", Usage: "no weight decay of biases and of batch normalisations"},
		&cli.Float64Flag{Name: "label-smoothing", Usage: "share of each label that is spread over all classes, such as 0.1; in training only"},
		&cli.Float64SliceFlag{Name: "class-weights", Usage: "weight of each of the 10 classes in the loss, separated by commas, such as 1,1,1,2,1,1,1,1,1,1; in training only, on CPUs"},
		&cli.StringFlag{Name: "schedule", Value: "constant", Usage: "constant, cosine, linear (both fall to 0), or onecycle: a line up for a quarter of the steps, or --warmup-epochs, and one down to 0"},
		&cli.Float64Flag{Name: "warmup-epochs", Usage: "epochs of linear warm-up"},
		&cli.BoolFlag{Name: "augment", Usage: "random crops and flips"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, data order and augmentation; the same on all workers"},
	}
}

func trainingFrom(c *cli.Context) trainingSettings {
	return trainingSettings{
		epochs:           c.Int("epochs"),
		maxSteps:         c.Uint64("max-steps"),
		evalSteps:        c.Int("eval-steps"),
		earlyStop:        c.Int("early-stop"),
		ema:              c.Float64("ema"),
		optimizer:        c.String("optimizer"),
		schedule:         c.String("schedule"),
		learningRate:     c.Float64("lr"),
		warmEpochs:       c.Float64("warmup-epochs"),
		momentum:         c.Float64("momentum"),
		weightDecay:      c.Float64("weight-decay"),
		clip:             c.Float64("clip"),
		decayWeightsOnly: c.Bool("decay-weights-only"),
		smoothing:        c.Float64("label-smoothing"),
		classWeights:     c.Float64Slice("class-weights"),
		augment:          c.Bool("augment"),
		seed:             c.Uint64("seed"),
	}
}

func (s *trainingSettings) validate() error {
	switch {
	case !(s.smoothing >= 0 && s.smoothing < 1):
		return fmt.Errorf("--label-smoothing is %v, want at least 0 and below 1", s.smoothing)
	case len(s.classWeights) != 0 && len(s.classWeights) != 10:
		return fmt.Errorf("--class-weights has %d numbers, want one for each of the 10 classes, separated by commas", len(s.classWeights))
	case s.epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	case s.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", s.evalSteps)
	case !(s.ema >= 0 && s.ema < 1):
		return fmt.Errorf("--ema is %v, want above 0 and below 1, such as 0.999, or 0 for none", s.ema)
	case s.ema > 0 && s.earlyStop > 0:
		return errors.New("--ema with --early-stop, want one of them: each makes another model the result")
	case s.earlyStop < 0:
		return fmt.Errorf("--early-stop is %d, want at least 1, or 0 to train all epochs", s.earlyStop)
	case !(s.warmEpochs >= 0 && s.warmEpochs <= float64(s.epochs)):
		return fmt.Errorf("--warmup-epochs is %v, want 0 to the %d of --epochs", s.warmEpochs, s.epochs)
	}
	_, err := s.update(1)
	return err
}

// update is the update rule that the flags ask for.
func (s *trainingSettings) update(stepsPerEpoch int) (optim.Config, error) {
	cfg := optim.Config{Name: s.optimizer, LearningRate: s.learningRate, Momentum: s.momentum, WeightDecay: s.weightDecay, ClipGlobalNorm: s.clip}
	steps, warmup := uint64(s.epochs*stepsPerEpoch), uint64(s.warmEpochs*float64(stepsPerEpoch))
	switch s.schedule {
	case "constant":
	case "cosine":
		cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: steps}
	case "linear", "onecycle":
		cfg.Schedule = optim.Schedule{Kind: "polynomial", Power: 1, Steps: steps}
		if s.schedule == "onecycle" && warmup == 0 {
			warmup = steps / 4
		}
	default:
		return cfg, fmt.Errorf("--schedule is %q, want constant, cosine, linear or onecycle", s.schedule)
	}
	cfg.Schedule.Warmup = warmup
	return cfg, cfg.Validate()
}

// updateFor is the update rule for a number of images and of workers, and for a program's
// parameters. With --adapt its steps are those at the initial batch.
func (s *settings) updateFor(images, workers int, p *nn.Program) (optim.Config, error) {
	update, err := s.training.update(s.stepsPerEpoch(images, workers))
	if err == nil && s.training.decayWeightsOnly {
		update.WeightDecayFactors = program.WithoutDecay(p.Params())
	}
	return update, err
}

// stepsPerEpoch is how many steps a pass over the images takes.
func (s *settings) stepsPerEpoch(images, workers int) int {
	if initial := s.adapt.config.InitialBatch; s.adapt.on && initial > 0 {
		return roundUp(images, initial)
	}
	return roundUp(roundUp(images, workers), s.model.batch*len(s.model.devices))
}

// roundUp is the quotient of two numbers above 0, rounded up.
func roundUp(n, by int) int { return (n + by - 1) / by }

// normalise is what all images go through.
var normalise = data.Augment{Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}

// augmentation is what the images to train on go through.
func (s *trainingSettings) augmentation() data.Augment {
	augment := normalise
	if s.augment {
		augment.Pad, augment.Flip = 4, true
	}
	return augment
}

// stopsEarly is --early-stop, of the test loss.
func (s *trainingSettings) stopsEarly() *worker.EarlyStop {
	if s.earlyStop == 0 {
		return nil
	}
	return &worker.EarlyStop{Patience: s.earlyStop, Restore: true}
}

// averages is --ema.
func (s *trainingSettings) averages() *worker.EMA {
	if s.ema == 0 {
		return nil
	}
	return &worker.EMA{Decay: s.ema, WarmUp: true, Result: true}
}

package main

import (
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

	// ema is the decay of the moving average of the weights; 0: there is none.
	ema float64

	// learningRate is what the cosine begins at, after warmEpochs of linear growth.
	learningRate, warmEpochs, weightDecay float64

	// smoothing is the share of each label that goes to all classes.
	smoothing float64

	// augment crops and flips the images at random.
	augment bool

	// seed is the same on all workers.
	seed uint64
}

func trainingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "epochs", Value: 30, Usage: "passes over the data"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch (0: none)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.Float64Flag{Name: "ema", Usage: "keep a moving average of the weights with this decay, such as 0.999, after a warm-up; it is evaluated, too, saved with checkpoints, and the result (0: none)"},
		&cli.Float64Flag{Name: "lr", Value: 0.0005, Usage: "learning rate of AdamW, which falls to 0 along a cosine"},
		&cli.Float64Flag{Name: "warmup-epochs", Value: 1, Usage: "epochs of linear warm-up"},
		&cli.Float64Flag{Name: "weight-decay", Value: 0.05, Usage: "weight decay of the weights of linear layers and patches; biases, normalisations, positions and the class token have none"},
		&cli.Float64Flag{Name: "label-smoothing", Value: 0.1, Usage: "share of each label that is spread over all classes; in training only"},
		&cli.BoolFlag{Name: "augment", Value: true, Usage: "random crops and flips"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, data order, augmentation and dropout; the same on all workers"},
	}
}

func trainingFrom(c *cli.Context) trainingSettings {
	return trainingSettings{
		epochs:       c.Int("epochs"),
		evalSteps:    c.Int("eval-steps"),
		maxSteps:     c.Uint64("max-steps"),
		ema:          c.Float64("ema"),
		learningRate: c.Float64("lr"),
		warmEpochs:   c.Float64("warmup-epochs"),
		weightDecay:  c.Float64("weight-decay"),
		smoothing:    c.Float64("label-smoothing"),
		augment:      c.Bool("augment"),
		seed:         c.Uint64("seed"),
	}
}

func (s *trainingSettings) validate() error {
	switch {
	case s.epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	case s.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", s.evalSteps)
	case !(s.ema >= 0 && s.ema < 1):
		return fmt.Errorf("--ema is %v, want above 0 and below 1, such as 0.999, or 0 for none", s.ema)
	case !(s.smoothing >= 0 && s.smoothing < 1):
		return fmt.Errorf("--label-smoothing is %v, want at least 0 and below 1", s.smoothing)
	case !(s.warmEpochs >= 0 && s.warmEpochs <= float64(s.epochs)):
		return fmt.Errorf("--warmup-epochs is %v, want 0 to the %d of --epochs", s.warmEpochs, s.epochs)
	}
	update := s.update(1)
	return update.Validate()
}

// update is AdamW with warm-up and a cosine.
func (s *trainingSettings) update(stepsPerEpoch int) optim.Config {
	cfg := optim.Config{Name: "adamw", LearningRate: s.learningRate, WeightDecay: s.weightDecay}
	steps := uint64(s.epochs * stepsPerEpoch)

	// A short run is not all warm-up.
	cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: steps, Warmup: min(uint64(s.warmEpochs*float64(stepsPerEpoch)), steps/2)}
	return cfg
}

// updateFor is the update rule for a number of images and of workers, and for a program's
// parameters.
func (s *settings) updateFor(images, workers int, p *nn.Program) optim.Config {
	update := s.training.update(roundUp(roundUp(images, workers), s.model.batch*len(s.model.devices)))
	update.WeightDecayFactors = withoutDecay(p.Params())
	return update
}

// withoutDecay takes weight decay off biases and normalisations, positions and the class token.
func withoutDecay(params []nn.Param) []optim.Factor {
	return append(program.WithoutDecay(params), optim.Factor{Keys: "class_token", Factor: 0}, optim.Factor{Keys: "encoder.pos_embedding", Factor: 0})
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

// averages is --ema.
func (s *trainingSettings) averages() *worker.EMA {
	if s.ema == 0 {
		return nil
	}
	return &worker.EMA{Decay: s.ema, WarmUp: true, Result: true}
}

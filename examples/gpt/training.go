package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// trainingSettings say how long a run trains and how it updates the network.
type trainingSettings struct {
	// epochs and maxSteps end the run; 0 of maxSteps is no limit.
	epochs   int
	maxSteps uint64

	// evalSteps are the steps between evaluations within an epoch; 0: none.
	evalSteps int

	// earlyStop is how many evaluations in a row may bring nothing better; 0: as many as there
	// are.
	earlyStop int

	// accumulation is how many runs of a step come before its last one.
	accumulation int

	schedule string

	// learningRate is what the schedule begins at, after warmSteps of linear growth, and
	// leastRate what it ends at; below 0: a tenth of learningRate.
	learningRate, leastRate float64
	warmSteps               uint64

	// beta2 is AdamW's, and weightDecay that of what is multiplied by.
	beta2, weightDecay float64

	// clip bounds the norm of the gradients of all parameters together; 0: no bound.
	clip float64

	// seed is the same on all workers.
	seed uint64
}

func trainingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "epochs", Value: 3, Usage: "passes over the text (0, with --init-from: sample alone)"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch; with --adapt, steps of the initial batch (0: none)"},
		&cli.IntFlag{Name: "early-stop", Usage: "end after N evaluations in a row without a smaller test loss; the best model is the result, and its checkpoint stays (0: train all epochs)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.IntFlag{Name: "accumulation", Usage: "batches of a step before its last one, whose gradients are added up: for steps larger than the memory"},
		&cli.Float64Flag{Name: "lr", Value: 0.001, Usage: "learning rate of AdamW"},
		&cli.Float64Flag{Name: "min-lr", Value: -1, Usage: "learning rate at the end of the schedule (below 0: a tenth of --lr)"},
		&cli.Uint64Flag{Name: "warmup-steps", Value: 100, Usage: "steps of linear warm-up"},
		&cli.StringFlag{Name: "schedule", Value: "cosine", Usage: "constant, cosine or linear (both fall to --min-lr)"},
		&cli.Float64Flag{Name: "beta2", Value: 0.99, Usage: "AdamW's decay of the second moment"},
		&cli.Float64Flag{Name: "weight-decay", Value: 0.1, Usage: "weight decay of embeddings and of weights of linear layers; biases and normalisations have none"},
		&cli.Float64Flag{Name: "clip", Usage: "largest norm of the gradients of all parameters together, such as 1; updates then wait for the last gradient (0: no bound)"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, order and dropout; the same on all workers"},
	}
}

func trainingFrom(c *cli.Context) trainingSettings {
	return trainingSettings{
		epochs:       c.Int("epochs"),
		maxSteps:     c.Uint64("max-steps"),
		evalSteps:    c.Int("eval-steps"),
		earlyStop:    c.Int("early-stop"),
		accumulation: c.Int("accumulation"),
		schedule:     c.String("schedule"),
		learningRate: c.Float64("lr"),
		leastRate:    c.Float64("min-lr"),
		warmSteps:    c.Uint64("warmup-steps"),
		beta2:        c.Float64("beta2"),
		weightDecay:  c.Float64("weight-decay"),
		clip:         c.Float64("clip"),
		seed:         c.Uint64("seed"),
	}
}

func (s *trainingSettings) validate() error {
	switch {
	case s.epochs < 0:
		return fmt.Errorf("--epochs is %d, want at least 1, or 0 to sample alone", s.epochs)
	case s.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", s.evalSteps)
	case s.earlyStop < 0:
		return fmt.Errorf("--early-stop is %d, want at least 1, or 0 to train all epochs", s.earlyStop)
	case s.accumulation < 0 || s.accumulation > maxBatch:
		return fmt.Errorf("--accumulation is %d, want 0 to %d", s.accumulation, maxBatch)
	}
	_, err := s.update(1)
	return err
}

// update is the update rule that the flags ask for.
func (s *trainingSettings) update(stepsPerEpoch int) (optim.Config, error) {
	cfg := optim.Config{Name: "adamw", LearningRate: s.learningRate, Beta1: 0.9, Beta2: s.beta2, WeightDecay: s.weightDecay, ClipGlobalNorm: s.clip}
	least := s.leastRate
	if least < 0 {
		least = s.learningRate / 10
	}
	steps := uint64(max(1, s.epochs)) * uint64(stepsPerEpoch)
	if s.maxSteps > 0 {
		steps = min(steps, s.maxSteps)
	}
	switch s.schedule {
	case "constant":
	case "cosine":
		cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: steps, Final: least}
	case "linear":
		cfg.Schedule = optim.Schedule{Kind: "polynomial", Power: 1, Steps: steps, Final: least}
	default:
		return cfg, fmt.Errorf("--schedule is %q, want constant, cosine or linear", s.schedule)
	}
	// A short run is not all warm-up.
	cfg.Schedule.Warmup = min(s.warmSteps, steps/2)
	return cfg, cfg.Validate()
}

// updateFor is the update rule for a number of windows and of workers, and for a program's
// parameters. With --adapt its steps are those at the initial batch.
func (s *settings) updateFor(windows, workers int, p *nn.Program) (optim.Config, error) {
	update, err := s.training.update(s.stepsPerEpoch(windows, workers))
	update.WeightDecayFactors = program.WithoutDecay(p.Params())
	return update, err
}

// stepsPerEpoch is how many steps a pass over the text takes.
func (s *settings) stepsPerEpoch(windows, workers int) int {
	if initial := s.adapt.config.InitialBatch; s.adapt.on && initial > 0 {
		return roundUp(windows, initial)
	}
	return roundUp(roundUp(windows, workers), s.model.batch*len(s.model.devices)*(s.training.accumulation+1))
}

// roundUp is the quotient of two numbers above 0, rounded up.
func roundUp(n, by int) int { return (n + by - 1) / by }

// stopsEarly is --early-stop, of the test loss.
func (s *trainingSettings) stopsEarly() *worker.EarlyStop {
	if s.earlyStop == 0 {
		return nil
	}
	return &worker.EarlyStop{Patience: s.earlyStop, Restore: true}
}

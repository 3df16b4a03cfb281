package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

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

	// ema is the decay of the moving average of the weights; 0: there is none.
	ema float64

	optimizer string

	// learningRate is what the schedule begins at, after warmEpochs of linear growth; 0: by the
	// batch.
	learningRate, warmEpochs float64
	momentum, weightDecay    float64

	// seed is the same on all workers.
	seed uint64
}

func trainingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "epochs", Value: 90, Usage: "passes over the data"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch (0: none)"},
		&cli.Float64Flag{Name: "ema", Usage: "keep a moving average of the weights with this decay, such as 0.9999, after a warm-up; it is evaluated, too, saved with checkpoints, and the result (0: none)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.StringFlag{Name: "optimizer", Value: "nag", Usage: "nag (SGD with Nesterov's momentum), sgd, adamw, lars or lamb"},
		&cli.Float64Flag{Name: "lr", Usage: "learning rate (0: 0.1 times the batch of all workers together over 256)"},
		&cli.Float64Flag{Name: "momentum", Value: 0.9, Usage: "momentum of nag, sgd and lars"},
		&cli.Float64Flag{Name: "weight-decay", Value: 1e-4, Usage: "weight decay, but of biases and batch normalisations"},
		&cli.Float64Flag{Name: "warmup-epochs", Value: 5, Usage: "epochs of linear warm-up, at most a tenth of --epochs; a cosine to 0 follows"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, data order and augmentation; the same on all workers"},
	}
}

func trainingFrom(c *cli.Context) trainingSettings {
	return trainingSettings{
		epochs:       c.Int("epochs"),
		maxSteps:     c.Uint64("max-steps"),
		evalSteps:    c.Int("eval-steps"),
		ema:          c.Float64("ema"),
		optimizer:    c.String("optimizer"),
		learningRate: c.Float64("lr"),
		warmEpochs:   c.Float64("warmup-epochs"),
		momentum:     c.Float64("momentum"),
		weightDecay:  c.Float64("weight-decay"),
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
		return fmt.Errorf("--ema is %v, want at least 0 and below 1", s.ema)
	case !(s.learningRate >= 0):
		return fmt.Errorf("--lr is %v, want above 0, or 0 for 0.1 times the global batch over 256", s.learningRate)
	case !(s.warmEpochs >= 0):
		return fmt.Errorf("--warmup-epochs is %v, want at least 0", s.warmEpochs)
	}
	return nil
}

// update is the update rule that the flags ask for, with so many examples and workers.
func (s *settings) update(examples, workers int) (optim.Config, error) {
	t := &s.training
	perStep := s.model.batch * max(len(s.model.devices), 1)
	perEpoch := roundUp(roundUp(examples, workers), perStep)
	cfg := optim.Config{Name: t.optimizer, LearningRate: t.learningRate, WeightDecay: t.weightDecay}
	if t.learningRate == 0 {
		cfg.LearningRate = 0.1 * float64(perStep*workers) / 256
	}
	switch t.optimizer {
	case "nag", "sgd", "lars":
		cfg.Momentum = t.momentum
	}
	warm := min(t.warmEpochs, float64(t.epochs)/10)
	cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: uint64(t.epochs * perEpoch), Warmup: uint64(warm * float64(perEpoch))}
	return cfg, cfg.Validate()
}

// roundUp is the quotient of two numbers above 0, rounded up.
func roundUp(n, by int) int { return (n + by - 1) / by }

// averages is the moving average of --ema; nil: there is none.
func (s *trainingSettings) averages() *worker.EMA {
	if s.ema == 0 {
		return nil
	}
	return &worker.EMA{Decay: s.ema, WarmUp: true, Result: true}
}

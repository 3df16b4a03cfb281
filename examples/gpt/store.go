package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// storeSettings say how the workers exchange gradients or values.
type storeSettings struct {
	// name is dist_sync or dist_async.
	name string

	compression kvstore.Compression

	// staleness is how many steps a worker of dist_async may be ahead; below 0: no bound.
	staleness int

	// localSteps are the steps that a worker takes alone between two exchanges; 0: none.
	localSteps int

	// outerRate and outerMomentum are what the servers update by after local steps.
	outerRate, outerMomentum float64

	// updateOnWorker leaves the servers nothing but the sum.
	updateOnWorker bool
}

func storeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kvstore", Value: "dist_sync", Usage: "dist_sync or dist_async; without a launcher a job of one worker"},
		&cli.StringFlag{Name: "compression", Value: "none", Usage: "compression of pushed gradients: none, fp16, bf16, 2bit, 1bit or topk"},
		&cli.Float64Flag{Name: "compression-ratio", Usage: "share of the values that topk sends (0: 0.01)"},
		&cli.Float64Flag{Name: "compression-threshold", Usage: "threshold of 2bit or 1bit, in units of a gradient summed over a worker's batch"},
		&cli.Float64Flag{Name: "compression-scale", Usage: "2bit without a threshold: the threshold of each layer and step is this times the root mean square of its gradient (0: 1)"},
		&cli.StringFlag{Name: "compression-pull", Value: "none", Usage: "compression of values sent back: none, fp16 or bf16"},
		&cli.IntFlag{Name: "staleness", Value: -1, Usage: "dist_async: how many steps a worker may run ahead of the slowest one (-1: no bound)"},
		&cli.IntFlag{Name: "local-steps", Usage: "steps that a worker takes alone between two exchanges, for slow links (0: none; each step exchanges gradients)"},
		&cli.Float64Flag{Name: "outer-lr", Value: 0.7, Usage: "with --local-steps: the servers' learning rate for the mean change of the workers' values"},
		&cli.Float64Flag{Name: "outer-momentum", Value: 0.9, Usage: "with --local-steps: the servers' Nesterov momentum"},
		&cli.BoolFlag{Name: "update-on-worker", Usage: "run the optimizer on the workers; the servers only sum"},
	}
}

func storeFrom(c *cli.Context) storeSettings {
	return storeSettings{
		name:           c.String("kvstore"),
		compression:    compressionFrom(c),
		staleness:      c.Int("staleness"),
		localSteps:     c.Int("local-steps"),
		outerRate:      c.Float64("outer-lr"),
		outerMomentum:  c.Float64("outer-momentum"),
		updateOnWorker: c.Bool("update-on-worker"),
	}
}

func compressionFrom(c *cli.Context) kvstore.Compression {
	compression := kvstore.Compression{
		Type:      c.String("compression"),
		Ratio:     c.Float64("compression-ratio"),
		Threshold: float32(c.Float64("compression-threshold")),
		Scale:     c.Float64("compression-scale"),
		Pull:      c.String("compression-pull"),
	}
	if compression.Type == "2bit" && compression.Scale == 0 && c.Float64("compression-threshold") == 0 {
		// One threshold for all layers does not train this network under Adam.
		compression.Scale = 1
	}
	return compression
}

func (s *storeSettings) isAsynchronous() bool { return s.name == "dist_async" }

func (s *storeSettings) validate() error {
	switch {
	case s.staleness >= 0 && !s.isAsynchronous():
		return fmt.Errorf("--staleness is %d with --kvstore %s, want dist_async", s.staleness, s.name)
	case s.localSteps < 0:
		return fmt.Errorf("--local-steps is %d, want at least 1, or 0 for none", s.localSteps)
	case s.localSteps > 0 && !(s.outerRate > 0):
		return fmt.Errorf("--outer-lr is %v, want above 0", s.outerRate)
	}
	if _, err := s.outer(); err != nil {
		return fmt.Errorf("--outer-lr, --outer-momentum: %w", err)
	}
	if err := s.compression.Validate(); err != nil {
		return fmt.Errorf("--compression: %w", err)
	}
	return nil
}

// options are those of the store that the worker joins.
func (s *storeSettings) options() (list []kvstore.Option) {
	if s.staleness >= 0 {
		list = append(list, kvstore.WithStaleness(uint64(s.staleness)))
	}
	if s.localSteps > 0 {
		list = append(list, kvstore.WithLocalSteps(s.localSteps))
	}
	return list
}

// outer is the servers' update rule with local steps; none without.
func (s *storeSettings) outer() (optim.Config, error) {
	if s.localSteps == 0 {
		return optim.Config{}, nil
	}
	cfg := optim.Config{Name: "nag", LearningRate: s.outerRate, Momentum: s.outerMomentum}
	return cfg, cfg.Validate()
}

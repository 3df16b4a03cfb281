package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// adaptSettings say whether and how the batch grows while training.
type adaptSettings struct {
	// on is --adapt. The other flags of the group need it.
	on bool

	// config has no Program yet: adapting adds it.
	config worker.AdaptConfig
}

func adaptFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "adapt", Usage: "choose the batch size while training, by goodput; the learning rate and the schedule are for --initial-batch, and an epoch is the progress of one pass over the data with that batch"},
		&cli.IntFlag{Name: "max-batch", Usage: "with --adapt: the largest batch of all workers together (0: the batch stays at the initial one)"},
		&cli.IntFlag{Name: "initial-batch", Usage: "with --adapt: the batch of all workers together that the learning rate is for (0: --batch times the devices of all workers at the start)"},
		&cli.IntFlag{Name: "max-local-batch", Usage: "with --adapt: the largest number of windows of a worker in one forward and backward pass; larger batches take several passes (0: bounded by --max-batch and the memory only)"},
		&cli.StringFlag{Name: "rule", Usage: "with --adapt: rule by which the learning rate grows with the batch: " + strings.Join(adapt.Rules(), ", ") + " (default: adamscale for Adam's family, else adascale)"},
		&cli.Float64Flag{Name: "rule-warmup-epochs", Usage: "with --rule legw: epochs of the rule's warm-up at the initial batch"},
	}
}

func adaptFrom(c *cli.Context) adaptSettings {
	return adaptSettings{on: c.Bool("adapt"), config: worker.AdaptConfig{
		Rule:         c.String("rule"),
		InitialBatch: c.Int("initial-batch"),
		MaxBatch:     c.Int("max-batch"),
		MaxLocal:     c.Int("max-local-batch"),
		WarmupEpochs: c.Float64("rule-warmup-epochs"),
		Accumulation: true,
	}}
}

// validateAdapt says what --adapt does not go with, before anything is loaded. What depends on the
// number of workers, worker.Fit checks.
func (s *settings) validateAdapt() error {
	a := s.adapt.config
	if !s.adapt.on {
		if a.MaxBatch != 0 || a.InitialBatch != 0 || a.MaxLocal != 0 || a.Rule != "" || a.WarmupEpochs != 0 {
			return errors.New("--max-batch, --initial-batch, --max-local-batch, --rule and --rule-warmup-epochs need --adapt")
		}
		return nil
	}
	initial, from := a.InitialBatch, "--initial-batch"
	if initial == 0 {
		// These are the devices of one worker; auto is at least one.
		initial, from = s.model.batch*len(s.model.devices), "--batch times the devices"
	}
	switch {
	case a.MaxBatch < 0 || a.InitialBatch < 0 || a.MaxLocal < 0:
		return fmt.Errorf("--max-batch is %d, --initial-batch %d and --max-local-batch %d, want at least 1, or 0 for the defaults", a.MaxBatch, a.InitialBatch, a.MaxLocal)
	case a.MaxBatch > 0 && a.MaxBatch < initial:
		return fmt.Errorf("--max-batch is %d, below the initial batch of %d (%s); want at least the initial batch of all workers, or 0 to keep it", a.MaxBatch, initial, from)
	case s.store.isAsynchronous():
		return errors.New("--adapt with --kvstore dist_async, want dist_sync: an asynchronous job has no step that all workers take together, so no global batch")
	case s.store.localSteps > 0:
		return fmt.Errorf("--adapt with --local-steps %d, want 0: rounds of local steps exchange values, not gradients, so the noise of gradients cannot be measured", s.store.localSteps)
	case s.store.updateOnWorker:
		return errors.New("--adapt with --update-on-worker, want one of them: the servers scale the learning rate")
	case slices.Contains([]string{"2bit", "1bit", "topk"}, s.store.compression.Type):
		return fmt.Errorf("--adapt with --compression %s, want none, fp16 or bf16: it sends parts of a gradient some steps later, so the noise of a step cannot be measured", s.store.compression.Type)
	}
	rule := a.Rule
	if rule == "" {
		rule = adapt.DefaultRule("adamw")
	}
	if err := adapt.ValidateRule(rule, adapt.Progress{Examples: 1, InitialBatch: 1, WarmupEpochs: a.WarmupEpochs}); err != nil {
		return fmt.Errorf("--rule, --rule-warmup-epochs: %w", err)
	}
	if a.WarmupEpochs != 0 && rule != "legw" {
		return fmt.Errorf("--rule-warmup-epochs is %v with --rule %s, want --rule legw: the other rules have no warm-up; --warmup-epochs sets the warm-up of the schedule", a.WarmupEpochs, rule)
	}
	return nil
}

// adapting is what --adapt asks for; nil: nothing. The programs of other batches share the
// parameters of the worker's own.
func (s *settings) adapting(programs []*nn.Program) *worker.AdaptConfig {
	if !s.adapt.on {
		return nil
	}
	cfg := s.adapt.config
	cfg.Program = func(device, batch int) (*nn.Program, error) {
		other := *s
		other.model.batch = batch
		return other.compileTraining(device, nn.Config{Share: programs[device]})
	}
	return &cfg
}

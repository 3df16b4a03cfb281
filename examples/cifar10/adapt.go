package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// checkAdapt says what --adapt does not go with, before anything is loaded. What depends on the
// number of workers, worker.Fit checks.
func (s *settings) checkAdapt() error {
	a := s.adapt
	if !s.adapts {
		if a.MaxBatch != 0 || a.InitialBatch != 0 || a.MaxLocal != 0 || a.Rule != "" || a.WarmupEpochs != 0 {
			return errors.New("--max-batch, --initial-batch, --max-local-batch, --rule and --rule-warmup-epochs need --adapt")
		}
		return nil
	}
	initial, from := a.InitialBatch, "--initial-batch"
	if initial == 0 {
		// These are the devices of one worker; auto is at least one.
		initial, from = s.batch*len(s.devices), "--batch times the devices"
	}
	switch {
	case a.MaxBatch < 0 || a.InitialBatch < 0 || a.MaxLocal < 0:
		return fmt.Errorf("--max-batch is %d, --initial-batch %d and --max-local-batch %d, want at least 1, or 0 for the defaults", a.MaxBatch, a.InitialBatch, a.MaxLocal)
	case a.MaxBatch > 0 && a.MaxBatch < initial:
		return fmt.Errorf("--max-batch is %d, below the initial batch of %d (%s); want at least the initial batch of all workers, or 0 to keep it", a.MaxBatch, initial, from)
	case s.store == "dist_async":
		return errors.New("--adapt with --kvstore dist_async, want dist_sync: an asynchronous job has no step that all workers take together, so no global batch")
	case s.localSteps > 0:
		return fmt.Errorf("--adapt with --local-steps %d, want 0: rounds of local steps exchange values, not gradients, so the noise of gradients cannot be measured", s.localSteps)
	case s.updateOnWorker:
		return errors.New("--adapt with --update-on-worker, want one of them: the servers scale the learning rate")
	case slices.Contains([]string{"2bit", "1bit", "topk"}, s.compression.Type):
		return fmt.Errorf("--adapt with --compression %s, want none, fp16 or bf16: it sends parts of a gradient some steps later, so the noise of a step cannot be measured", s.compression.Type)
	}
	rule := a.Rule
	if rule == "" {
		rule = adapt.DefaultRule(s.optimizer)
	}
	if err := adapt.ValidateRule(rule, adapt.Progress{Examples: 1, InitialBatch: 1, WarmupEpochs: a.WarmupEpochs}); err != nil {
		return fmt.Errorf("--rule, --rule-warmup-epochs: %w", err)
	}
	if a.WarmupEpochs != 0 && rule != "legw" {
		return fmt.Errorf("--rule-warmup-epochs is %v with --rule %s, want --rule legw: the other rules have no warm-up; --warmup-epochs sets the warm-up of the schedule", a.WarmupEpochs, rule)
	}
	return nil
}

// adapting is what --adapt asks for; nil: nothing.
func adapting(s settings, programs []*nn.Program) *worker.AdaptConfig {
	if !s.adapts {
		return nil
	}
	cfg := s.adapt
	cfg.Program = func(device, batch int) (*nn.Program, error) {
		s := s
		s.batch = batch
		m, err := buildModel(s, true)
		if err != nil {
			return nil, err
		}
		dtype, err := nn.ParseDType(s.dtype)
		if err != nil {
			return nil, err
		}
		return nn.Compile(m.loss, nn.Config{Device: s.devices[device], DType: dtype, Threads: s.threads, Share: programs[device], MomentumBatch: programs[device].Batch()})
	}
	return &cfg
}

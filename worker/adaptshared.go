package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/adapt"
)

// A sharedConfig is what all workers of an adapting job must have alike: from it each computes
// gain, factors and progress for itself. MinLocal and MaxLocal may differ with the memory of the
// workers' devices.
type sharedConfig struct {
	Rule         string     `json:"rule"`
	InitialBatch int        `json:"initial_batch"`
	MaxBatch     int        `json:"max_batch"`
	Accumulation bool       `json:"accumulation"`
	WarmupEpochs float64    `json:"warmup_epochs"`
	Smoothing    float64    `json:"smoothing"`
	Groups       []string   `json:"groups"`
	Decisions    []Decision `json:"decisions"`
}

func (a *adaptation) shared() sharedConfig {
	c := &a.cfg
	s := sharedConfig{Rule: a.scaling.rule, InitialBatch: a.initial(), MaxBatch: c.MaxBatch, Accumulation: c.Accumulation, WarmupEpochs: c.WarmupEpochs,
		Smoothing: c.Smoothing, Groups: c.Groups, Decisions: c.Decisions}
	if s.Smoothing == 0 {
		s.Smoothing = adapt.DefaultSmoothing
	}
	return s
}

// check is an error that names the first field of this worker which is not that of rank 0.
func (s *sharedConfig) check(first *sharedConfig, given bool, workers int) error {
	if s.InitialBatch != first.InitialBatch && !given {
		return fmt.Errorf("worker: the programs of this worker make an initial batch of %d with %d workers, those of rank 0 one of %d: set AdaptConfig.InitialBatch where workers have different devices",
			s.InitialBatch, workers, first.InitialBatch)
	}
	for _, f := range []struct {
		name      string
		same      bool
		own, that any
	}{
		{"InitialBatch", s.InitialBatch == first.InitialBatch, s.InitialBatch, first.InitialBatch},
		{"Rule", s.Rule == first.Rule, s.Rule, first.Rule},
		{"MaxBatch", s.MaxBatch == first.MaxBatch, s.MaxBatch, first.MaxBatch},
		{"Accumulation", s.Accumulation == first.Accumulation, s.Accumulation, first.Accumulation},
		{"WarmupEpochs", s.WarmupEpochs == first.WarmupEpochs, s.WarmupEpochs, first.WarmupEpochs},
		{"Smoothing", s.Smoothing == first.Smoothing, s.Smoothing, first.Smoothing},
		{"Groups", slices.Equal(s.Groups, first.Groups), s.Groups, first.Groups},
		{"Decisions", slices.Equal(s.Decisions, first.Decisions), s.Decisions, first.Decisions},
	} {
		if !f.same {
			return fmt.Errorf("worker: AdaptConfig.%s is %v, and that of rank 0 %v, want the same on all workers", f.name, f.own, f.that)
		}
	}
	return nil
}

// A broadcaster brings the text of the worker of the lowest rank to all. A kvstore.Store is one.
type broadcaster interface {
	Broadcast(ctx context.Context, make func() (string, error)) (string, error)
}

// agreeAtStart compares the configuration with rank 0's, and takes rank 0's first batch: how it is
// rounded depends on a worker's devices.
func (a *adaptation) agreeAtStart(ctx context.Context, store broadcaster) error {
	type start struct {
		Config sharedConfig `json:"config"`
		Batch  batch        `json:"batch"`
	}
	own := start{a.shared(), a.batch}
	text, err := store.Broadcast(ctx, func() (string, error) {
		text, err := json.Marshal(own)
		return string(text), err
	})
	var first start
	if err == nil {
		err = json.Unmarshal([]byte(text), &first)
	}
	if err != nil {
		return fmt.Errorf("worker: configuration of adaptive training: %w", err)
	}
	if err := own.Config.check(&first.Config, a.cfg.InitialBatch > 0, a.store.NumWorkers()); err != nil {
		return err
	}
	if err := first.Batch.check(); err != nil {
		return fmt.Errorf("worker: configuration of adaptive training: %w", err)
	}
	a.batch = first.Batch
	return nil
}

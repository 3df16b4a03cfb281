package kvstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

func (s *store) SetOptimizer(ctx context.Context, cfg optim.Config) error {
	data, err := cfg.Encode()
	if err != nil {
		return fmt.Errorf("kvstore: set optimizer: %w", err)
	}
	s.mu.Lock()
	before := s.optimizer
	s.mu.Unlock()
	if before != nil && !before.Equal(cfg) {
		old, _ := before.Encode()
		return fmt.Errorf("kvstore: set optimizer: %w: got %s, want %s as this worker set before", ErrConflict, data, old)
	}
	if cfg.WholeKeys() {
		for _, k := range s.sorted() {
			if k.rule == wire.RuleOptimizer && len(k.shards) > 1 {
				return keyError("set optimizer "+cfg.Name, k.name, ErrUnsupported,
					"it needs norms over whole keys, but the key is cut into %d shards: call SetOptimizer before Init", len(k.shards))
			}
		}
	}
	if err := s.sendOptimizer(ctx, "set optimizer", string(data)); err != nil {
		return err
	}
	s.mu.Lock()
	s.optimizer = &cfg
	s.warnOfMisfit()
	saved := s.saved
	s.saved = nil
	s.mu.Unlock()
	return s.restoreRates(ctx, saved, &cfg)
}

// sendOptimizer sends the mode, the guard and, unless it is empty, the optimizer's JSON to all
// servers.
func (s *store) sendOptimizer(ctx context.Context, verb, config string) error {
	o, err := s.optimizerOp(verb, config)
	if err != nil {
		return err
	}
	return o.run(ctx)
}

func (s *store) optimizerOp(verb, config string) (*op, error) {
	mode := wire.ModeSync
	switch {
	case s.async:
		mode = wire.ModeAsync
	case s.anyOrder:
		mode = wire.ModeAnyOrder
	}
	guard := ""
	if s.guard != nil {
		var err error
		if guard, err = shard.Guard(*s.guard).Encode(); err != nil {
			return nil, fmt.Errorf("kvstore: %s: %w", verb, err)
		}
	}
	return s.requests.toEveryServer(verb, func(c *call) {
		head := &wire.SetOptimizer{Mode: mode, Config: config, Guard: guard}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
	}), nil
}

func (s *store) SetLearningRate(ctx context.Context, round uint64, rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return fmt.Errorf("kvstore: set learning rate: got %v, want a finite number, at least 0", rate)
	}
	if s.joining.Load() {
		return s.notYet("set learning rate")
	}
	// A round that this worker has not pushed to cannot close before all servers have the rate.
	for _, k := range s.sorted() {
		if _, next := k.next(); !s.async && k.rule == wire.RuleOptimizer && round < next {
			return keyError("set learning rate", k.name, ErrConflict, "got round %d, to which this worker has pushed already; want round %d or later", round, next)
		}
	}
	return s.requests.everyServer(ctx, "set learning rate", func(c *call) {
		head := &wire.SetRate{Round: round, Rate: rate}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
	})
}

// restoreRates sets the learning rates that SetLearningRate had set when the checkpoint was saved,
// for the rounds from the loaded one on. It does nothing if the optimizer differs from the saved
// one in anything else: then the caller has chosen another.
func (s *store) restoreRates(ctx context.Context, saved, now *optim.Config) error {
	if saved == nil || now == nil || saved.Equal(*now) {
		return nil
	}
	bare := *saved
	bare.Changes = now.Changes
	if !bare.Equal(*now) {
		return nil
	}
	round := uint64(0)
	for _, k := range s.sorted() {
		_, next := k.next()
		round = max(round, next)
	}
	for i, ch := range saved.Changes {
		from := ch.Step
		if from < round {
			if i+1 < len(saved.Changes) && saved.Changes[i+1].Step <= round {
				continue // a later change took its place
			}
			from = round
		}
		err := s.requests.everyServer(ctx, "set learning rate", func(c *call) {
			head := &wire.SetRate{Round: from, Rate: ch.LearningRate}
			c.request, c.origin, c.answer = head, &head.Origin, &wire.Ack{}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sorted returns this worker's keys by name.
func (s *store) sorted() []*key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]*key, 0, len(s.keys))
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		keys = append(keys, s.keys[name])
	}
	return keys
}

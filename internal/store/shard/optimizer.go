package shard

import (
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// SetOptimizer makes all shards apply opt from their next round on, or none if one has to refuse: a
// shard of a cut key, when the rule needs whole keys (wire.CodeUnsupported), or a shard that has
// closed round from already (wire.CodeConflict; NoBound: no check). A rule with the same slots
// keeps the state; for another rule the state begins anew. Shards of the average rule are skipped.
// No shard may be named twice. Callers with shards in common must name them in the same order,
// because the shards are locked in that order.
func SetOptimizer(shards []*Shard, opt *optim.Optimizer, from uint64) error {
	cfg := opt.Config()
	for _, s := range shards {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.err != nil:
			return s.err
		case s.cfg.Rule == wire.RuleAverage:
		case s.cfg.Shards > 1 && cfg.WholeKeys():
			return s.cfg.refuse(wire.CodeUnsupported, "optimizer %s needs norms of whole keys, but the key is cut into %d shards", cfg.Name, s.cfg.Shards)
		case s.rounds.number > from:
			return s.cfg.refuse(wire.CodeConflict, "optimizer change from round %d on: %d rounds have closed", from, s.rounds.number)
		}
	}
	for _, s := range shards {
		if s.cfg.Rule != wire.RuleAverage {
			s.setOptimizer(opt)
		}
	}
	return nil
}

// setOptimizer makes opt the optimizer; nil changes nothing.
func (s *Shard) setOptimizer(opt *optim.Optimizer) {
	if opt == nil {
		return
	}
	if s.updater.set(&s.cfg, opt) {
		s.sum.norms.spoil()
		if o := s.table.vocabulary; o != nil {
			o.setSlots(opt.NewState(1).Slots)
		}
	}
	s.replica.reconfigured()
}

// Optimizer returns the config of the optimizer in use, or false.
func (s *Shard) Optimizer() (optim.Config, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.updater.opt == nil {
		return optim.Config{}, false
	}
	return s.updater.opt.Config(), true
}

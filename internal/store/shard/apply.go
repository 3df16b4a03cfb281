package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// apply applies the sum to the value, as round number step, and empties the sum.
func (s *Shard) apply(step uint64) error {
	var err error
	s.planNorms(step)
	s.weight = s.sum.weight
	switch {
	case s.weighsNothing(): // not even what the optimizer remembers changes
		if s.lent() != nil {
			s.addLent(&s.sum.partialSum)
		}
		s.sum.keepsValue = true
		s.writable() // readers keep the Version they have, with its round number
	case s.vocabulary != nil:
		err = s.applyOpen(step)
	case s.n == 0:
	case s.cfg.RowLen > 0:
		err = s.applyRows(step)
	case s.lent() != nil:
		err = s.applyLent(step)
	case s.sum.data == nil && s.sum.refused: // the guard has refused every contribution
		s.sum.keepsValue = true
		s.writable() // readers keep the Version they have, with its round number
	case s.sum.data == nil:
		err = fmt.Errorf("close round %d: no contributions", step)
	case s.cfg.Rule == wire.RuleAverage:
		if s.sum.weight > 0 {
			total, weight := s.sum.data.Float32s(s.n), float32(s.sum.weight)
			for i := range total {
				total[i] /= weight
			}
			s.takeSum()
		} else {
			s.writable()
		}
	case s.opt == nil:
		s.takeSquares(0, s.n)
		s.takeSum()
	default:
		// The value changes in place if no reader holds it.
		pass := s.pass(step)
		err = s.update(&pass)
	}
	s.finishNorms()
	if err == nil && s.keepsSum() {
		s.keepSum(step)
	}
	if err == nil && s.backup.isInSync() {
		s.recordRound(step)
	}
	s.resetSum()
	if err != nil {
		return s.refuse(wire.CodeInternal, "round %d: %v", step, err)
	}
	return nil
}

// weighsNothing reports whether the round that closes is to be a mean, and has contributions of
// weight 0 alone: nothing was learned, so it updates nothing.
func (s *Shard) weighsNothing() bool {
	return s.opt != nil && s.cfg.Rule == wire.RuleOptimizer && !(s.sum.weight > 0) && s.opt.Config().Reduction == optim.Mean
}

func (s *Shard) pass(step uint64) optim.Pass {
	cfg := s.opt.Config()
	scale, rate := cfg.ScaleFor(s.sum.weight), s.open.learningRate()
	pass := s.opt.At(step, scale, s.factors)
	if rate.ByProgress {
		pass = s.opt.AtProgress(step, rate.Progress, scale, s.factors)
	}
	if rate.Scaled {
		pass = pass.WithFactor(rate.Factor)
	}
	if rate.Gain > 0 {
		pass = pass.WithGain(rate.Gain)
	}
	return pass
}

// takeSum makes the sum the value, without a copy.
func (s *Shard) takeSum() {
	data := s.sum.data
	s.sum.data = nil
	s.replace(data)
}

// Optimizer returns the config of the optimizer in use, or false.
func (s *Shard) Optimizer() (optim.Config, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opt == nil {
		return optim.Config{}, false
	}
	return s.opt.Config(), true
}

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
			return s.refuse(wire.CodeUnsupported, "optimizer %s needs norms of whole keys, but the key is cut into %d shards", cfg.Name, s.cfg.Shards)
		case s.rounds > from:
			return s.refuse(wire.CodeConflict, "optimizer change from round %d on: %d rounds have closed", from, s.rounds)
		}
	}
	for _, s := range shards {
		if s.cfg.Rule == wire.RuleAverage {
			continue
		}
		s.setOptimizer(opt)
	}
	return nil
}

func (s *Shard) setOptimizer(opt *optim.Optimizer) {
	if opt.Check(s.state, s.n) != nil {
		if n := s.measuring; n != nil {
			n.spoiled = n.asked // contributions of the open round were preconditioned by the old state
		}
		s.state = opt.NewState(s.n)
		if s.vocabulary != nil {
			s.vocabulary.setSlots(opt.NewState(1).Slots)
		}
	}
	s.opt, s.factors = opt, opt.Factors(s.cfg.Name)
	if s.backup.isFilling() {
		s.backup.stale = true
	}
}

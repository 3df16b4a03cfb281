package shardserver

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A settings is what all workers of a job must agree on: mode, guard and optimizer. The first
// worker sets them; the others, and those that join later, must mean the same. Rates that SetRate
// has set since do not count in that comparison.
//
// Its methods check and change nothing: the server applies what they return to its shards, and
// keeps it once that has succeeded.
type settings struct {
	// mode is 0 until it is set, and modeBy says who has set it and the guard.
	mode   uint8
	modeBy string
	// guard is nil if there is none.
	guard *shard.Guard
	// base is the optimizer as given to SetOptimizer, without the changes of SetRate.
	base optim.Config
	// opt is nil until an optimizer is set, and optBy says who has set it.
	opt   *optim.Optimizer
	optBy string
}

// modeName names a mode as users do.
func modeName(mode uint8) string {
	switch mode {
	case wire.ModeAsync:
		return "dist_async"
	case wire.ModeAnyOrder:
		return "dist_sync with sums in any order"
	}
	return "dist_sync"
}

// guardText shows a guard in messages.
func guardText(g *shard.Guard) string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *g)
}

// encoded shows an optimizer as JSON, in messages and to a backup.
func encoded(cfg optim.Config) string {
	data, err := cfg.Encode()
	if err != nil {
		return fmt.Sprintf("%q", cfg.Name)
	}
	return string(data)
}

// checkMode reports whether mode is to be set, or returns an error if another one is.
func (x *settings) checkMode(mode uint8, by string) (set bool, err error) {
	if x.mode != 0 && x.mode != mode {
		return false, refuse(wire.CodeConflict, "mode: %s set %s, but %s had set %s", by, modeName(mode), x.modeBy, modeName(x.mode))
	}
	return x.mode != mode, nil
}

// checkGuard returns an error unless guard is the one that was set together with the mode.
func (x *settings) checkGuard(guard *shard.Guard, by string) error {
	if (guard == nil) != (x.guard == nil) || guard != nil && *guard != *x.guard {
		return refuse(wire.CodeConflict, "guard: %s set %s, but %s had set %s", by, guardText(guard), x.modeBy, guardText(x.guard))
	}
	return nil
}

// optimizer returns the optimizer that a worker's config asks to set, or nil if it means the one
// that is set. It compares all but the rates of SetRate: a worker that sets its optimizer again
// after SetRate, or after the load of a state with such rates, means the same optimizer.
func (x *settings) optimizer(cfg optim.Config, by string) (*optim.Optimizer, error) {
	if x.opt != nil {
		have, got := x.base, cfg
		if len(got.Changes) == 0 || len(have.Changes) == 0 {
			have.Changes, got.Changes = nil, nil
		}
		if !have.Equal(got) {
			return nil, refuse(wire.CodeConflict, "set optimizer: %s set %s, but %s had set %s", by, encoded(cfg), x.optBy, encoded(x.base))
		}
		if len(cfg.Changes) == 0 || len(x.base.Changes) > 0 || len(x.opt.Config().Changes) > 0 {
			return nil, nil
		}
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return nil, refuse(wire.CodeMalformed, "set optimizer: %v", err)
	}
	return opt, nil
}

// replicated returns the optimizer of a shard that was copied to this server, and its base, for a
// server that no worker has sent one, or an older one; nil: there is nothing new. Configs come from
// a shard that has decoded them, so that they are valid.
func (x *settings) replicated(config, base string) (*optim.Optimizer, optim.Config) {
	if config == "" {
		return nil, optim.Config{}
	}
	cfg, err := optim.Decode([]byte(config))
	if err != nil || x.opt != nil && !hasLaterRates(x.opt.Config(), cfg) {
		return nil, optim.Config{}
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return nil, optim.Config{}
	}
	if b, err := optim.Decode([]byte(base)); err == nil {
		return opt, b
	}
	return opt, cfg
}

// encodedBase returns the optimizer as given to SetOptimizer, as JSON; empty: none is set.
func (x *settings) encodedBase() string {
	if x.opt == nil {
		return ""
	}
	return encoded(x.base)
}

// isCurrent reports whether a shard has the optimizer that is set, perhaps with later rates.
func (x *settings) isCurrent(s *shard.Shard) bool {
	have, ok := s.Optimizer()
	return ok && (have.Equal(x.opt.Config()) || hasLaterRates(x.opt.Config(), have))
}

// hasLaterRates reports whether got is the same optimizer as have, with later changes of the
// learning rate.
func hasLaterRates(have, got optim.Config) bool {
	h, g := have.Changes, got.Changes
	have.Changes, got.Changes = nil, nil
	return len(g) > 0 && (len(h) == 0 || g[len(g)-1].Step > h[len(h)-1].Step) && have.Equal(got)
}

// applyTo gives a new shard what is set.
func (x *settings) applyTo(s *shard.Shard) error {
	if x.mode != 0 {
		if err := s.SetMode(x.mode); err != nil {
			return err
		}
	}
	if x.opt != nil {
		if err := shard.SetOptimizer([]*shard.Shard{s}, x.opt, shard.NoBound); err != nil {
			return err
		}
	}
	if x.guard != nil {
		shard.SetGuard([]*shard.Shard{s}, *x.guard)
	}
	return nil
}

// neededChanges drops changes that no future round needs: a program that sets a rate at each step
// would otherwise grow the config without bound.
func neededChanges(changes []optim.Change, shards []*shard.Shard) []optim.Change {
	open := uint64(math.MaxUint64)
	for _, sh := range shards {
		// The learning rate does not apply to the others, which may never be pushed to.
		if sh.Config().Rule == wire.RuleOptimizer {
			open = min(open, sh.Rounds())
		}
	}
	if open == math.MaxUint64 {
		return changes
	}
	first := 0
	for i, ch := range changes {
		if ch.Step <= open {
			first = i
		}
	}
	return changes[first:]
}

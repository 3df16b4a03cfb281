package shardserver

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
	"github.com/paragon-train/paragon/optim"
)

// serveSetOptimizer sets mode and optimizer. The first counts; the same again is acknowledged.
func (c *call) serveSetOptimizer() error {
	s, m := c.s, &c.setOptimizer
	by := s.who(m.Node)
	if m.Mode < wire.ModeSync || m.Mode > wire.ModeAnyOrder {
		return refuse(wire.CodeMalformed, "set optimizer: got mode %d, want %d (sync), %d (async) or %d (sync, sums in any order)", m.Mode, wire.ModeSync, wire.ModeAsync, wire.ModeAnyOrder)
	}
	var cfg optim.Config
	if m.Config != "" {
		var err error
		if cfg, err = optim.Decode([]byte(m.Config)); err != nil {
			return refuse(wire.CodeMalformed, "set optimizer: %v", err)
		}
	}
	var guard *shard.Guard
	if m.Guard != "" {
		g, err := shard.DecodeGuard(m.Guard)
		if err != nil {
			return refuse(wire.CodeMalformed, "set optimizer: %v", err)
		}
		guard = &g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	// A worker that joins asks whether it means what the others mean. It may be here before they are.
	if w := s.view.Load().workers[m.Node]; w != nil && w.joins && (s.mode == 0 || m.Config != "" && s.opt == nil) {
		return refuse(wire.CodeBusy, "set optimizer: %s says it, but none of the workers that count has yet", by)
	}
	first := s.mode == 0
	if err := s.setMode(m.Mode, by); err != nil {
		return err
	}
	if err := s.setGuard(guard, first, by); err != nil {
		return err
	}
	if m.Config != "" {
		if err := s.setOptimizer(cfg, by); err != nil {
			return err
		}
	}
	return c.answerAck()
}

func modeName(mode uint8) string {
	switch mode {
	case wire.ModeAsync:
		return "dist_async"
	case wire.ModeAnyOrder:
		return "dist_sync with sums in any order"
	}
	return "dist_sync"
}

func (s *Server) setMode(mode uint8, by string) error {
	if s.mode == mode {
		return nil
	}
	if s.mode != 0 {
		return refuse(wire.CodeConflict, "mode: %s says %s, but %s said %s", by, modeName(mode), s.modeBy, modeName(s.mode))
	}
	for _, sh := range s.shards() {
		if err := sh.SetMode(mode); err != nil {
			return err
		}
	}
	s.mode, s.modeBy = mode, by
	return nil
}

// setGuard takes the guard of the first who says the mode; the others say the same.
func (s *Server) setGuard(guard *shard.Guard, first bool, by string) error {
	if first {
		if s.guard = guard; guard != nil {
			shard.SetGuard(s.shards(), *guard)
		}
		return nil
	}
	if (guard == nil) != (s.guard == nil) || guard != nil && *guard != *s.guard {
		return refuse(wire.CodeConflict, "guard: %s says %s, but %s said %s", by, guardText(guard), s.modeBy, guardText(s.guard))
	}
	return nil
}

func guardText(g *shard.Guard) string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *g)
}

// setOptimizer compares all but the learning rates that were set by hand: a worker that names its optimizer again after
// SetRate, or after the load of a state that remembers one, means the same optimizer.
func (s *Server) setOptimizer(cfg optim.Config, by string) error {
	if s.opt != nil {
		have, got := s.base, cfg
		if len(got.Changes) == 0 || len(have.Changes) == 0 {
			have.Changes, got.Changes = nil, nil
		}
		if !have.Equal(got) {
			return refuse(wire.CodeConflict, "set optimizer: %s says %s, but %s said %s", by, encoded(cfg), s.optBy, encoded(s.base))
		}
		if len(cfg.Changes) == 0 || len(s.base.Changes) > 0 || len(s.opt.Config().Changes) > 0 {
			return nil
		}
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return refuse(wire.CodeMalformed, "set optimizer: %v", err)
	}
	if err := shard.SetOptimizer(s.primaries(), opt, shard.NoBound); err != nil { // backups do as their primaries
		return err
	}
	s.base, s.opt, s.optBy = cfg, opt, by
	return nil
}

func encoded(cfg optim.Config) string {
	data, err := cfg.Encode()
	if err != nil {
		return fmt.Sprintf("%q", cfg.Name)
	}
	return string(data)
}

// serveSetRate sets the learning rate from a round on.
func (c *call) serveSetRate() error {
	s, m := c.s, &c.setRate
	if !(m.Rate >= 0) || math.IsInf(m.Rate, 0) {
		return refuse(wire.CodeMalformed, "set rate: got %v, want a finite number, at least 0", m.Rate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.opt == nil && s.view.Load().guarded() {
		return refuse(wire.CodeBusy, "set rate: this server is new and nobody has told it the optimizer yet")
	}
	if s.opt == nil {
		return refuse(wire.CodeConflict, "set rate: there is no optimizer; set one first")
	}
	cfg := s.opt.Config()
	if k := len(cfg.Changes); k > 0 && cfg.Changes[k-1] == (optim.Change{Step: m.Round, LearningRate: m.Rate}) {
		return c.answerAck() // sent again
	}
	shards := s.shards()
	cfg = cfg.WithLearningRate(m.Round, m.Rate)
	cfg.Changes = still(cfg.Changes, shards) // backups may need older ones than their primaries
	opt, err := optim.New(cfg)
	if err != nil {
		return refuse(wire.CodeConflict, "set rate: %v", err)
	}
	if err := shard.SetOptimizer(s.primaries(), opt, m.Round); err != nil {
		return err
	}
	s.opt = opt
	return c.answerAck()
}

// still returns the changes that a round to come may need: a rate for each step would else grow the config without end.
func still(changes []optim.Change, shards []*shard.Shard) []optim.Change {
	open := uint64(math.MaxUint64)
	for _, sh := range shards {
		if sh.Config().Rule == wire.RuleOptimizer { // no rate touches the others, and nobody need ever push to them
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

package shardserver

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// serveSetOptimizer sets mode and optimizer. The first request sets them; the same again is
// acknowledged.
func (c *call) serveSetOptimizer() error {
	s, m := c.s, &c.setOptimizer
	by := s.describe(m.Node)
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
	// A joining worker checks that its optimizer is the others'. It may come before any of them
	// has set one.
	if w := s.membership.Load().workers[m.Node]; w != nil && w.joins && (s.mode == 0 || m.Config != "" && s.opt == nil) {
		return refuse(wire.CodeBusy, "set optimizer: joining %s set it before any member of the job has", by)
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
		return refuse(wire.CodeConflict, "mode: %s set %s, but %s had set %s", by, modeName(mode), s.modeBy, modeName(s.mode))
	}
	for _, sh := range s.shards() {
		if err := sh.SetMode(mode); err != nil {
			return err
		}
	}
	s.mode, s.modeBy = mode, by
	return nil
}

// setGuard sets the guard together with the mode; later requests must have the same.
func (s *Server) setGuard(guard *shard.Guard, first bool, by string) error {
	if first {
		if s.guard = guard; guard != nil {
			shard.SetGuard(s.shards(), *guard)
		}
		return nil
	}
	if (guard == nil) != (s.guard == nil) || guard != nil && *guard != *s.guard {
		return refuse(wire.CodeConflict, "guard: %s set %s, but %s had set %s", by, guardText(guard), s.modeBy, guardText(s.guard))
	}
	return nil
}

func guardText(g *shard.Guard) string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *g)
}

// setOptimizer compares all but the rates of SetRate: a worker that sets its optimizer again after
// SetRate, or after the load of a state with such rates, means the same optimizer.
func (s *Server) setOptimizer(cfg optim.Config, by string) error {
	if s.opt != nil {
		have, got := s.base, cfg
		if len(got.Changes) == 0 || len(have.Changes) == 0 {
			have.Changes, got.Changes = nil, nil
		}
		if !have.Equal(got) {
			return refuse(wire.CodeConflict, "set optimizer: %s set %s, but %s had set %s", by, encoded(cfg), s.optBy, encoded(s.base))
		}
		if len(cfg.Changes) == 0 || len(s.base.Changes) > 0 || len(s.opt.Config().Changes) > 0 {
			return nil
		}
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return refuse(wire.CodeMalformed, "set optimizer: %v", err)
	}
	if err := shard.SetOptimizer(s.primaries(), opt, shard.NoBound); err != nil { // backups follow their primaries
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
	if s.opt == nil && s.membership.Load().hasBackups() {
		return refuse(wire.CodeBusy, "set rate: this server is new and no worker has sent it the optimizer yet")
	}
	if s.opt == nil {
		return refuse(wire.CodeConflict, "set rate: there is no optimizer; set one first")
	}
	cfg := s.opt.Config()
	if k := len(cfg.Changes); k > 0 && cfg.Changes[k-1] == (optim.Change{Step: m.Round, LearningRate: m.Rate}) {
		return c.answerAck() // a repeated request
	}
	shards := s.shards()
	cfg = cfg.WithLearningRate(m.Round, m.Rate)
	cfg.Changes = neededChanges(cfg.Changes, shards) // backups, which lag behind, may need older changes than their primaries
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

// neededChanges drops changes that no future round needs: a program that sets a rate at each step
// would otherwise grow the config without bound.
func neededChanges(changes []optim.Change, shards []*shard.Shard) []optim.Change {
	open := uint64(math.MaxUint64)
	for _, sh := range shards {
		if sh.Config().Rule == wire.RuleOptimizer { // the learning rate does not apply to the others, which may never be pushed to
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

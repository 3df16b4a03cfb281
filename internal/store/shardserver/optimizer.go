package shardserver

import (
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// serveSetOptimizer sets mode and optimizer. The first request sets them; the same again changes
// nothing.
func (s *Server) serveSetOptimizer(m *wire.SetOptimizer) error {
	by := s.membership.Load().describe(m.Node)
	if m.Mode < wire.ModeSync || m.Mode > wire.ModeAnyOrder {
		return refuse(wire.CodeMalformed, "set optimizer: got mode %d, want %d (sync), %d (async) or %d (sync, sums in any order)", m.Mode, wire.ModeSync, wire.ModeAsync, wire.ModeAnyOrder)
	}
	var cfg optim.Config
	if m.Config != "" {
		var err error
		if cfg, err = optim.Decode([]byte(m.Config)); err != nil {
			return refuse(wire.CodeMalformed, "set optimizer: %v", err)
		}
		if cfg.ClipGlobalNorm > 0 && m.Mode == wire.ModeAsync {
			return refuse(wire.CodeUnsupported, "set optimizer: got ClipGlobalNorm %v in async mode, want 0: pushes of different keys belong to no common step there; ClipNorm is the norm of each key", cfg.ClipGlobalNorm)
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
	if w := s.membership.Load().workers[m.Node]; w != nil && w.joins && (s.settings.mode == 0 || m.Config != "" && s.settings.opt == nil) {
		return refuse(wire.CodeBusy, "set optimizer: joining %s set it before any member of the job has", by)
	}
	if err := s.setMode(m.Mode, guard, by); err != nil {
		return err
	}
	if m.Config == "" {
		return nil
	}
	return s.setOptimizer(cfg, by)
}

// setMode sets mode and guard, which come together. The caller holds mu.
func (s *Server) setMode(mode uint8, guard *shard.Guard, by string) error {
	x := &s.settings
	set, err := x.checkMode(mode, by)
	if err != nil {
		return err
	}
	if !set {
		return x.checkGuard(guard, by)
	}
	for _, sh := range s.entries.sorted() {
		if err := sh.SetMode(mode); err != nil {
			return err
		}
	}
	x.mode, x.modeBy = mode, by
	if x.guard = guard; guard != nil {
		shard.SetGuard(s.entries.sorted(), *guard)
	}
	return nil
}

// setOptimizer sets the optimizer of all shards but backups, which follow their primaries. The
// caller holds mu.
func (s *Server) setOptimizer(cfg optim.Config, by string) error {
	x := &s.settings
	opt, err := x.optimizer(cfg, by)
	if err != nil || opt == nil {
		return err
	}
	if err := shard.SetOptimizer(s.entries.primaries(), opt, shard.NoBound); err != nil {
		return err
	}
	x.base, x.opt, x.optBy = cfg, opt, by
	return nil
}

// adoptSettings takes the job's mode and optimizer from an installed shard, on a server that no
// worker has sent them. The caller holds mu.
func (s *Server) adoptSettings(from *incomingShard) {
	const by = "a replicated shard"
	x := &s.settings
	if x.mode == 0 {
		x.mode, x.modeBy, x.guard = from.mode, by, from.guard
	}
	opt, base := x.replicated(from.config, from.base)
	if opt == nil {
		return
	}
	if err := shard.SetOptimizer(s.entries.primaries(), opt, shard.NoBound); err == nil {
		x.base, x.opt, x.optBy = base, opt, by
	}
}

// serveSetRate sets the learning rate from a round on.
func (s *Server) serveSetRate(m *wire.SetRate) error {
	if !(m.Rate >= 0) || math.IsInf(m.Rate, 0) {
		return refuse(wire.CodeMalformed, "set rate: got %v, want a finite number, at least 0", m.Rate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.settings
	switch {
	case s.err != nil:
		return s.err
	case x.opt == nil && s.membership.Load().hasBackups():
		return refuse(wire.CodeBusy, "set rate: this server is new and no worker has sent it the optimizer yet")
	case x.opt == nil:
		return refuse(wire.CodeConflict, "set rate: there is no optimizer; set one first")
	}
	cfg := x.opt.Config()
	if k := len(cfg.Changes); k > 0 && cfg.Changes[k-1] == (optim.Change{Step: m.Round, LearningRate: m.Rate}) {
		// It is a repeated request.
		return nil
	}
	cfg = cfg.WithLearningRate(m.Round, m.Rate)
	// Backups, which lag behind, may need older changes than their primaries.
	cfg.Changes = neededChanges(cfg.Changes, s.entries.sorted())
	opt, err := optim.New(cfg)
	if err != nil {
		return refuse(wire.CodeConflict, "set rate: %v", err)
	}
	if err := shard.SetOptimizer(s.entries.primaries(), opt, m.Round); err != nil {
		return err
	}
	x.opt = opt
	return nil
}

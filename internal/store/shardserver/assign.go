package shardserver

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// assignmentOf returns this server's assignment for a shard. It asks the scheduler if the key is
// new: keys are placed while the job runs, and only their number tells a server that it does not
// know one yet. Requests that need the answer share one question.
func (s *Server) assignmentOf(ctx context.Context, at shardID) (assignment, error) {
	if !s.membership.Load().hasBackups() {
		return assignment{}, nil
	}
	for last := false; ; {
		s.mu.RLock()
		p := s.placement
		var x assignment
		known := false
		if p != nil {
			x, known = p.assignmentOf(at, s.backups.peers.Rank())
			last = last || at.key < p.known()
		}
		s.mu.RUnlock()
		if known {
			return x, nil
		}
		if last {
			return assignment{}, refuse(wire.CodeUnknownKey, "key %d shard %d has no server", at.key, at.index)
		}
		reading, mine := s.backups.newKeys.join()
		if mine {
			ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
			err := s.readNewKeys(ctx)
			cancel()
			s.backups.newKeys.end(reading)
			if err != nil {
				return assignment{}, refuse(err.Code, "key %d shard %d: %s", at.key, at.index, err.Text)
			}
			last = true
			continue
		}
		select {
		// A question that was asked before the key was placed may be answered
		// without it.
		case <-reading:
		case <-ctx.Done():
			return assignment{}, refuse(wire.CodeUnavailable, "key %d shard %d: %v", at.key, at.index, ctx.Err())
		}
	}
}

// readNewKeys asks the scheduler for the places of keys that the placement does not have yet.
func (s *Server) readNewKeys(ctx context.Context) *transport.Refusal {
	s.mu.RLock()
	from := uint64(0)
	if s.placement != nil {
		from = s.placement.known()
	}
	s.mu.RUnlock()
	got, err := s.backups.peers.Places(ctx, from)
	if err != nil {
		return &transport.Refusal{Code: wire.CodeUnavailable, Text: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.placement == nil || s.placement.number != got.Placement || s.placement.known() < from {
		return &transport.Refusal{Code: wire.CodeMoved, Text: "the placement of shards is changing"}
	}
	s.placement.add(&got)
	return nil
}

// setPlacement gives every shard its new assignment. The caller holds mu. It comes before the
// membership of the same change, so that no worker of the new generation finds a shard that has not
// been promoted.
func (s *Server) setPlacement(p *placement) {
	s.placement, s.serves = p, 0
	var over, without int
	for at, e := range s.entries {
		x, ok := p.assignmentOf(at, s.backups.peers.Rank())
		if !ok {
			x = assignment{number: p.number, role: elsewhere, rank: wire.NoServer}
		}
		if x.role == primary {
			s.serves++
		}
		promoted, bare := s.assign(at, e, x)
		if promoted {
			over++
		}
		if bare {
			without++
		}
	}
	if over+without > 0 {
		text := fmt.Sprintf("server: placement %d: promoted to primary of %d shards; %d shards go on without a backup until it is filled", p.number, over, without)
		if over > 0 {
			s.cfg.Logger.Info(text, joblog.ServerPromoted.With("placement", p.number, "promoted", over, "without_backup", without))
		} else {
			s.cfg.Logger.Info(text)
		}
	}
	for at, staged := range s.incoming {
		if x, ok := p.assignmentOf(at, s.backups.peers.Rank()); !ok || x.role != backup || x.other != staged.from {
			s.dropIncoming(at)
		}
	}
	s.backups.replicator.placementChanged()
}

// assign gives a shard a new assignment. promoted: this server was its backup; bare: it has no
// filled backup until another one is. The caller holds mu.
func (s *Server) assign(at shardID, e *entry, x assignment) (promoted, bare bool) {
	st := e.replica
	// A job has backups from its first shard on, or never, so this cannot be.
	if st == nil {
		return false, false
	}
	st.mu.Lock()
	was := st.assignment
	st.assignment = x
	promoted = was.role == backup && x.role == primary
	anew := x.role == primary && (promoted || was.role != primary || was.other != x.other)
	if anew {
		st.backupNumber++
		st.reportedFilled = false
		st.clearSynced()
	}
	st.mu.Unlock()
	switch {
	case x.role == primary && promoted:
		if opt := s.settings.opt; opt != nil && e.cfg.Rule != wire.RuleAverage && !s.settings.isCurrent(e.shard) {
			if err := shard.SetOptimizer([]*shard.Shard{e.shard}, opt, shard.NoBound); err != nil {
				e.shard.Fail(err)
			}
		}
		s.replicate(e)
		s.wakeWaiters(at, e)
	case x.role == primary:
		if anew {
			e.shard.Detach()
		}
	case was.role == primary || x.role == elsewhere:
		// Another server has the shard now.
		s.drop(at, refuse(wire.CodeMoved, "%v is at server %d", e.cfg, s.placement.serverOf(at)))
		return false, false
	}
	if anew {
		if x.other == 0 {
			s.shardSynced(at, e)
		}
		s.backups.replicator.notifyFill(replicated{s, at, e})
	}
	return promoted, anew
}

// replicate makes the shard notify the replicator of closed rounds. The function is called under
// the shard's mutex, so it hands the work to a goroutine and takes no lock of the server.
func (s *Server) replicate(e *entry) {
	e.shard.SetClosed(func() { s.backups.replicator.notify(replicated{s, shardID{e.cfg.Key, e.cfg.Index}, e}) })
}

// shardSynced is setSynced, and wakes those who wait for a new shard. The caller holds mu.
func (s *Server) shardSynced(at shardID, e *entry) {
	if e.setSynced() {
		s.wakeWaiters(at, e)
	}
}

// wakeWaiters makes the shard usable and wakes those who wait for its first value. The caller
// holds mu.
func (s *Server) wakeWaiters(at shardID, e *entry) {
	if st := e.replica; st != nil {
		st.mu.Lock()
		st.usable = true
		st.mu.Unlock()
	}
	s.awaited.wake(at)
}

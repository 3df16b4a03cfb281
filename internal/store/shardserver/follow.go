package shardserver

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// SetPeers gives the server access to the other servers; ctx bounds its requests to them. Without
// it no shard has a backup. It must be called before the first request, and Close after the last.
func (s *Server) SetPeers(ctx context.Context, peers Peers) {
	s.backups = &backups{peers: peers, replicator: newReplicator(ctx)}
}

// Close ends what the server does at the other servers; without peers that is nothing. It returns
// when all of the server's goroutines have ended.
func (s *Server) Close() {
	if s.backups != nil {
		s.backups.replicator.close()
	}
}

// ErrPlacement says that the placement that belongs to a membership could not be read: it has
// changed again, or the scheduler is out of reach.
var ErrPlacement = errors.New("server: the placement of shards is not known")

// Follow is SetMembership in a job that may have backups: it first reads the placement that belongs
// to the membership. If that fails nothing has changed, and ErrPlacement is in the error's chain.
func (s *Server) Follow(ctx context.Context, m wire.Membership) error {
	if m.Placement == 0 || s.backups == nil {
		return s.SetMembership(m)
	}
	s.mu.RLock()
	have := s.placement
	s.mu.RUnlock()
	if have != nil && have.number == m.Placement {
		return s.SetMembership(m)
	}
	p, err := s.backups.readPlacement(ctx, &m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlacement, err)
	}
	return s.setMembership(m, p)
}

// SetMembership sets the job's members. Open rounds no longer wait for workers that are not among
// them. A loss comes in the middle of a round: the contributions of a lost worker that a shard has
// accepted stay in it. Workers join when no round is under way, because all others have arrived at
// the change then; so a new worker is needed in the open rounds from their start.
func (s *Server) SetMembership(m wire.Membership) error { return s.setMembership(m, nil) }

// setMembership is SetMembership, and sets the placement, if it is not nil.
func (s *Server) setMembership(m wire.Membership, p *placement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil {
		s.setPlacement(p)
	}
	old := s.membership.Load()
	v := newMembership(&m, old, s.blames())
	s.membership.Store(v)
	s.profiles.keepOf(v)
	s.blames().leave(func(node uint64) bool { return v.workers[node] != nil }, s.clock.now())
	defer close(old.replaced)
	for _, sh := range s.entries.sorted() {
		if err := sh.SetMembers(v.generation, v.members); err != nil {
			return fmt.Errorf("server: membership of generation %d: %w", v.generation, err)
		}
		if v.lossesCounted {
			sh.ForgetLeft()
		}
	}
	return nil
}

// ExamplesOf returns how many examples of a worker all shards of this server have: the least count of
// any shard whose contributions count examples; MaxUint64 if there is none (see wire.LostExamples). The
// number is final once the worker is no longer a member.
func (s *Server) ExamplesOf(node uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	least := uint64(math.MaxUint64)
	for _, e := range s.entries {
		if e.assignment().role == backup {
			continue
		}
		if n, ok := e.shard.ExamplesOf(node); ok {
			least = min(least, n)
		}
	}
	return least
}

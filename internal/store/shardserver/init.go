package shardserver

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// serveInit creates a shard; one that exists keeps its value.
func (c *call) serveInit(ctx context.Context) error {
	m := &c.init
	if !c.s.membership.Load().isLeader(m.Node) {
		return refuse(wire.CodeBusy, "init of key %s shard %d: got it from rank %d, want the lowest of the workers that count", wire.Shown(m.Name), m.Shard, m.Rank)
	}
	var value []float32
	if c.data != nil {
		value = c.data.Float32s(int(m.Length))
	}
	e, _, err := c.s.create(ctx, m, value)
	if err == nil {
		err = c.awaitSynced(ctx, e)
	}
	if err != nil {
		return err
	}
	return c.answerRounds(e)
}

// create returns the shard that m describes, and whether it is new.
func (s *Server) create(ctx context.Context, m *wire.InitShard, value []float32) (*entry, bool, error) {
	cfg, err := shard.ConfigOf(m, &s.host)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, false, err
	}
	at := shardID{m.Key, m.Shard}
	var x assignment
	if s.peers != nil {
		if x, err = s.assignmentOf(ctx, at); err != nil {
			return nil, false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, false, s.err
	}
	if x.role == backup || x.role == elsewhere || x.role != unreplicated && x.number != s.placement.number {
		return nil, false, refuse(wire.CodeMoved, "init of %v: another server has this shard", cfg)
	}
	if e := s.entries[at]; e != nil {
		return e, false, sameShard(e.cfg, &cfg)
	}
	if len(s.entries) >= s.cfg.MaxShards {
		return nil, false, refuse(wire.CodeFull, "init of %v: this server has %d shards, want at most %d", cfg, len(s.entries), s.cfg.MaxShards)
	}
	if err := s.reserve(int64(4 * cfg.Length)); err != nil {
		return nil, false, refuse(wire.CodeFull, "init of %v: %v", cfg, err)
	}
	created := false
	defer func() {
		if !created {
			s.bytes.Add(-int64(4 * cfg.Length))
		}
	}()
	sh, err := shard.New(cfg, value)
	if err != nil {
		return nil, false, err
	}
	v := s.membership.Load()
	if err := sh.SetMembers(v.generation, v.members); err != nil {
		return nil, false, err
	}
	if s.mode != 0 {
		if err := sh.SetMode(s.mode); err != nil {
			return nil, false, err
		}
	}
	if s.opt != nil {
		if err := shard.SetOptimizer([]*shard.Shard{sh}, s.opt, shard.NoBound); err != nil {
			return nil, false, err
		}
	}
	if s.guard != nil {
		shard.SetGuard([]*shard.Shard{sh}, *s.guard)
	}
	var e *entry
	if x.role == unreplicated {
		e = &entry{shard: sh, cfg: sh.Config()}
	} else {
		e = newReplicated(sh)
	}
	s.entries[at] = e
	s.serves++
	created = true
	if x.role != unreplicated {
		e.replica.assignment = x
		if x.other == 0 {
			e.replica.synced = alwaysSynced
		}
		s.replicate(e)
	}
	if x.other == 0 {
		s.shardSynced(at, e)
	} else {
		s.replicator.notifyFill(replicated{s, at, e})
	}
	return e, true, nil
}

// reserve counts bytes of values and indices that a shard is about to allocate, or (negative) has
// freed. It takes no lock.
func (s *Server) reserve(bytes int64) error {
	if have := s.bytes.Add(bytes); bytes > 0 && have > s.cfg.MaxBytes {
		s.bytes.Add(-bytes)
		return fmt.Errorf("got %d bytes beside %d in use, want at most %d on this server", bytes, have-bytes, s.cfg.MaxBytes)
	}
	return nil
}

// sameShard returns an error unless two descriptions of one shard agree.
func sameShard(have, got *shard.Config) error {
	switch {
	case have.Length != got.Length || have.Size != got.Size || have.RowLen != got.RowLen || have.Offset != got.Offset:
		return refuse(wire.CodeSize, "init of %v: got %d values from %d on of %d in rows of %d, want %d from %d on of %d in rows of %d",
			have, got.Length, got.Offset, got.Size, got.RowLen, have.Length, have.Offset, have.Size, have.RowLen)
	case have.TableOf() != got.TableOf():
		return refuse(wire.CodeDuplicateInit, "init of %v: got the table %+v, want %+v", have, got.TableOf(), have.TableOf())
	case have.Form != got.Form || have.Rule != got.Rule || have.Name != got.Name || have.Shards != got.Shards:
		return refuse(wire.CodeDuplicateInit, "init of %v: got key %s, form %d, rule %d, %d shards; want key %s, form %d, rule %d, %d shards",
			have, wire.Shown(got.Name), got.Form, got.Rule, got.Shards, wire.Shown(have.Name), have.Form, have.Rule, have.Shards)
	}
	return nil
}

// serveAwaitShard answers when the shard exists.
func (c *call) serveAwaitShard(ctx context.Context) error {
	s, m := c.s, &c.awaitShard
	at := shardID{m.Key, m.Shard}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return s.ended()
	}
	if e := s.entries[at]; e != nil {
		if err := e.checkUsable(); err == nil || e.assignment().role != primary {
			s.mu.Unlock()
			if err != nil {
				return err
			}
			return c.answerRounds(e)
		}
	} else if s.placement != nil {
		if x, ok := s.placement.assignmentOf(at, uint32(s.peers.Rank())); ok && x.role != primary {
			s.mu.Unlock()
			return refuse(wire.CodeMoved, "await of key %d shard %d: another server has this shard", m.Key, m.Shard)
		}
	}
	a := s.awaited[at]
	if a == nil {
		a = &awaited{created: make(chan struct{})}
		s.awaited[at] = a
	}
	a.waiters++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.waiters--; a.waiters == 0 && s.awaited[at] == a {
			delete(s.awaited, at)
		}
	}()
	wait := s.wait(m.WaitMillis)
	c.setTimer(wait)
	defer c.timer.Stop()
	select {
	case <-a.created:
		s.mu.RLock()
		e := s.entries[at]
		s.mu.RUnlock()
		if e == nil {
			return refuse(wire.CodeMoved, "await of key %d shard %d: another server has this shard", m.Key, m.Shard)
		}
		return c.answerRounds(e)
	case <-s.done:
		return s.ended()
	case <-ctx.Done():
		return refuse(wire.CodeUnavailable, "await of key %d shard %d: the connection ended while it waited", m.Key, m.Shard)
	case <-c.timer.C:
		return refuse(wire.CodeTimeout, "await of key %d shard %d: rank 0 has not initialised it for %v", m.Key, m.Shard, wait)
	}
}

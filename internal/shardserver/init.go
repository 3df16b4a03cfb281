package shardserver

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// serveInit creates a shard; one that exists keeps its value.
func (c *call) serveInit(ctx context.Context) error {
	m := &c.init
	if !c.s.view.Load().leads(m.Node) {
		return refuse(wire.CodeBusy, "init of key %q shard %d: got it from rank %d, want the lowest of the workers that count", m.Name, m.Shard, m.Rank)
	}
	var value []float32
	if c.data != nil {
		value = c.data.Float32s(int(m.Length))
	}
	e, _, err := c.s.create(ctx, m, value)
	if err == nil {
		err = c.awaitSettled(ctx, e)
	}
	if err != nil {
		return err
	}
	return c.answerAck()
}

// create returns the shard that m describes, which it makes if need be, and whether it did.
func (s *Server) create(ctx context.Context, m *wire.InitShard, value []float32) (*entry, bool, error) {
	cfg, err := shard.ConfigOf(m, s.pool)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, false, err
	}
	cfg.Grow = s.grow
	at := place{m.Key, m.Shard}
	var x post
	if s.peers != nil {
		if x, err = s.whereabouts(ctx, at); err != nil {
			return nil, false, err
		}
	}
	cfg.Caught = func(x shard.Caught) { s.caught.take(&cfg, s.view.Load(), x) }
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, false, s.err
	}
	if x.role == follower || x.role == stranger || x.role != alone && x.placement != s.places.placement {
		return nil, false, refuse(wire.CodeMoved, "init of %v: it belongs to another server", cfg)
	}
	if e := s.entries[at]; e != nil {
		return e, false, same(&e.cfg, &cfg)
	}
	if len(s.entries) >= s.cfg.MaxShards {
		return nil, false, refuse(wire.CodeBusy, "init of %v: %d shards are here, want at most %d", cfg, len(s.entries), s.cfg.MaxShards)
	}
	if err := s.grow(int64(4 * cfg.Length)); err != nil {
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
	v := s.view.Load()
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
	e := &entry{shard: sh, cfg: cfg}
	s.entries[at] = e
	created = true
	e.standing = standing{post: x, settled: make(chan struct{})}
	if s.peers != nil {
		s.serveShard(e)
	}
	if x.other == 0 {
		s.settled(at, e)
	} else {
		s.copiers.notify(s, at, e)
	}
	return e, true, nil
}

// grow accounts for bytes of values and indices that a shard is about to take, or has given back. It takes no lock.
func (s *Server) grow(bytes int64) error {
	if have := s.bytes.Add(bytes); bytes > 0 && have > s.cfg.MaxBytes {
		s.bytes.Add(-bytes)
		return fmt.Errorf("got %d bytes more, %d are here, want at most %d together on this server", bytes, have-bytes, s.cfg.MaxBytes)
	}
	return nil
}

// same returns an error unless two descriptions of one shard agree.
func same(have, got *shard.Config) error {
	switch {
	case have.Length != got.Length || have.Size != got.Size || have.RowLen != got.RowLen || have.Offset != got.Offset:
		return refuse(wire.CodeSize, "init of %v: got %d values from %d on of %d in rows of %d, want %d from %d on of %d in rows of %d",
			have, got.Length, got.Offset, got.Size, got.RowLen, have.Length, have.Offset, have.Size, have.RowLen)
	case have.Table != got.Table:
		return refuse(wire.CodeDuplicateInit, "init of %v: got the table %+v, want %+v", have, got.Table, have.Table)
	case have.Form != got.Form || have.Rule != got.Rule || have.Name != got.Name || have.Shards != got.Shards:
		return refuse(wire.CodeDuplicateInit, "init of %v: got key %q, form %d, rule %d, %d shards; want key %q, form %d, rule %d, %d shards",
			have, got.Name, got.Form, got.Rule, got.Shards, have.Name, have.Form, have.Rule, have.Shards)
	}
	return nil
}

// serveAwaitShard answers once the shard exists.
func (c *call) serveAwaitShard(ctx context.Context) error {
	s, m := c.s, &c.awaitShard
	at := place{m.Key, m.Shard}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return s.ended()
	}
	if e := s.entries[at]; e != nil {
		if err := e.ours(); err == nil || e.at().role != primary {
			s.mu.Unlock()
			if err != nil {
				return err
			}
			return c.answerAck()
		}
	} else if s.places != nil {
		if x, ok := s.places.post(at, uint32(s.peers.Rank())); ok && x.role != primary {
			s.mu.Unlock()
			return refuse(wire.CodeMoved, "await of key %d shard %d: it is at another server", m.Key, m.Shard)
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
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-a.created:
		return c.answerAck()
	case <-s.done:
		return s.ended()
	case <-ctx.Done():
		return refuse(wire.CodeUnavailable, "await of key %d shard %d: the connection ended while it waited", m.Key, m.Shard)
	case <-timer.C:
		return refuse(wire.CodeTimeout, "await of key %d shard %d: rank 0 has not given it a value for %v", m.Key, m.Shard, wait)
	}
}

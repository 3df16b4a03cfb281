package shardserver

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// serveInit creates a shard; one that exists keeps its value, and is an error if it is of another
// kind. So a leader that has restarted, or another that has become one, may send it again.
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

// create returns the shard that m describes, and whether it is new. A shard that exists keeps
// its value: after a lost answer the same request comes again, and rounds may have closed since.
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
	if s.backups != nil {
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
	sh, err := s.makeShard(cfg, value)
	if err != nil {
		return nil, false, err
	}
	return s.enter(at, sh, x), true, nil
}

// makeShard makes a shard with the job's members and settings, in memory that is counted. The
// caller holds mu.
func (s *Server) makeShard(cfg shard.Config, value []float32) (*shard.Shard, error) {
	bytes := int64(4 * cfg.Length)
	if err := s.budget.reserve(bytes, s.cfg.MaxBytes); err != nil {
		return nil, refuse(wire.CodeFull, "init of %v: %v", cfg, err)
	}
	sh, err := shard.New(cfg, value)
	if err == nil {
		v := s.membership.Load()
		err = sh.SetMembers(v.generation, v.members)
	}
	if err == nil {
		err = s.settings.applyTo(sh)
	}
	if err != nil {
		s.budget.bytes.Add(-bytes)
		return nil, err
	}
	return sh, nil
}

// enter makes a new shard one that workers use, as soon as its backup, if it is to have one, has
// its state. The caller holds mu.
func (s *Server) enter(at shardID, sh *shard.Shard, x assignment) *entry {
	e := &entry{shard: sh, cfg: sh.Config()}
	if x.role != unreplicated {
		e = newReplicated(sh)
		e.replica.assignment = x
		if x.other == 0 {
			e.replica.synced = alwaysSynced
		}
		s.replicate(e)
	}
	s.entries[at] = e
	s.serves++
	if x.other == 0 {
		s.shardSynced(at, e)
	} else {
		s.backups.replicator.notifyFill(replicated{s, at, e})
	}
	return e
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

// serveAwaitShard answers when the shard exists. Workers that do not initialise wait here, and not
// by asking again and again.
func (c *call) serveAwaitShard(ctx context.Context) error {
	s, m := c.s, &c.awaitShard
	at := shardID{m.Key, m.Shard}
	e, a, err := s.awaitEntry(at)
	switch {
	case err != nil:
		return err
	case e != nil:
		return c.answerRounds(e)
	}
	defer s.endAwait(at, a)
	wait := s.cfg.wait(m.WaitMillis)
	c.patience.set(wait)
	defer c.patience.stop()
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
	case <-c.patience.timer.C:
		return refuse(wire.CodeTimeout, "await of key %d shard %d: rank 0 has not initialised it for %v", m.Key, m.Shard, wait)
	}
}

package shardserver

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// backupLacks reports whether the backup lacks an asynchronous contribution, whose worker drops
// its copy once it is acknowledged. In sync mode workers keep their copies until the round has
// closed, and push them again to a backup that was promoted.
func (c *call) backupLacks() bool {
	if c.s.backups == nil || !c.entry.shard.Async() {
		return false
	}
	_, pending := c.entry.shard.BackupStatus()
	return pending
}

// awaitBackup waits until the backup has an asynchronous contribution.
func (c *call) awaitBackup(ctx context.Context, node, seq uint64, millis uint32) error {
	if !c.backupLacks() {
		return nil
	}
	v, err := c.await(ctx, shard.Want{Node: node, Seq: seq, Staleness: shard.NoBound}, millis)
	if v != nil {
		v.Release()
	}
	return err
}

// awaitStateCopied waits until the backup has a newly written state. Without that a Load that was
// answered could be undone by the loss of one server.
func (c *call) awaitStateCopied(ctx context.Context, e *entry) error {
	if c.s.backups == nil || e.assignment().other == 0 {
		return nil
	}
	c.s.backups.replicator.notifyFill(replicated{c.s, shardID{e.cfg.Key, e.cfg.Index}, e})
	for {
		if err := c.awaitSynced(ctx, e); err != nil {
			return err
		}
		st := e.replica
		st.mu.Lock()
		without := st.refused || st.assignment.other == 0
		st.mu.Unlock()
		if on, _ := e.shard.BackupStatus(); on || without {
			return nil
		}
		select {
		// The backup was synced with the state before.
		case <-time.After(firstPause):
		case <-ctx.Done():
		}
	}
}

// awaitSynced waits until the shard's backup, if there is one, has the shard's state.
func (c *call) awaitSynced(ctx context.Context, e *entry) error {
	if c.s.backups == nil {
		return nil
	}
	st := e.replica
	if st == nil {
		return nil
	}
	synced, now := st.awaitSynced()
	if now {
		return e.checkUsable()
	}
	c.patience.set(min(syncWait, c.s.cfg.MaxWait))
	defer c.patience.stop()
	select {
	case <-synced:
		return e.checkUsable()
	case <-ctx.Done():
		return refuse(wire.CodeUnavailable, "%v: %v: the connection ended while it waited for the backup", c.kind, e.cfg)
	case <-c.s.done:
		return c.s.ended()
	case <-c.patience.timer.C:
		return refuse(wire.CodeTimeout, "%v: %v: its backup, server %d, has not acknowledged it for %v", c.kind, e.cfg, e.assignment().rank, syncWait)
	}
}

// syncWait is how long a request waits for a backup before the answer is a timeout, after which the
// worker repeats it. Most fills are shorter; the repeats wait for a longer one.
const syncWait = 20 * time.Second

package shardserver

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A replicated is a shard of which a server is the primary.
type replicated struct {
	s  *Server
	at shardID
	e  *entry
}

// synced ends the waits for the backup with this number, if it is still the shard's.
func (r *replicated) synced(backupNumber uint64) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.syncedLocked(backupNumber)
}

// syncedLocked is synced for a caller that holds the server's mu.
func (r *replicated) syncedLocked(backupNumber uint64) {
	st := r.e.replica
	st.mu.Lock()
	same := st.assignment.role == primary && st.backupNumber == backupNumber
	st.mu.Unlock()
	if same {
		r.s.shardSynced(r.at, r.e)
	}
}

// syncedAlone ends the waits for a backup that the shard is not to have.
func (r *replicated) syncedAlone() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.shardSynced(r.at, r.e)
}

// reportFilled tells the scheduler whether the backup has the whole state.
func (r *replicated) reportFilled(ctx context.Context, x assignment, ok bool) error {
	return r.s.backups.peers.Filled(ctx, wire.Filled{Placement: x.number, OK: ok,
		Shards: []wire.FilledShard{{Key: r.at.key, Shard: r.at.index, Backup: x.other}}})
}

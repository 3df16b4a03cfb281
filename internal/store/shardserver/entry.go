package shardserver

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A shardID names a shard.
type shardID struct {
	key   uint64
	index uint32
}

// An entry is one shard, with its replication and the quotas of the workers that use it.
//
// An entry stays the same as long as the server has the shard. A shard that is filled again is
// another entry, so that a request that holds the old one cannot write to the new one.
type entry struct {
	shard *shard.Shard
	// cfg is the shard's.
	cfg *shard.Config
	quota
	// replica is nil if the job has no backups.
	replica *replicaState
}

// entries are a server's shards. Server.mu guards them.
type entries map[shardID]*entry

// sorted returns all shards, sorted by shardID: SetOptimizer locks them in this order.
func (x entries) sorted() []*shard.Shard {
	places := make([]shardID, 0, len(x))
	for p := range x {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b shardID) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.index, b.index)) })
	list := make([]*shard.Shard, len(places))
	for i, p := range places {
		list[i] = x[p].shard
	}
	return list
}

// primaries returns all shards but those of which this server is a backup, sorted.
func (x entries) primaries() []*shard.Shard {
	backups := map[*shard.Shard]bool{}
	for _, e := range x {
		if e.assignment().role == backup {
			backups[e.shard] = true
		}
	}
	return slices.DeleteFunc(x.sorted(), func(s *shard.Shard) bool { return backups[s] })
}

// newReplicated returns an entry of a shard with a replicaState, in one block of memory.
func newReplicated(sh *shard.Shard) *entry {
	x := &struct {
		entry
		state replicaState
	}{}
	x.shard, x.cfg, x.replica = sh, sh.Config(), &x.state
	return &x.entry
}

// assignment is the newest one, which may change as soon as it is returned; what depends on it
// holds the replicaState's mutex.
func (e *entry) assignment() assignment {
	if e.replica == nil {
		return assignment{}
	}
	e.replica.mu.Lock()
	defer e.replica.mu.Unlock()
	return e.replica.assignment
}

// setSynced records that the backup has the state, and reports whether that made the shard usable;
// clearSynced records that it lacks some of it.
func (e *entry) setSynced() (opened bool) {
	st := e.replica
	if st == nil {
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	opened = !st.usable
	st.usable = true
	if st.synced != nil && st.synced != alwaysSynced {
		close(st.synced)
	}
	st.synced = alwaysSynced
	return opened
}

// checkUsable returns an error unless workers may use the shard on this server. A shard that has
// never been synced has a value that only this server has, so that no worker may have seen it yet:
// after a loss it is made anew, and may be another.
func (e *entry) checkUsable() error {
	st := e.replica
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	switch st.assignment.role {
	case unreplicated:
		return nil
	case primary:
		if !st.usable {
			return refuse(wire.CodeUnknownKey, "%v has no value here yet", e.cfg)
		}
		return nil
	}
	return refuse(wire.CodeMoved, "%v is at server %d", e.cfg, st.assignment.rank)
}

// filledBy reports whether a fill of a primary has made this shard.
func (e *entry) filledBy(node, number uint64) bool {
	if e.replica == nil {
		return false
	}
	e.replica.mu.Lock()
	defer e.replica.mu.Unlock()
	return e.replica.from == node && e.replica.filled == number
}

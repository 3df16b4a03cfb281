package shardserver

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/shard"
)

// A shardID names a shard.
type shardID struct {
	key   uint64
	index uint32
}

// An entry is one shard, with its replication and the quotas of the workers that use it.
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

package shardserver

// An assignment is this server's role for one shard under one placement.
//
// Two of them are compared as a whole: if anything differs, work that was begun under the one is
// not finished under the other.
type assignment struct {
	number uint64
	role   role
	// other is the node of the other server of the shard, the backup or the primary; 0: there
	// is none.
	other uint64
	// rank is the other server's rank.
	rank uint32
}

// A role is a server's role for one shard.
type role uint8

const (
	// unreplicated: the job has no backups, and shards never move.
	unreplicated role = iota
	primary
	backup
	// elsewhere: the shard belongs to other servers.
	elsewhere
)

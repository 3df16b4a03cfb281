package shardserver

import "github.com/paragon-train/paragon/internal/store/wire"

// A job with backups moves shards between servers: after the loss of a server its shards' backups
// are promoted, and with other servers in the membership shards are copied to them. The scheduler
// decides that alone and numbers its decisions. A server acts by the newest placement it has; what
// one that knows a newer or older one asks of it waits or is refused by name, and is asked again.

// A placement says where shards are. It is immutable, but keys are added. It has all keys of the
// job, so it takes few bytes for each.
type placement struct {
	number uint64
	// nodes are the nodes of servers, by rank.
	nodes map[uint32]uint64
	// first has, by key, the index in places of its first shard.
	first []uint32
	// places are those of the shards of one key after the other.
	places []place
}

// A place is where a shard is.
type place struct {
	// server and backup are ranks; wire.NoServer: there is none.
	server, backup uint32
}

// known is the number of keys that the placement has: those below it.
func (p *placement) known() uint64 { return uint64(len(p.first)) }

// add adds the places of keys from known on, in order. Those of other keys are left out.
func (p *placement) add(got *wire.Places) {
	from := p.known()
	for _, x := range got.Places {
		if x.Key < from {
			continue
		}
		for p.known() <= x.Key {
			p.first = append(p.first, uint32(len(p.places)))
		}
		p.places = append(p.places, place{x.Server, x.Backup})
	}
	for p.known() < got.Next {
		p.first = append(p.first, uint32(len(p.places)))
	}
}

// placeOf returns the place of a shard, or false if the key is not known yet or has no such
// shard. The shards of a key lie one after the other, so that a key of one shard takes 12 bytes
// and no map.
func (p *placement) placeOf(at shardID) (place, bool) {
	if at.key >= p.known() {
		return place{}, false
	}
	from, to := uint64(p.first[at.key]), uint64(len(p.places))
	if at.key+1 < p.known() {
		to = uint64(p.first[at.key+1])
	}
	if uint64(at.index) >= to-from {
		return place{}, false
	}
	return p.places[from+uint64(at.index)], true
}

// assignmentOf returns the assignment of the server of rank me for a shard, or false if the key is
// not known yet.
func (p *placement) assignmentOf(at shardID, me uint32) (assignment, bool) {
	where, ok := p.placeOf(at)
	if !ok {
		return assignment{}, false
	}
	x := assignment{number: p.number, role: elsewhere, rank: wire.NoServer}
	switch me {
	case where.server:
		x.role = primary
		if where.backup != wire.NoServer {
			x.rank, x.other = where.backup, p.nodes[where.backup]
		}
	case where.backup:
		x.role, x.rank, x.other = backup, where.server, p.nodes[where.server]
	}
	return x, true
}

// serverOf is the rank of the server of a shard, for messages.
func (p *placement) serverOf(at shardID) uint32 {
	where, _ := p.placeOf(at)
	return where.server
}

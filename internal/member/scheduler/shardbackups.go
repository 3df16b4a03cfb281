package scheduler

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A backupState is what the planner knows of a shard's backup. It is recorded as it is.
type backupState struct {
	// Backup is the rank of its server; wire.NoServer: there is none.
	Backup uint32
	// Ready says that it has the whole state.
	Ready bool
	// Used says that it, or one before it, had: the shard has a value.
	Used bool
}

// noBackup is the state of a shard without one.
var noBackup = backupState{Backup: wire.NoServer}

// byKey lists the placed keys by ID. The list is the planner's own.
func (p *planner) byKey() []*placed { return p.list }

// weight is the load of a shard when backups are assigned: a shard of an open vocabulary has no
// values yet.
func weight(s *wire.ShardPlace) uint64 { return s.Length + 1024 }

// filling reports whether the backup is being filled with a shard that has a value.
func (x *backupState) filling() bool { return x.Backup != wire.NoServer && x.Used && !x.Ready }

// loads counts the values that servers hold for primaries and for backups, and those of each
// server's primaries that each other one backs; and the backups that are being filled.
func (p *planner) loads() (primary, backup []uint64, pairs [][]uint64, filling int) {
	n := len(p.load)
	primary, backup, pairs = make([]uint64, n), make([]uint64, n), make([][]uint64, n)
	for i := range pairs {
		pairs[i] = make([]uint64, n)
	}
	for _, k := range p.list {
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			primary[s.Server] += s.Length
			if b := x.Backup; b != wire.NoServer {
				backup[b] += weight(s)
				pairs[s.Server][b] += weight(s)
			}
			if x.filling() {
				filling++
			}
		}
	}
	return primary, backup, pairs, filling
}

// backupState is the state of the ith shard's backup.
func (k *placed) backupState(i int) backupState {
	if k.spots == nil {
		return noBackup
	}
	return k.spots[i]
}

// back gives the shards of some keys backups that have none. used says that the shards may have
// values. It returns the keys that it changed.
func (p *planner) back(used bool, keys ...*placed) (changed []*placed) {
	if !p.backups {
		return nil
	}
	for _, k := range keys {
		if k.spots == nil {
			k.spots = slices.Repeat([]backupState{noBackup}, len(k.plan.Shards))
		}
		did := false
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], &k.spots[i]
			if x.Backup != wire.NoServer {
				continue
			}
			best := p.bestBackup(s.Server)
			// A shard without a backup takes values at once.
			x.Used = x.Used || used || best == wire.NoServer
			if best == wire.NoServer {
				continue
			}
			x.Backup, x.Ready = best, false
			if x.filling() {
				p.filling++
			}
			p.backed[best] += weight(s)
			p.pairs[s.Server][best] += weight(s)
			did = true
		}
		if did {
			changed = append(changed, k)
		}
	}
	return changed
}

// bestBackup is the server that backs a shard of a server: another one, so that all have as much of
// backups and each backs as much of every other one. Then the load of a lost server is spread over
// all others. Where all are alike, those after the primary come first. wire.NoServer: there is
// none.
func (p *planner) bestBackup(server uint32) uint32 {
	best := uint32(wire.NoServer)
	score := func(b uint32) uint64 { return p.backed[b] + p.pairs[server][b]*uint64(len(p.load)-1) }
	for j := range p.load {
		b := (server + 1 + uint32(j)) % uint32(len(p.load))
		if b != server && !p.gone[b] && (best == wire.NoServer || score(b) < score(best)) {
			best = b
		}
	}
	return best
}

// living is the number of living servers.
func (p *planner) living() (n int) {
	for _, gone := range p.gone {
		if !gone {
			n++
		}
	}
	return n
}

// lose removes a server: the backups of its shards become primaries, and new backups are chosen. It
// returns the keys that it changed, or an error that names a shard of which no copy is left.
func (p *planner) lose(rank uint32) (changed []*placed, err error) {
	p.gone[rank] = true
	if p.living() == 0 {
		return nil, fmt.Errorf("no server is left")
	}
	// moved says, by key, that it is in changed.
	moved := make([]bool, len(p.list))
	for _, k := range p.list {
		for i := range k.plan.Shards {
			server, x := k.plan.Shards[i].Server, k.backupState(i)
			switch {
			case server == rank && (x.Backup == wire.NoServer || x.Used && !x.Ready):
				return nil, fmt.Errorf("key %s shard %d of %d has no complete copy left: %s", wire.Shown(k.plan.Name), i, len(k.plan.Shards), lacks(x))
			case server != rank && x.Backup != rank:
				continue
			}
			if !moved[k.plan.Key] {
				moved[k.plan.Key] = true
				changed = append(changed, k)
				k.renew()
			}
			if server == rank {
				k.plan.Shards[i].Server = x.Backup
			}
			k.spots[i].Backup, k.spots[i].Ready = wire.NoServer, false
		}
	}
	p.recount()
	for _, k := range p.back(true, p.list...) {
		if !moved[k.plan.Key] {
			changed = append(changed, k)
		}
	}
	return changed, nil
}

// lacks says why a shard has no complete copy.
func lacks(x backupState) string {
	if x.Backup == wire.NoServer {
		return "there was no backup"
	}
	return fmt.Sprintf("its backup on server %d was still being filled", x.Backup)
}

// enter adds a server at a vacant rank. Shards without a backup get one.
func (p *planner) enter(rank uint32) (changed []*placed) {
	p.gone[rank] = false
	p.recount()
	return p.back(true, p.byKey()...)
}

// recount counts anew what the servers hold, when shards have moved.
func (p *planner) recount() { p.load, p.backed, p.pairs, p.filling = p.loads() }

// even moves shards to servers that have less than others, one step: a shard goes to a server by
// being backed there first and then by a change of roles. It returns the keys that it changed;
// none: there is nothing to do, or it waits for backups. One step waits for the other: a shard may
// only change places with a backup that is full.
func (p *planner) even() (changed []*placed) {
	n := uint64(p.living())
	if !p.backups || n < 2 || p.filling > 0 {
		return nil
	}
	var total uint64
	for _, l := range p.load {
		total += l
	}
	mean := total / n
	if changed = p.swapRoles(mean); len(changed) == 0 {
		changed = p.moveBackups(mean)
	}
	if len(changed) > 0 {
		p.recount()
	}
	return changed
}

// swapRoles lets shards change places with their backups where these have room.
func (p *planner) swapRoles(mean uint64) (changed []*placed) {
	for _, k := range p.byKey() {
		moved := false
		for i := range k.plan.Shards {
			s, x := k.plan.Shards[i], k.backupState(i)
			if x.Backup == wire.NoServer || !x.Ready || !helps(p.load[s.Server], p.load[x.Backup], s.Length, mean) {
				continue
			}
			p.load[s.Server] -= s.Length
			p.load[x.Backup] += s.Length
			if !moved {
				moved = true
				changed = append(changed, k)
				k.renew()
			}
			k.spots[i].Backup, k.spots[i].Ready = s.Server, false
			k.plan.Shards[i].Server = x.Backup
		}
	}
	return changed
}

// moveBackups moves the backups of shards on servers that have too much to those that have too
// little of both, so that they can change places afterwards.
func (p *planner) moveBackups(mean uint64) (changed []*placed) {
	load := slices.Clone(p.load)
	for _, k := range p.byKey() {
		moved := false
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			least := p.least(load, s.Server)
			if least == wire.NoServer || x.Backup == least || !helps(load[s.Server], load[least], s.Length, mean) {
				continue
			}
			load[s.Server] -= s.Length
			load[least] += s.Length
			k.spots[i].Backup, k.spots[i].Ready = least, false
			if !moved {
				moved = true
				changed = append(changed, k)
			}
		}
	}
	return changed
}

// helps reports whether n values from one server to another make loads more even, by enough to move
// them.
func helps(from, to, n, mean uint64) bool {
	return n > 0 && from > mean+mean/50 && to+n <= max(mean+mean/50, from-n) && from-n > to
}

// least is the server with the least load, except not; of several the one of the lowest rank.
func (p *planner) least(load []uint64, not uint32) uint32 {
	best := uint32(wire.NoServer)
	for r := range load {
		if !p.gone[r] && uint32(r) != not && (best == wire.NoServer || load[r] < load[best]) {
			best = uint32(r)
		}
	}
	return best
}

// renew copies the plan, so that a plan that was sent does not change.
func (k *placed) renew() {
	plan := *k.plan
	plan.Shards = slices.Clone(plan.Shards)
	k.plan = &plan
}

// filled records that a backup is complete, as its primary reports.
func (p *planner) filled(k *placed, shard uint32, ok bool) {
	x := &k.spots[shard]
	if x.filling() {
		p.filling--
	}
	x.Ready = ok
	x.Used = x.Used || ok
	if x.filling() {
		p.filling++
	}
}

// kept is the record of the key's places.
func (k *placed) kept() keptPlaces {
	var x keptPlaces
	for i := range k.plan.Shards {
		x.Servers = append(x.Servers, k.plan.Shards[i].Server)
	}
	x.Spots = k.spots
	return x
}

// restore sets where a key's shards are, from the journal. The loads are not brought up: recount
// does that once, after all keys.
func (p *planner) restore(k *placed, x keptPlaces) error {
	if len(x.Servers) != len(k.plan.Shards) || x.Spots != nil && len(x.Spots) != len(x.Servers) {
		return fmt.Errorf("got places of %d shards, want %d", len(x.Servers), len(k.plan.Shards))
	}
	for i, s := range x.Servers {
		if int(s) >= len(p.load) || x.Spots != nil && x.Spots[i].Backup != wire.NoServer && int(x.Spots[i].Backup) >= len(p.load) {
			return fmt.Errorf("shard %d is at server %d of %d", i, s, len(p.load))
		}
		k.plan.Shards[i].Server = s
	}
	k.spots = x.Spots
	return nil
}

// depends names a shard that would be lost with a server, or is "".
func (p *planner) depends(rank uint32) string {
	for _, k := range p.byKey() {
		for i := range k.plan.Shards {
			if x := k.backupState(i); k.plan.Shards[i].Server == rank && (x.Backup == wire.NoServer || x.Used && !x.Ready) {
				return fmt.Sprintf("key %s shard %d", wire.Shown(k.plan.Name), i)
			}
		}
	}
	return ""
}

package scheduler

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxPlaces bounds the places in one answer.
const maxPlaces = 40_000

// A shardPlacement says which server has which shard, and its backup. (Which hosts get workers is in
// sites.go.) The planner decides; the placement numbers what it decided, records it, and moves
// shards one step after the other.
//
// The number goes up whenever shards are elsewhere than before, so that nodes with an older one ask
// again. Shards move in steps: a step waits until all backups of the one before are filled, since
// only a full backup can become a primary.
type shardPlacement struct {
	plan planner
	// number is 0 where shards never move, since they have no backups.
	number uint64
	// unsteady says that servers were added or removed, and shards may have to move.
	unsteady bool
	// saidBare says that the warning was logged that no shard has a backup.
	saidBare bool

	// moved has the keys whose places are to be recorded.
	moved []*placed
	dirty bool
}

func newShardPlacement(set *Settings) shardPlacement {
	p := shardPlacement{plan: newPlanner(set.Servers)}
	if p.plan.backups = set.Elastic.Backups > 0; p.plan.backups {
		p.number = 1
	}
	p.dirty = true
	return p
}

// declare answers a node with the plan of a key, which is made when the key is declared first.
// ranks is how many ranks of servers there are.
func (p *shardPlacement) declare(out *output, request uint64, n *node, m *wire.Declare, ranks int) {
	known := len(p.plan.keys)
	out.answer(request, p.plan.declare(m, n.String(), out.job.generation))
	if len(p.plan.keys) == known {
		return
	}
	if !out.unkept {
		out.put(fmt.Sprintf("placement/key/%08d", known), keptKey{*m, n.String(), ranks, p.plan.hash})
	}
	if p.plan.backups {
		p.mark(p.plan.keys[m.Name])
	}
}

// readPlaces answers where the shards of keys are.
func (p *shardPlacement) readPlaces(out *output, request uint64, m *wire.ReadPlaces) {
	out.answer(request, p.plan.places(m.From, p.number))
}

// places answers where the shards of keys are, from one on.
func (p *planner) places(from, placement uint64) *wire.Places {
	m := &wire.Places{Placement: placement, Next: from, Keys: uint64(len(p.keys))}
	for ; m.Next < m.Keys; m.Next++ {
		k := p.list[m.Next]
		if len(m.Places) > 0 && len(m.Places)+len(k.plan.Shards) > maxPlaces {
			return m
		}
		for i := range k.plan.Shards {
			m.Places = append(m.Places, wire.Place{Key: m.Next, Shard: uint32(i), Server: k.plan.Shards[i].Server, Backup: k.backupState(i).Backup})
		}
	}
	m.Next = max(m.Next, m.Keys)
	return m
}

// filled takes the report of a primary that backups have its shards. It reports whether the next
// step of moving shards may be due.
func (p *shardPlacement) filled(out *output, request uint64, n *node, m *wire.Filled, r *roster) bool {
	list := p.plan.byKey()
	for _, x := range m.Shards {
		if x.Key >= uint64(len(list)) || int(x.Shard) >= len(list[x.Key].plan.Shards) {
			out.refuse(request, wire.CodeUnknownKey, "filled: there is no key %d shard %d", x.Key, x.Shard)
			return false
		}
		k := list[x.Key]
		backup := k.backupState(int(x.Shard)).Backup
		if n.Role != wire.RoleServer || k.plan.Shards[x.Shard].Server != uint32(n.Rank) || backup == wire.NoServer || !isNode(r.server(backup), x.Backup) {
			out.refuse(request, wire.CodeMoved, "filled: key %d shard %d: %v is not its primary with node %d as its backup in placement %d", x.Key, x.Shard, n, x.Backup, p.number)
			return false
		}
	}
	for _, x := range m.Shards {
		p.plan.filled(list[x.Key], x.Shard, m.OK)
		p.mark(list[x.Key])
	}
	out.ack(request)
	return m.OK
}

// isNode reports whether a node, which may be nil, has an ID. No node has the ID 0.
func isNode(n *node, id uint64) bool {
	if n == nil {
		return id == 0
	}
	return n.Node == id
}

// even does the next step of moving shards, and reports whether there was one.
func (p *shardPlacement) even(out *output) bool {
	if !p.plan.backups || !p.unsteady {
		return false
	}
	keys := p.plan.even()
	if len(keys) == 0 {
		// It is over once the last step's backups are filled.
		if p.plan.filling == 0 {
			p.unsteady, p.dirty = false, true
		}
		return false
	}
	p.renew(keys)
	out.note("placement %d: shards of %s move", p.number, plural.Of(len(keys), "key")).Event = joblog.Placed.With("placement", p.number, "keys", len(keys), "generation", out.job.generation)
	return true
}

// lose goes on without a server: the backups of its shards become primaries. It returns how many
// keys that concerns, or an error that says of which shard no copy is left.
func (p *shardPlacement) lose(rank uint32) (keys int, err error) {
	changed, err := p.plan.lose(rank)
	if err != nil {
		return 0, err
	}
	p.renew(changed)
	return len(changed), nil
}

// enter adds a server at a vacant rank. It returns how many keys get backups there.
func (p *shardPlacement) enter(rank uint32) (keys int) {
	changed := p.plan.enter(rank)
	p.unsteady = true
	p.renew(changed)
	return len(changed)
}

// renew makes a new placement in which these keys have moved. The caller makes the new revision.
func (p *shardPlacement) renew(keys []*placed) {
	p.number, p.dirty = p.number+1, true
	p.mark(keys...)
}

// mark says that keys have moved.
func (p *shardPlacement) mark(keys ...*placed) {
	for _, k := range keys {
		if !k.dirty {
			k.dirty = true
			p.moved = append(p.moved, k)
		}
	}
}

// grow adds vacant ranks of servers up to a number.
func (p *shardPlacement) grow(ranks int) { p.plan.grow(ranks) }

// isVacant reports whether no server has the rank.
func (p *shardPlacement) isVacant(rank int) bool {
	return rank < 0 || rank >= len(p.plan.gone) || p.plan.gone[rank]
}

// vacant is the vacant rank that is wanted (-1: the lowest); false: there is none.
func (p *shardPlacement) vacant(wanted int32) (uint32, bool) {
	for _, rank := range []int32{wanted, -1} {
		for r := range p.plan.gone {
			if p.plan.gone[r] && (rank < 0 || rank == int32(r)) {
				return uint32(r), true
			}
		}
	}
	return 0, false
}

// bare warns that shards should have backups and have none, because only one server is left.
func (p *shardPlacement) bare(job *jobState) string {
	if !p.plan.backups || job.phase != wire.PhaseRunning || p.plan.living() != 1 {
		return ""
	}
	for rank, gone := range p.plan.gone {
		if !gone {
			return fmt.Sprintf("server %d is the only one: no shard has a backup, and its loss ends the job; add another one (launch ctl add-server)", rank)
		}
	}
	return ""
}

// sayBare logs that warning once.
func (p *shardPlacement) sayBare(out *output) {
	text := p.bare(out.job)
	if text != "" && !p.saidBare {
		out.warn("%s", text).Event = joblog.NoBackups.With()
	}
	p.saidBare = text != ""
}

// holdings counts the shards that servers have into their statuses, which are in order of rank.
func (p *shardPlacement) holdings(list []control.ServerStatus) {
	for _, k := range p.plan.list {
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			list[s.Server].Shards++
			list[s.Server].Values += s.Length
			if x.Backup != wire.NoServer {
				list[x.Backup].Backups++
				if x.filling() {
					list[x.Backup].Filling++
				}
			}
		}
	}
}

// A keptPlacement is the record of a shardPlacement.
type keptPlacement struct {
	Number   uint64 `json:",omitempty"`
	Unsteady bool   `json:",omitempty"`
}

// A keptKey is the record of a key: its declaration, from which the plan is made again.
type keptKey struct {
	Declare wire.Declare
	By      string
	// Servers is the number of ranks of servers when the key was placed.
	Servers int `json:",omitempty"`
	// Hash is that of its plan, for shards may have moved.
	Hash uint64 `json:",omitempty"`
}

// A keptPlaces is the record of where a key's shards are.
type keptPlaces struct {
	Servers []uint32
	Spots   []backupState
}

// keep records the keys that have moved, then the number: in one write, so that a restart finds
// both or none.
func (p *shardPlacement) keep(out *output) {
	for _, k := range p.moved {
		k.dirty = false
		if !out.unkept {
			out.put(fmt.Sprintf("placement/places/%08d", k.plan.Key), k.kept())
		}
	}
	p.moved = nil
	if p.dirty {
		p.dirty = false
		out.put("placement", p.kept())
	}
}

func (p *shardPlacement) kept() keptPlacement { return keptPlacement{p.number, p.unsteady} }

// restore takes a record. ranks is how many ranks of servers there are. Keys come before their
// places, in the order of their declarations.
func (p *shardPlacement) restore(rest string, value []byte, ranks int) error {
	kind, number, _ := strings.Cut(rest, "/")
	switch kind {
	case "":
		var k keptPlacement
		if err := json.Unmarshal(value, &k); err != nil {
			return err
		}
		if k.Number > 0 {
			p.number, p.unsteady = k.Number, k.Unsteady
		}
		return nil
	case "key":
		return p.restoreKey(value, ranks)
	case "places":
		return p.restorePlaces(number, value, ranks)
	}
	return errUnknownRecord
}

// restoreKey makes the plan of a key again, with the ranks of servers that there were when it was
// declared, so that the same shards come out. Where they are now, the record of its places says,
// and its hash is the recorded one.
func (p *shardPlacement) restoreKey(value []byte, ranks int) error {
	var k keptKey
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	p.plan.grow(min(k.Servers, ranks))
	known := len(p.plan.keys)
	if n, refused := p.plan.declare(&k.Declare, k.By, 0).(*wire.Nack); refused {
		return fmt.Errorf("%v: %s", n.Code, n.Text)
	}
	if len(p.plan.keys) > known && k.Hash != 0 {
		p.plan.hash, p.plan.keys[k.Declare.Name].plan.Hash = k.Hash, k.Hash
	}
	return nil
}

// restorePlaces puts the shards of a key where they were.
func (p *shardPlacement) restorePlaces(number string, value []byte, ranks int) error {
	var k keptPlaces
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	// All keys are there.
	p.plan.grow(ranks)
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n >= uint64(len(p.plan.keys)) {
		return fmt.Errorf("want the number of one of %d keys", len(p.plan.keys))
	}
	return p.plan.restore(p.plan.byKey()[n], k)
}

// restored finds out which ranks of servers are vacant.
func (p *shardPlacement) restored(r *roster, ranks int) {
	p.plan.grow(ranks)
	for rank := range p.plan.gone {
		p.plan.gone[rank] = r.server(uint32(rank)) == nil
	}
	p.plan.recount()
}

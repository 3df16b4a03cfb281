package scheduler

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The measures of plans, in values (float32).
const (
	// align is what the offsets of dense shards are multiples of: a page of float32,
	// a cache line's for every codec, and the length of the blocks of ClipGlobalNorm's squares.
	align = 1024
	// cutAbove is the length beyond which dense keys are cut, into one shard or more for each
	// server.
	cutAbove = 64 << 10
	// maxShard bounds a dense shard, and maxRows a shard of rows.
	maxShard = 1 << 20
	maxRows  = 4 << 20
	// maxWhole bounds a key that may not be cut: it must fit a frame.
	maxWhole = wire.MaxPayload / 4
	// maxShards bounds the shards of one key: its plan must fit a frame's head.
	maxShards = 40_000
	// maxKeys bounds the keys of a job.
	maxKeys = 1 << 20
	// maxKeySize bounds a dense key, and maxRowSize a key of rows.
	maxKeySize = maxShard * maxShards
	maxRowSize = maxRows * maxShards
)

// A planner places the shards of keys on servers: a pure function of the declarations, in their
// order, and of the servers that come and go. (The plan of hosts for workers is in scaleplan.go.)
type planner struct {
	// load has the values on each server, and gone says which servers are not there, both by
	// rank.
	load []uint64
	gone []bool
	// backups says that shards have backups. backed is what each server holds of them, and
	// pairs how much of that for each other one, by weight. filling is how many are being
	// filled.
	backups bool
	backed  []uint64
	pairs   [][]uint64
	filling int
	// keys has the keys by name, and list by ID.
	keys map[string]*placed
	list []*placed
	// hash is that of the plans so far.
	hash uint64
}

// A placed key has its plan and the state of its shards' backups.
type placed struct {
	plan  *wire.KeyPlan
	table string
	// by is who declared it.
	by string
	// spots has the state of each shard's backup; nil: there are none.
	spots []backupState
	// dirty says that its places are among the records to be kept.
	dirty bool
}

func newPlanner(servers int) planner {
	p := planner{load: make([]uint64, servers), gone: make([]bool, servers), keys: make(map[string]*placed)}
	p.recount()
	return p
}

// grow adds vacant ranks of servers up to a number.
func (p *planner) grow(ranks int) {
	if len(p.load) >= ranks {
		return
	}
	for len(p.load) < ranks {
		p.load = append(p.load, 0)
		p.gone = append(p.gone, true)
	}
	p.recount()
}

// declare returns the key's plan, made at the first declaration, or a Nack. All workers declare all
// keys, so every declaration but the first is a check that they agree. The plan's hash covers all
// plans before it: nodes that compare it notice that they have another history.
func (p *planner) declare(d *wire.Declare, by string, generation uint64) wire.Message {
	if old := p.keys[d.Name]; old != nil {
		o := old.plan
		if o.Form != d.Form || o.Rule != d.Rule || o.Size != d.Size || o.RowLen != d.RowLen {
			return refuseKey(d, generation, wire.CodeSize, "%s declared %s, %s declares %s",
				old.by, shape(o.Form, o.Rule, o.Size, o.RowLen), by, shape(d.Form, d.Rule, d.Size, d.RowLen))
		}
		if old.table != d.Table {
			return refuseKey(d, generation, wire.CodeConflict, "%s declared the table %q, %s declares %q", old.by, old.table, by, d.Table)
		}
		return o
	}
	if n := checkKey(d, generation, len(p.keys)); n != nil {
		return n
	}
	k := &wire.KeyPlan{Key: uint64(len(p.keys)), Form: d.Form, Rule: d.Rule, Size: d.Size, RowLen: d.RowLen, Name: d.Name}
	switch d.Form {
	case wire.FormDense:
		k.Shards = p.cut(d.Size, d.Whole)
	case wire.FormOpen:
		k.Shards = p.open(d.Whole)
	default:
		k.Shards = p.deal(d.Size/d.RowLen, d.RowLen, d.Whole)
	}
	h := fnv.New64a()
	h.Write(wire.AppendHead(nil, &wire.Ack{Generation: p.hash}))
	h.Write(wire.AppendHead(nil, k))
	p.hash = h.Sum64()
	k.Hash = p.hash
	at := &placed{plan: k, table: d.Table, by: by}
	p.keys[d.Name] = at
	p.list = append(p.list, at)
	p.back(false, at)
	return k
}

// checkKey refuses a key that cannot be; nil: it can. keys is how many the job has.
func checkKey(d *wire.Declare, generation uint64, keys int) *wire.Nack {
	if err := wire.CheckKeyName(d.Name); err != nil {
		return &wire.Nack{Code: wire.CodeMalformed, Generation: generation, Text: "declare a key: " + err.Error()}
	}
	switch {
	case d.Form != wire.FormDense && d.Form != wire.FormRows && d.Form != wire.FormOpen:
		return refuseKey(d, generation, wire.CodeMalformed, "form %d is not known", d.Form)
	case d.Rule != wire.RuleOptimizer && d.Rule != wire.RuleAverage:
		return refuseKey(d, generation, wire.CodeMalformed, "rule %d is not known", d.Rule)
	case d.Form == wire.FormOpen && (d.Size != 0 || d.RowLen == 0 || d.RowLen > maxRows):
		return refuseKey(d, generation, wire.CodeSize, "%d values in rows of %d; an open vocabulary has none yet, in rows of 1 to %d values each", d.Size, d.RowLen, maxRows)
	case d.Size == 0 && d.Form != wire.FormOpen:
		return refuseKey(d, generation, wire.CodeSize, "has no values")
	case d.Form == wire.FormDense && d.RowLen != 0:
		return refuseKey(d, generation, wire.CodeSize, "is dense and has rows of %d values", d.RowLen)
	case d.Form == wire.FormRows && (d.RowLen == 0 || d.RowLen > maxRows || d.Size%d.RowLen != 0):
		return refuseKey(d, generation, wire.CodeSize, "%d values do not make rows of %d, of 1 to %d values each", d.Size, d.RowLen, maxRows)
	case d.Whole && d.Size > maxWhole:
		return refuseKey(d, generation, wire.CodeSize, "%d values, but the key cannot be cut: want at most %d", d.Size, maxWhole)
	case d.Form == wire.FormDense && d.Size > maxKeySize, d.Form == wire.FormRows && d.Size > maxRowSize:
		return refuseKey(d, generation, wire.CodeSize, "%d values need more than %d shards, the maximum", d.Size, maxShards)
	case keys >= maxKeys:
		return refuseKey(d, generation, wire.CodeFull, "the job has %d keys, the most that a job may have", maxKeys)
	}
	return nil
}

// refuseKey refuses a declaration.
func refuseKey(d *wire.Declare, generation uint64, code wire.Code, format string, args ...any) *wire.Nack {
	return &wire.Nack{Code: code, Generation: generation, Text: fmt.Sprintf("key %s: ", wire.Shown(d.Name)) + fmt.Sprintf(format, args...)}
}

// shape describes a key for people.
func shape(form, rule uint8, size, rowLen uint64) string {
	s := fmt.Sprintf("%d values", size)
	if form == wire.FormOpen {
		s = fmt.Sprintf("an open vocabulary in rows of %d values", rowLen)
	}
	if form == wire.FormRows {
		s = fmt.Sprintf("%d values in rows of %d", size, rowLen)
	}
	if rule == wire.RuleAverage {
		s += " to be averaged"
	}
	return s
}

// place chooses the servers of a key's shards, given their values. Shards are assigned in groups of
// one for each server, so that every server gets its share of every key that is cut, and within a
// group to the servers with the fewest values first; of several with as many to the one of the
// lowest rank.
func (p *planner) place(values []uint64) []uint32 {
	out := make([]uint32, 0, len(values))
	var order []uint32
	for i := range p.load {
		if !p.gone[i] {
			order = append(order, uint32(i))
		}
	}
	for group := range slices.Chunk(values, len(order)) {
		slices.SortFunc(order, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(p.load[a], p.load[b]), cmp.Compare(a, b))
		})
		for i, n := range group {
			p.load[order[i]] += n
			out = append(out, order[i])
		}
	}
	return out
}

// cut cuts a dense key. Small keys and those that must stay whole are one shard. Others become a
// multiple of the number of servers, the smallest with shards of at most maxShard, all of one
// length but for the alignment.
func (p *planner) cut(size uint64, whole bool) []wire.ShardPlace {
	n, units := uint64(1), (size+align-1)/align
	if !whole && size > cutAbove {
		n = shards(size, maxShard, uint64(len(p.load)), units)
	}
	values := make([]uint64, n)
	out := make([]wire.ShardPlace, n)
	var offset uint64
	for i := range n {
		length := units / n * align
		if i < units%n {
			length += align
		}
		values[i] = min(length, size-offset)
		out[i].Offset, out[i].Length = offset, values[i]
		offset += values[i]
	}
	for i, s := range p.place(values) {
		out[i].Server = s
	}
	return out
}

// deal deals the rows of a key out to shards, one of n rows in a row to each; wire.KeyPlan says
// which.
func (p *planner) deal(rows, rowLen uint64, whole bool) []wire.ShardPlace {
	n := uint64(1)
	if !whole {
		n = shards(rows, maxRows/rowLen, uint64(len(p.load)), rows)
	}
	values := make([]uint64, n)
	out := make([]wire.ShardPlace, n)
	for i := range n {
		count := rows / n
		if i < rows%n {
			count++
		}
		values[i] = count * rowLen
		out[i].Offset, out[i].Length = i, values[i]
	}
	for i, s := range p.place(values) {
		out[i].Server = s
	}
	return out
}

// openShards is how many shards of an open vocabulary a server gets: so many of its cores can work
// at one push.
const openShards = 4

// open gives every server as many shards of an open vocabulary.
func (p *planner) open(whole bool) []wire.ShardPlace {
	n := openShards * len(p.load)
	if whole {
		n = 1
	}
	out := make([]wire.ShardPlace, min(n, maxShards))
	for i, s := range p.place(make([]uint64, len(out))) {
		out[i] = wire.ShardPlace{Server: s, Offset: uint64(i)}
	}
	return out
}

// shards is the smallest multiple of servers that cuts size into pieces of at most limit, but no
// more than most.
func shards(size, limit, servers, most uint64) uint64 {
	n := (size + limit - 1) / limit
	n = (n + servers - 1) / servers * servers
	return min(n, most)
}

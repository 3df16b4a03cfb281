package shardserver

import (
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An incomingShard is a shard that its primary is copying to this server, its new backup.
type incomingShard struct {
	shard *shard.Shard
	// cfg is the shard's.
	cfg *shard.Config
	// from is the primary's node, and number that of the fill.
	from, number uint64
	// base, config, mode and guard are the job's, for a server that no worker has sent them.
	base, config string
	mode         uint8
	guard        *shard.Guard
	// bytes is what the shard takes of the server's memory.
	bytes int64
	// of is the membership whose members the shard has.
	of *membership
}

// incomingShards are the shards that are being copied to a server.
type incomingShards map[shardID]*incomingShard

// fillWhole gives an incoming shard its arrays, of whole values together, which its Fill has
// brought.
func (x *incomingShard) fillWhole(data *shard.Buffer, whole, arrays int) error {
	n := int(x.cfg.Length)
	if x.cfg.Form == wire.FormOpen || whole != arrays*n {
		return refuse(wire.CodeSize, "fill: %v: got %d values, want %d arrays", x.cfg, whole, arrays)
	}
	values := data.Float32s(whole)
	for i := range arrays {
		if err := x.shard.WriteFill(i, 0, values[i*n:(i+1)*n]); err != nil {
			return err
		}
	}
	return nil
}

// fillPart gives an incoming shard a part of an array, or some rows.
func (x *incomingShard) fillPart(m *wire.FillPart, data *shard.Buffer) error {
	switch {
	case m.Count == 0:
		return nil
	case x.cfg.Form == wire.FormOpen:
		return x.shard.WriteFillRows(int(m.Count), data)
	}
	return x.shard.WriteFill(int(m.Array), int(min(m.From, shard.MaxLength)), data.Float32s(int(m.Count)))
}

// of returns the incoming shard of a FillPart, or nil if its fill has not begun or was given up.
func (all incomingShards) of(m *wire.FillPart) *incomingShard {
	if x := all[shardID{m.Key, m.Shard}]; x != nil && x.number == m.Number && x.from == m.Node {
		return x
	}
	return nil
}

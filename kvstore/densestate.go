package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
	"github.com/paragon-train/paragon/optim"
)

// read reads a key's value and slots from its shards, as of the last round that this worker has
// pushed to, and the optimizer's JSON. The caller holds the key's turn: in a synchronous store no
// round closes meanwhile, for want of this worker's push, so all shards are of one round.
func (s *shardStates) read(ctx context.Context, k *key) (*keyState, string, error) {
	if k.form == wire.FormOpen {
		return s.readOpen(ctx, k)
	}
	slots := s.mostSlots(k)
	seq, round := k.pushes.wanted()
	state := &keyState{savedKey: savedKey{Name: k.name, Form: formName(k.form), Average: k.rule == wire.RuleAverage, Size: uint64(k.size),
		RowLength: uint64(k.rowLen), Round: round, Table: k.table, Shape: k.shapeOf()}}
	config := ""
	fill := func(c *call, i int) error {
		head := &wire.ReadState{Origin: k.origin(i, seq), Round: round, WaitMillis: s.cfg.waitMillis()}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.State{}
		size := 4 * int(k.shards[i].Length)
		if err := k.fitsFrame("save", i, size); err != nil {
			return err
		}
		var r buffer.Aligned
		c.dst = r.Bytes(min(size*(1+slots), wire.MaxPayload))
		return nil
	}
	done := func(c *call, i int) error {
		st := c.answer.(*wire.State)
		if i == 0 {
			config = st.Config
		}
		if err := s.take(k, state, c, i, st); err != nil {
			return &ShardError{Verb: "save", Key: k.name, Shard: i, Round: round, Peer: c.peer(), Err: err}
		}
		c.got, c.dst = nil, nil
		return nil
	}
	if err := s.requests.everyShard(ctx, "save", k, fill, done); err != nil {
		return nil, "", err
	}
	return state, config, nil
}

// take puts the answer of shard i into a key's state. The first shard says which slots there are.
func (s *shardStates) take(k *key, state *keyState, c *call, i int, st *wire.State) error {
	n := int(k.shards[i].Length)
	if st.N != uint64(n) || len(c.got) != 4*n*(1+len(st.Slots)) {
		return fmt.Errorf("%w: got %d values with %d slots in %d bytes, want %d values", ErrSize, st.N, len(st.Slots), len(c.got), n)
	}
	wanted := state.Round
	if i == 0 {
		state.Slots = st.Slots
		state.values = make([][]float32, 1+len(st.Slots))
		for j := range state.values {
			state.values[j] = make([]float32, k.size)
		}
		if s.cfg.async {
			state.Round = st.Round
		}
	}
	if err := state.checkShard(st.Slots, st.Round, wanted, s.cfg.async); err != nil {
		return err
	}
	for j, values := range state.values {
		part := c.got[4*n*j : 4*n*(j+1)]
		if s.cfg.native {
			k.putShardValues(i, values, buffer.FloatsOf(part))
			continue
		}
		own := make([]float32, n)
		buffer.DecodeFloats(false, own, part)
		k.putShardValues(i, values, own)
	}
	return nil
}

// write writes a file's values and slots to every shard of the key. If opt is not nil, slots that
// the file lacks start with opt's values.
func (s *shardStates) write(ctx context.Context, k *key, file *checkpoint.File, x *savedKey, opt *optim.Optimizer) error {
	if k.form == wire.FormOpen {
		return s.writeOpen(ctx, k, file, x, opt)
	}
	slots, tensors, err := x.readTensors(file, k.size, opt)
	if err != nil {
		return err
	}
	return s.requests.everyShard(ctx, "load", k, func(c *call, i int) error {
		head := &wire.WriteState{Init: k.initHead(i), Round: x.Round, Slots: slots}
		c.request, c.origin, c.answer = head, &head.Init.Origin, &wire.Ack{}
		c.payload = c.payload[:0]
		for _, values := range tensors {
			var r buffer.Aligned
			c.payload = append(c.payload, r.Floats(s.cfg.native, k.shardValues(i, values)))
		}
		return nil
	}, nil)
}

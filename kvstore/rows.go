package kvstore

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// checkRows checks a call's rows and the length of its values.
func (k *key) checkRows(verb string, rows []int64, what string, values int) error {
	if values/k.rowLen != len(rows) || values%k.rowLen != 0 {
		return keyError(verb, k.name, ErrSize, "%s: got %d values for %d rows, want %d for each", what, values, len(rows), k.rowLen)
	}
	if uint64(len(rows)) > math.MaxInt32 {
		return keyError(verb, k.name, ErrSize, "got %d rows, want at most %d in one call", len(rows), math.MaxInt32)
	}
	if k.form == wire.FormOpen {
		return nil
	}
	for i, r := range rows {
		if r < 0 || r >= int64(k.rows) {
			return keyError(verb, k.name, ErrSize, "rows[%d]: got row %d, want 0 to %d", i, r, k.rows-1)
		}
	}
	return nil
}

// A rowsPush is the push of a key of rows.
type rowsPush struct {
	*op
	heads    []wire.PushRows
	acks     []wire.Ack
	payloads [][2][]byte
	split    split
}

func newRowsPush(k *key) *rowsPush {
	n := len(k.shards)
	p := &rowsPush{op: newOp(k.s.requests, "push rows", k.name, n), heads: make([]wire.PushRows, n), acks: make([]wire.Ack, n), payloads: make([][2][]byte, n)}
	for i := range p.calls {
		c := &p.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.answer, c.payload = &p.heads[i], &p.heads[i].Origin, &p.acks[i], p.payloads[i][:]
	}
	return p
}

func (s *store) pushRows(ctx context.Context, by *PushOptions, name string, rows []int64, grad []float32) error {
	k, err := s.lookup("push rows", name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows("push rows", rows, "gradient", len(grad)); err != nil {
		return err
	}
	if s.joining.Load() {
		return s.notYet(fmt.Sprintf("push rows key %s", wire.Shown(name)))
	}
	if err := k.lockPushes(ctx, "push rows"); err != nil {
		return err
	}
	defer k.unlockPushes()
	step, err := k.stepOf("push rows", by, Compression{})
	if err != nil {
		return err
	}
	examples, err := by.examples("push rows", k.name)
	if err != nil {
		return err
	}
	if k.sent == nil {
		k.sent = newRowsPush(k)
	}
	p := k.sent
	p.split.divide(&k.spread, len(k.shards), rows, true)
	p.split.add(k.rowLen, grad)
	before := s.placement.version.Load()
	seq, round := k.next()
	p.round = round
	weight, counted := by.Weight, by.Counted
	for i := range p.heads {
		x := &p.split.shards[i]
		p.heads[i] = wire.PushRows{Origin: k.origin(i, seq+1), Round: round, Weight: weight, Rows: uint64(len(x.rows)), WaitMillis: s.waitMillis(), Counted: counted, Examples: examples, Step: step}
		p.payloads[i] = [2][]byte{x.code[0].rowNumbers(s.native, x.rows), x.code[1].floats(s.native, x.values)}
	}
	if err = p.run(ctx); err == nil {
		k.acknowledged(before, round, nil, p.heads, p.calls)
	}
	k.pushed(err)
	return err
}

// A rowsPull is one pull of rows. Several may be under way; they are reused.
type rowsPull struct {
	*op
	heads    []wire.PullRows
	values   []wire.Value
	payloads [][1][]byte
	split    split
	all      []call // one for each shard; op.calls holds those in use
}

func newRowsPull(k *key) *rowsPull {
	n := len(k.shards)
	p := &rowsPull{op: newOp(k.s.requests, "pull rows", k.name, n), heads: make([]wire.PullRows, n), values: make([]wire.Value, n), payloads: make([][1][]byte, n)}
	p.all = p.calls
	return p
}

func (s *store) PullRows(ctx context.Context, name string, rows []int64, out []float32) error {
	k, err := s.lookup("pull rows", name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows("pull rows", rows, "out", len(out)); err != nil {
		return err
	}
	p := takeIdle(k, &k.rowPulls)
	if p == nil {
		p = newRowsPull(k)
	}
	defer keepIdle(k, &k.rowPulls, p)
	p.split.divide(&k.spread, len(k.shards), rows, false)
	p.split.makeValues(k.rowLen)
	seq, round := k.wanted()
	p.round = round
	p.calls = p.all[:0]
	for i := range p.heads {
		x := &p.split.shards[i]
		if len(x.rows) == 0 && len(rows) > 0 {
			continue // a pull of no rows asks every shard for none, so that it waits for the round as other pulls do
		}
		p.heads[i] = wire.PullRows{Origin: k.origin(i, seq), Round: round, Rows: uint64(len(x.rows)), WaitMillis: s.waitMillis(), Staleness: s.staleness}
		p.payloads[i][0] = x.code[0].rowNumbers(s.native, x.rows)
		p.calls = p.all[:len(p.calls)+1]
		c := &p.calls[len(p.calls)-1]
		c.aim(k, i)
		c.request, c.origin = &p.heads[i], &p.heads[i].Origin
		c.answer, c.payload, c.dst, c.got = &p.values[i], p.payloads[i][:], x.code[1].receiveBuffer(s.native, x.values), nil
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	for i := range p.calls {
		c := &p.calls[i]
		x, v := &p.split.shards[c.shard], &p.values[c.shard]
		if v.Codec != wire.CodecFloat32 || v.N != uint64(len(x.values)) || len(c.got) != 4*len(x.values) {
			return &ShardError{Verb: p.verb, Key: k.name, Shard: c.shard, Round: round, Peer: c.peer(),
				Err: fmt.Errorf("%w: got %d values in %d bytes of codec %d, want %d float32", ErrSize, v.N, len(c.got), v.Codec, len(x.values))}
		}
		decodeFloats(s.native, x.values, c.got)
	}
	k.pulledRows(p.calls, p.values)
	p.split.scatter(k.rowLen, out)
	return nil
}

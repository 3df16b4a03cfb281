package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
	"github.com/paragon-train/paragon/kvstore/internal/rowsplit"
)

// A rowsPath pushes and pulls keys of rows. A round of such a key needs a contribution of every
// worker to every shard: a push without rows for a shard still asks it.
type rowsPath struct {
	cfg      *settings
	requests *requests
	member   *membership
	keys     *keyTable
	copies   *replication
}

// A rowsPush is the push of a key of rows. There is one for each key, which the turn guards: the
// rows of a call are sorted into its memory, and stay there until the servers have them.
type rowsPush struct {
	op       *op
	heads    []wire.PushRows
	acks     []wire.Ack
	payloads [][2][]byte
	split    rowsplit.Split
}

func newRowsPush(r *requests, k *key) *rowsPush {
	n := len(k.shards)
	p := &rowsPush{op: newOp(r, "push rows", k.name, n), heads: make([]wire.PushRows, n), acks: make([]wire.Ack, n), payloads: make([][2][]byte, n)}
	for i := range p.op.calls {
		c := &p.op.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.answer, c.payload = &p.heads[i], &p.heads[i].Origin, &p.acks[i], p.payloads[i][:]
	}
	return p
}

// push adds rows to the key's open round.
func (d *rowsPath) push(ctx context.Context, by *PushOptions, name string, rows []int64, grad []float32) error {
	const verb = "push rows"
	k, err := d.keys.lookup(verb, name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows(verb, rows, "gradient", len(grad)); err != nil {
		return err
	}
	if d.member.joining.Load() {
		return d.member.notYet(fmt.Sprintf("push rows key %s", wire.Shown(name)))
	}
	if err := k.lock(ctx, verb); err != nil {
		return err
	}
	defer k.unlock()
	step, err := by.stepOf(verb, k, Compression{})
	if err != nil {
		return err
	}
	examples, err := by.examples(verb, k.name)
	if err != nil {
		return err
	}
	if k.sent == nil {
		k.sent = newRowsPush(d.requests, k)
	}
	p := k.sent
	p.split.Divide(&k.spread, len(k.shards), rows, true)
	p.split.Add(k.rowLen, grad)
	before := d.copies.placement.version.Load()
	seq, round := k.pushes.next()
	p.op.round = round
	for i := range p.heads {
		x := &p.split.Shards[i]
		p.heads[i] = wire.PushRows{Origin: k.origin(i, seq+1), Round: round, Weight: by.Weight, Rows: uint64(len(x.Rows)), WaitMillis: d.cfg.waitMillis(), Counted: by.Counted, Examples: examples, Step: step}
		p.payloads[i] = [2][]byte{x.Code[0].RowNumbers(d.cfg.native, x.Rows), x.Code[1].Floats(d.cfg.native, x.Values)}
	}
	if err = p.op.run(ctx); err == nil {
		d.copies.acknowledged(k, before, sentPush{round: round, rows: p.heads, calls: p.op.calls})
	}
	k.pushed(err)
	return err
}

// A rowsPull is one pull of rows. Several may be under way; they are reused.
type rowsPull struct {
	op       *op
	heads    []wire.PullRows
	values   []wire.Value
	payloads [][1][]byte
	split    rowsplit.Split
	// all has a call for each shard; op.calls holds those in use.
	all []call
}

func newRowsPull(r *requests, k *key) *rowsPull {
	n := len(k.shards)
	p := &rowsPull{op: newOp(r, "pull rows", k.name, n), heads: make([]wire.PullRows, n), values: make([]wire.Value, n), payloads: make([][1][]byte, n)}
	p.all = p.op.calls
	return p
}

// PullRows copies rows of the value. Rows that are named several times are sent once, and copied to
// each place.
func (d *rowsPath) PullRows(ctx context.Context, name string, rows []int64, out []float32) error {
	k, err := d.keys.lookup("pull rows", name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows("pull rows", rows, "out", len(out)); err != nil {
		return err
	}
	p := takeIdle(k, &k.rowPulls)
	if p == nil {
		p = newRowsPull(d.requests, k)
	}
	defer keepIdle(k, &k.rowPulls, p)
	p.split.Divide(&k.spread, len(k.shards), rows, false)
	p.split.MakeValues(k.rowLen)
	seq, round := k.pushes.wanted()
	p.op.round = round
	p.op.calls = p.all[:0]
	for i := range p.heads {
		x := &p.split.Shards[i]
		if len(x.Rows) == 0 && len(rows) > 0 {
			// A pull of no rows at all asks every shard, so that it waits for the round
			// as other pulls do.
			continue
		}
		p.heads[i] = wire.PullRows{Origin: k.origin(i, seq), Round: round, Rows: uint64(len(x.Rows)), WaitMillis: d.cfg.waitMillis(), Staleness: d.cfg.staleness}
		p.payloads[i][0] = x.Code[0].RowNumbers(d.cfg.native, x.Rows)
		p.op.calls = p.all[:len(p.op.calls)+1]
		c := &p.op.calls[len(p.op.calls)-1]
		c.aim(k, i)
		c.request, c.origin = &p.heads[i], &p.heads[i].Origin
		c.answer, c.payload, c.dst, c.got = &p.values[i], p.payloads[i][:], x.Code[1].Receive(d.cfg.native, x.Values), nil
	}
	if err := p.op.run(ctx); err != nil {
		return err
	}
	for i := range p.op.calls {
		c := &p.op.calls[i]
		x, v := &p.split.Shards[c.shard], &p.values[c.shard]
		if v.Codec != wire.CodecFloat32 || v.N != uint64(len(x.Values)) || len(c.got) != 4*len(x.Values) {
			return &ShardError{Verb: p.op.verb, Key: k.name, Shard: c.shard, Round: round, Peer: c.peer(),
				Err: fmt.Errorf("%w: got %d values in %d bytes of codec %d, want %d float32", ErrSize, v.N, len(c.got), v.Codec, len(x.Values))}
		}
		buffer.DecodeFloats(d.cfg.native, x.Values, c.got)
	}
	k.pulledRows(p.op.calls, p.values)
	p.split.Scatter(k.rowLen, out)
	return nil
}

package shardserver

import (
	"context"
	"errors"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// checkAnswerCodec returns an error unless values can be sent in a codec. Gradients may come in
// more: a value must not lose what other workers still need.
func checkAnswerCodec(codec uint8) error {
	switch codec {
	case wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16:
		return nil
	}
	return refuse(wire.CodeUnsupported, "got codec %d for the answer, want float32 (0), float16 (1) or bfloat16 (2)", codec)
}

// preparePull checks the head of a Pull and claims an answer.
func (c *call) preparePull(n int) (err error) {
	m := &c.pull
	c.origin = &m.Origin
	if c.entry, err = c.s.find(c.origin); err != nil {
		return err
	}
	if c.entry.cfg.Form != wire.FormDense {
		return refuse(wire.CodeUnsupported, "pull: %v has rows, want a pull of rows", c.entry.cfg)
	}
	if n != 0 {
		return refuse(wire.CodeMalformed, "pull: %v: got %d bytes of payload, want none", c.entry.cfg, n)
	}
	if err := checkAnswerCodec(m.Codec); err != nil {
		return err
	}
	return c.claims.pull(&c.request, c.s.membership.Load(), c.s.pulls)
}

// preparePullRows checks the head of a PullRows, whose payload names the rows, and claims an
// answer. The rows themselves are checked by the shard.
func (c *call) preparePullRows(n int) (err error) {
	m := &c.pullRows
	c.origin = &m.Origin
	if c.entry, err = c.s.find(c.origin); err != nil {
		return err
	}
	cfg := c.entry.cfg
	if !cfg.HasRows() {
		return refuse(wire.CodeUnsupported, "pull rows: %v is dense", cfg)
	}
	if most := c.s.payload / max(8, 4*cfg.RowLen); m.Rows > most {
		return refuse(wire.CodeSize, "pull rows: %v: got %d rows of %d, want at most %d in one answer", cfg, m.Rows, cfg.RowLen, most)
	}
	if size := 8 * m.Rows; uint64(n) != size {
		return refuse(wire.CodeSize, "pull rows: %v: got %d bytes of payload, want %d for %d rows", cfg, n, size, m.Rows)
	}
	return c.claims.pull(&c.request, c.s.membership.Load(), c.s.pulls)
}

// servePull answers with the value that the worker asks for, once there is one.
func (c *call) servePull(ctx context.Context) error {
	m := &c.pull
	return c.answerValue(ctx, wantOf(m), m.Codec, m.WaitMillis)
}

// wantOf returns the Want of a pull.
func wantOf(m *wire.Pull) shard.Want {
	return shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: m.Staleness}
}

// answerValue waits for the value and answers with it: from the shard's own memory, if it is sent
// as float32.
func (c *call) answerValue(ctx context.Context, want shard.Want, codec uint8, millis uint32) error {
	v, err := c.await(ctx, want, millis)
	if err != nil {
		return err
	}
	return c.answerVersion(v, want.Node, codec)
}

// answerVersion answers node with a Version, which the call then owns.
func (c *call) answerVersion(v *shard.Version, node uint64, codec uint8) error {
	c.reply.version = v
	c.reply.placed = c.lent.Loan != nil && c.lent.placed != 0 && c.lent.placed == v.Round()
	n := int(c.entry.cfg.Length)
	missed, lead := c.entry.shard.HandTo(v, node)
	c.reply.value = wire.Value{Generation: v.Generation(), Round: v.Round(), Codec: codec, N: uint64(n), Missed: missed, Lead: lead, Caught: c.entry.shard.CaughtOf(node), Limit: v.Limit(),
		Norms: v.Norms(), Weight: v.Weight(), Examples: v.Examples()}
	b, err := v.Encoded(codec)
	if err != nil {
		return err
	}
	return c.answer(&c.reply.value, b)
}

// servePullRows answers with some rows, all of one round. Between the end of the wait and the
// copy the next round may close and be hidden until the backup has it: the wait then begins
// again.
func (c *call) servePullRows(ctx context.Context) error {
	m := &c.pullRows
	want := shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: m.Staleness}
	var rows []int64
	if c.data != nil {
		rows = c.data.Int64s(int(m.Rows))
	}
	n := len(rows) * int(c.entry.cfg.RowLen)
	c.reply.out = c.s.pool.Get(4 * n)
	var round, generation uint64
	err := shard.ErrAgain
	for errors.Is(err, shard.ErrAgain) {
		if _, err = c.await(ctx, want, m.WaitMillis); err == nil {
			round, generation, err = c.entry.shard.PullRows(rows, c.reply.out.Float32s(n))
		}
	}
	if err != nil {
		return err
	}
	c.reply.value = wire.Value{Generation: generation, Round: round, Codec: wire.CodecFloat32, N: uint64(n), Caught: c.entry.shard.CaughtOf(m.Node)}
	return c.answer(&c.reply.value, c.reply.out.Bytes(4*n))
}

package shardserver

import (
	"context"
	"fmt"
	"strconv"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// preparePush checks the head of a Push and claims room for its payload. What may change until
// the payload is here, such as the round, is checked by the shard.
func (c *call) preparePush(n int) (err error) {
	m := &c.push
	c.origin = &m.Origin
	if c.entry, err = c.s.find(c.origin); err != nil {
		return err
	}
	cfg := c.entry.cfg
	if cfg.Form != wire.FormDense {
		return refuse(wire.CodeUnsupported, "push: %v has rows, want a push of rows", cfg)
	}
	if m.N != cfg.Length {
		return refuse(wire.CodeSize, "push: %v: got %d values, want %d", cfg, m.N, cfg.Length)
	}
	least, most, err := shard.PayloadSize(m.Codec, int(cfg.Length))
	if err != nil {
		return refuse(wire.CodeUnsupported, "push: %v: %v", cfg, err)
	}
	if n < least || n > most {
		return refuse(wire.CodeSize, "push: %v: got %d bytes of payload, want %s", cfg, n, between(least, most))
	}
	c.size = n
	if m.Answer {
		if err := checkAnswerCodec(m.AnswerCodec); err != nil {
			return err
		}
	}
	return c.claims.push(&c.request, c.s.membership.Load(), c.s.pushes)
}

// between names a range for messages.
func between(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// preparePushRows checks the head of a PushRows and claims room for its payload.
func (c *call) preparePushRows(n int) (err error) {
	m := &c.pushRows
	c.origin = &m.Origin
	if c.entry, err = c.s.find(c.origin); err != nil {
		return err
	}
	cfg := c.entry.cfg
	if !cfg.HasRows() {
		return refuse(wire.CodeUnsupported, "push rows: %v is dense", cfg)
	}
	rows := cfg.Length / cfg.RowLen
	if cfg.Form == wire.FormOpen {
		rows = c.s.payload / (8 + 4*cfg.RowLen)
	}
	if m.Rows > rows {
		return refuse(wire.CodeSize, "push rows: %v: got %d rows, want at most %d", cfg, m.Rows, rows)
	}
	if size := m.Rows * (8 + 4*cfg.RowLen); uint64(n) != size {
		return refuse(wire.CodeSize, "push rows: %v: got %d bytes of payload, want %d for %d rows of %d", cfg, n, size, m.Rows, cfg.RowLen)
	}
	return c.claims.push(&c.request, c.s.membership.Load(), c.s.pushes)
}

// servePush hands the contribution over and answers when its round has closed, or at once if the
// push wants no value. A call that was tried before, by tryPush, has handed it over.
func (c *call) servePush(ctx context.Context) error {
	m := &c.push
	if !c.held {
		if err := c.contribute(ctx, contributionOf(m, c.size), m.WaitMillis); err != nil {
			return err
		}
	}
	if !m.Answer {
		if err := c.awaitBackup(ctx, m.Node, m.Seq, m.WaitMillis); err != nil {
			return err
		}
		return c.answerAck()
	}
	if err := c.claims.pull(&c.request, c.s.membership.Load(), c.s.pulls); err != nil {
		return err
	}
	return c.answerValue(ctx, wantAfter(m), m.AnswerCodec, m.WaitMillis)
}

// contributionOf returns a push's Contribution, without its payload of size bytes.
func contributionOf(m *wire.Push, size int) shard.Contribution {
	return shard.Contribution{Generation: m.Generation, Node: m.Node, Seq: m.Seq, Round: m.Round, Weight: m.Weight, Examples: m.Examples,
		Counted: m.Counted, Judged: m.Judged, Norm: m.Norm, Codec: m.Codec, Threshold: m.Threshold, Size: size, Step: m.Step,
		Contributors: m.Contributors}
}

// wantAfter returns the Want of a push's answer.
func wantAfter(m *wire.Push) shard.Want {
	return shard.Want{Node: m.Node, Round: m.Round + 1, Seq: m.Seq, Staleness: shard.NoBound}
}

// servePushRows hands over a contribution of rows. It never answers with the value: workers pull
// other rows than they push.
func (c *call) servePushRows(ctx context.Context) error {
	m := &c.pushRows
	err := c.contribute(ctx, shard.Contribution{
		Generation: m.Generation, Node: m.Node, Seq: m.Seq, Round: m.Round, Weight: m.Weight, Examples: m.Examples, Counted: m.Counted, Rows: int(m.Rows),
		Step: m.Step,
	}, m.WaitMillis)
	if err == nil {
		err = c.awaitBackup(ctx, m.Node, m.Seq, m.WaitMillis)
	}
	if err != nil {
		return err
	}
	return c.answerAck()
}

// contribute pushes the payload to the shard, and waits first if it is too early.
func (c *call) contribute(ctx context.Context, x shard.Contribution, millis uint32) error {
	x.Data, x.Arrived = c.data, c.arrived
	if c.lent.Loan != nil {
		x.Loan = &c.lent
	}
	for {
		status, err := c.entry.shard.Push(x)
		switch status {
		case shard.Held, shard.Repeated:
			c.heardFrom(x.Contributors)
			c.accepted(x.Round)
			return nil
		case shard.Unlent:
			if err := c.copyLoan(); err != nil {
				return err
			}
			x.Data, x.Loan = c.data, nil
		case shard.Ahead:
			if millis == 0 {
				return refuse(wire.CodeTooFarAhead, "%v: %v: got round %d after %d closed rounds, want at most one round ahead", c.kind, c.entry.cfg, x.Round, c.entry.shard.Rounds())
			}
			v, err := c.await(ctx, shard.Turn(x), millis)
			if err != nil {
				return err
			}
			if v != nil {
				v.Release()
			}
		default:
			return err
		}
	}
}

// heardFrom records that workers contributed, of which another one has sent the sum.
func (c *call) heardFrom(contributors []wire.Contributor) {
	v := c.s.membership.Load()
	for i := range contributors {
		if w := v.workers[contributors[i].Node]; w != nil {
			w.heard.Store(c.arrived)
		}
	}
}

// accepted records that the shard owns the payload.
func (c *call) accepted(round uint64) {
	c.data, c.held = nil, true
	c.claims.pushing.end()
	c.s.guardLog.flush(c.s.cfg.Logger)
	for seen := c.s.rounds.Load(); round >= seen; seen = c.s.rounds.Load() {
		c.s.rounds.CompareAndSwap(seen, round+1)
	}
}

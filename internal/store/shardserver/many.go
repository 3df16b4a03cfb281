package shardserver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A manyCall is what a call of a PushMany has besides. Each push is a call of its own, which is
// prepared, waits, is refused and is answered as that of a Push; only the frames are shared.
type manyCall struct {
	head    wire.PushMany
	answer  wire.PushedMany
	calls   []*call       // of the pushes, in their order
	payload [][]byte      // of the answer
	tried   bool          // the contributions were handed to their shards
	count   *atomic.Int64 // the sender's count of such pushes
}

// keepPushes is the number of pushes up to which the memory of a message is kept for the next one.
const keepPushes = 1024

func (c *call) manyHead() *wire.PushMany {
	if c.many == nil {
		c.many = &manyCall{}
	}
	return &c.many.head
}

// preparePushMany checks the message as a whole, whose payload has n bytes, and then each push. A
// push that is refused does not matter to the others.
func (c *call) preparePushMany(n int) error {
	pushes := c.many.head.Pushes
	if len(pushes) == 0 {
		return refuse(wire.CodeMalformed, "push many: got no push, want 1 to %d", wire.MaxPushes)
	}
	first := &pushes[0].Origin
	c.origin = first
	total := uint64(0)
	for i := range pushes {
		o := &pushes[i].Origin
		if o.Generation != first.Generation || o.Node != first.Node || o.Rank != first.Rank {
			return refuse(wire.CodeMalformed, "push many: push %d is of rank %d, node %d, in generation %d, want rank %d, node %d and generation %d as of push 0",
				i, o.Rank, o.Node, o.Generation, first.Rank, first.Node, first.Generation)
		}
		total += uint64(pushes[i].Size)
	}
	if total != uint64(n) || n > wire.MaxManyPayload {
		return refuse(wire.CodeSize, "push many: got %d bytes of payload, want %d for %d pushes, at most %d", n, total, len(pushes), wire.MaxManyPayload)
	}
	if err := c.beginMany(len(pushes)); err != nil {
		return err
	}
	if err := c.beginLoading(n); err != nil {
		return err
	}
	c.many.calls = c.s.newCalls(c.many.calls[:0], len(pushes))
	for i, x := range c.many.calls {
		x.kind, x.push = wire.KindPush, pushes[i].Push
		x.err = x.preparePush(int(pushes[i].Size))
	}
	return nil
}

// beginMany counts n pushes of the sender. Senders that are not members share one count.
func (c *call) beginMany(n int) error {
	count := &c.s.strangersMany
	if w := c.s.membership.Load().workers[c.origin.Node]; w != nil {
		count = w.many
	}
	if have := count.Add(int64(n)); have > c.s.limits.many {
		count.Add(-int64(n))
		return refuse(wire.CodeBusy, "push many: %d pushes of %s are under way in such messages already, got %d, want at most %d", have-int64(n), c.s.describe(c.origin.Node), n, c.s.limits.many)
	}
	c.many.count = count
	return nil
}

// manyPrompt reports whether all shards are small enough for Prompt.
func (c *call) manyPrompt() bool {
	for _, x := range c.many.calls {
		if x.err == nil && x.entry.cfg.Length > promptValues {
			return false
		}
	}
	return true
}

// tryPushMany hands every contribution to its shard, and answers if no push has to wait.
func (c *call) tryPushMany() (done bool) {
	m := c.many
	if !m.tried {
		m.tried = true
		c.contributeMany()
	}
	for _, x := range m.calls {
		if !x.done && x.err == nil {
			return false
		}
	}
	c.answerMany()
	return true
}

// contributeMany hands each contribution to its shard, in memory of its own, since the shard may
// keep it.
func (c *call) contributeMany() {
	var rest []byte
	if c.data != nil {
		rest = c.data.Bytes(int(c.loading))
	}
	for i, x := range c.many.calls {
		n := int(c.many.head.Pushes[i].Size)
		payload := rest[:n]
		rest = rest[n:]
		if x.err != nil {
			continue
		}
		x.arrived = c.arrived
		if n > 0 {
			x.data = c.s.pool.Get(n)
			copy(x.data.Bytes(n), payload)
		}
		x.done, x.err = x.tryPush()
	}
	c.data.Release()
	c.data = nil
	c.endLoading()
}

// servePushMany is tryPushMany, and waits. What other workers wait for, the contributions, never
// waits for another push of the message: one that is too early waits for its turn on a goroutine of
// its own. The others wait for their rounds, one after the other, since the sender waits for all.
func (c *call) servePushMany(ctx context.Context) error {
	if c.tryPushMany() {
		return nil
	}
	var early sync.WaitGroup
	defer early.Wait() // after a panic, too: the calls are recycled
	began, calls := time.Now(), c.many.calls
	for _, x := range calls {
		x.started = began // all wait until the same time
		if !x.done && x.err == nil && !x.held {
			x.done = true
			early.Go(func() { x.serveEarly(ctx) })
		}
	}
	for _, x := range calls {
		if !x.done && x.err == nil {
			x.err = x.servePush(ctx)
		}
	}
	early.Wait()
	c.answerMany()
	return nil
}

func (c *call) serveEarly(ctx context.Context) {
	defer c.s.recovered(c.kind, &c.err)
	c.err = c.servePush(ctx)
}

// answerMany makes the answer of all pushes.
func (c *call) answerMany() {
	m := c.many
	a := &m.answer
	a.Generation, a.Values, a.Refused, m.payload = c.s.membership.Load().generation, a.Values[:0], a.Refused[:0], m.payload[:0]
	for i, x := range m.calls {
		if x.err != nil {
			a.Refused = append(a.Refused, refusedPush(i, c.s.nack(x.err)))
			if x.push.Answer {
				a.Values = append(a.Values, wire.Value{})
			}
			continue
		}
		if x.push.Answer {
			a.Values = append(a.Values, x.value)
			if x.filled {
				m.payload = append(m.payload, x.payload[0])
			}
		}
	}
	c.message = a
}

// refusedPush is push i's part of the answer. Its text is cut, so that the answer stays a frame.
func refusedPush(i int, err error) wire.RefusedPush {
	const most = 128
	r := wire.RefusedPush{Index: uint32(i), Code: wire.CodeInternal, Text: err.Error()}
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		r.Code, r.Generation, r.Text = refusal.Code, refusal.Generation, refusal.Text
	}
	r.Text = strings.ToValidUTF8(r.Text[:min(len(r.Text), most)], "?")
	return r
}

// finishMany ends the calls of the pushes, and recycles them together.
func (c *call) finishMany() {
	m, s := c.many, c.s
	for _, x := range m.calls {
		x.end()
	}
	s.spareMu.Lock()
	s.spareCall = append(s.spareCall, m.calls[:min(len(m.calls), max(0, maxSpareCalls-len(s.spareCall)))]...)
	s.spareMu.Unlock()
	if m.count != nil {
		m.count.Add(-int64(len(m.head.Pushes)))
	}
	if cap(m.head.Pushes) > keepPushes {
		c.many = nil
		return
	}
	clear(m.head.Pushes)
	clear(m.calls)
	clear(m.payload)
	clear(m.answer.Refused)
	m.calls, m.payload, m.tried, m.count = m.calls[:0], m.payload[:0], false, nil
	m.head.Pushes, m.answer.Refused = m.head.Pushes[:0], m.answer.Refused[:0]
}

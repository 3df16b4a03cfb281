package shardserver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/freelist"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A manyCall is what a call of a PushMany has besides. Each push is a call of its own, which is
// prepared, waits, is refused and is answered as that of a Push; only the frames are shared.
//
// The calls of its pushes belong to the goroutine that has the call of the message, but for
// those that serveEarly has until servePushMany returns. They own their quotas; the message owns
// the payload until the contributions have been copied out of it.
type manyCall struct {
	head   wire.PushMany
	answer wire.PushedMany
	// calls are of the pushes, in their order.
	calls []*call
	// payload is the answer's.
	payload [][]byte
	// tried says that the contributions were handed to their shards.
	tried bool
	// pushes is what the message takes of the sender's budget of such pushes.
	pushes loading
}

// keepPushes is the number of pushes up to which the memory of a message is kept for the next one.
const keepPushes = 1024

// manyHead is where a PushMany is decoded. Its memory is kept with the call up to keepPushes.
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
	// Senders that are not members share one count.
	count, v := &c.s.budget.strangersMany, c.s.membership.Load()
	if w := v.workers[first.Node]; w != nil {
		count = w.many
	}
	if have, ok := c.many.begin(count, len(pushes), c.s.limits.many); !ok {
		return refuse(wire.CodeBusy, "push many: %d pushes of %s are under way in such messages already, got %d, want at most %d", have, v.describe(first.Node), len(pushes), c.s.limits.many)
	}
	if err := c.claims.load(c.kind, &c.s.budget, n, c.s.limits.loading); err != nil {
		return err
	}
	c.many.calls = c.s.newCalls(c.many.calls[:0], len(pushes))
	for i, x := range c.many.calls {
		x.kind, x.push = wire.KindPush, pushes[i].Push
		x.err = x.preparePush(int(pushes[i].Size))
	}
	return nil
}

// begin takes n pushes of the sender's budget, of which count is what is under way.
func (m *manyCall) begin(count *atomic.Int64, n int, limit int64) (have int64, ok bool) {
	have = count.Add(int64(n)) - int64(n)
	if have+int64(n) > limit {
		count.Add(-int64(n))
		return have, false
	}
	m.pushes = loading{count, int64(n)}
	return have, true
}

// prompt reports whether all shards are small enough for Prompt.
func (m *manyCall) prompt() bool {
	for _, x := range m.calls {
		if x.err == nil && x.entry.cfg.Length > promptValues {
			return false
		}
	}
	return true
}

// received ends the spans of the contributions, which began together.
func (m *manyCall) received(began int64) {
	for i, x := range m.calls {
		if x.err == nil {
			x.spans.receive, x.spans.bytes = began, int(m.head.Pushes[i].Size)
			x.received()
		}
	}
}

// waits reports whether a push has no answer yet.
func (m *manyCall) waits() bool {
	for _, x := range m.calls {
		if !x.done && x.err == nil {
			return true
		}
	}
	return false
}

// tryPushMany hands every contribution to its shard, and answers if no push has to wait. It may be
// called again, on another goroutine, when one has to: contributions are handed over once.
func (c *call) tryPushMany() (done bool) {
	m := c.many
	if !m.tried {
		m.tried = true
		var payload []byte
		if c.data != nil {
			payload = c.data.Bytes(int(c.claims.loading.bytes))
		}
		m.contribute(payload, c.arrived)
		c.data.Release()
		c.data = nil
		c.claims.loading.end()
	}
	if m.waits() {
		return false
	}
	c.reply.message = m.answered(c.s)
	return true
}

// contribute hands each contribution to its shard, in memory of its own, since the shard may keep
// it. payload has them one after the other, and was here at a time.
func (m *manyCall) contribute(payload []byte, arrived int64) {
	for i, x := range m.calls {
		n := int(m.head.Pushes[i].Size)
		part := payload[:n]
		payload = payload[n:]
		if x.err != nil {
			continue
		}
		x.arrived = arrived
		if n > 0 {
			x.data = x.s.pool.Get(n)
			copy(x.data.Bytes(n), part)
		}
		x.done, x.err = x.tryPush()
	}
}

// servePushMany is tryPushMany, and waits. What other workers wait for, the contributions, never
// waits for another push of the message: one that is too early waits for its turn on a goroutine of
// its own. The others wait for their rounds, one after the other, since the sender waits for all.
func (c *call) servePushMany(ctx context.Context) error {
	if c.tryPushMany() {
		return nil
	}
	var early sync.WaitGroup
	// The calls are recycled, after a panic, too.
	defer early.Wait()
	// All wait until the same time.
	began, calls := time.Now(), c.many.calls
	for _, x := range calls {
		x.patience.started = began
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
	c.reply.message = c.many.answered(c.s)
	return nil
}

// serveEarly is servePush on a goroutine of its own, where no one else catches a panic.
func (c *call) serveEarly(ctx context.Context) {
	defer c.s.recovered(c.kind, &c.err)
	c.err = c.servePush(ctx)
}

// answered makes the answer of all pushes.
func (m *manyCall) answered(s *Server) wire.Message {
	a := &m.answer
	a.Generation, a.Values, a.Refused, m.payload = s.membership.Load().generation, a.Values[:0], a.Refused[:0], m.payload[:0]
	for i, x := range m.calls {
		if x.err != nil {
			a.Refused = append(a.Refused, refusedPush(i, s.nack(x.err)))
			if x.push.Answer {
				a.Values = append(a.Values, wire.Value{})
			}
			continue
		}
		if x.push.Answer {
			a.Values = append(a.Values, x.reply.value)
			if x.reply.filled {
				m.payload = append(m.payload, x.reply.payload[0])
			}
		}
	}
	return a
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

// finish ends the calls of the pushes, and recycles them together. It returns whether the memory of
// the message is kept for the next one.
func (m *manyCall) finish(spare *freelist.List[call]) (kept bool) {
	for _, x := range m.calls {
		x.end()
	}
	spare.KeepMany(m.calls)
	m.pushes.end()
	if cap(m.head.Pushes) > keepPushes {
		return false
	}
	clear(m.head.Pushes)
	clear(m.calls)
	clear(m.payload)
	clear(m.answer.Refused)
	m.calls, m.payload, m.tried = m.calls[:0], m.payload[:0], false
	m.head.Pushes, m.answer.Refused = m.head.Pushes[:0], m.answer.Refused[:0]
	return true
}
